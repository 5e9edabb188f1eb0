"""The mount table of a viewfs, which leads its folders to those of one or more HDFS."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

_PREFIX = "fs.viewfs.mounttable"


@dataclass(frozen=True, slots=True)
class MountTable:
    """`links` are the mount points; what lies below none of them is the fallback's."""

    links: Collection[str] = ()

    @classmethod
    def of_properties(cls, properties: Mapping[str, str], name: str) -> MountTable:
        """That of a viewfs, by the authority in its URI, from Hadoop's properties."""
        prefix = f"{_PREFIX}.{name}.link."
        return cls([key.removeprefix(prefix).rstrip("/") for key in properties if key.startswith(prefix)])

    def mount_point(self, path: str) -> str:
        """The innermost mount point that a path lies in; the root for those of the fallback."""
        found = (link for link in self.links if f"{path}/".startswith(f"{link}/"))
        return max(found, key=len, default="/")
