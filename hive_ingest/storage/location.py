"""Locations, as Hive writes them, and the file systems that hold them.

The local file system, HDFS, S3 and Azure Storage have stores of their own; Google Cloud Storage goes through
`pyarrow.fs` (see `arrow_store`).
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any, Final

import pyarrow as pa

from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.storage.arrow_store import ArrowStore
from hive_ingest.storage.azure.store import AzureStore
from hive_ingest.storage.file_store import FileEntry, FileStore, OutputFile, io_errors
from hive_ingest.storage.gs_filesystem import gs_filesystem
from hive_ingest.storage.hadoop_conf import core_site
from hive_ingest.storage.hdfs.store import HdfsStore
from hive_ingest.storage.local_store import LocalStore
from hive_ingest.storage.s3.store import S3Store

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*|)", re.DOTALL)
#: Schemes as Hadoop names them, and as pyarrow does.
_SCHEMES = {
    "hdfs": "hdfs",
    "viewfs": "viewfs",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "abfs": "abfs",
    "abfss": "abfs",
    "gs": "gs",
}
_HDFS: Final = frozenset({"hdfs", "viewfs"})
_LOCAL: Final = LocalStore()
_COPY_BYTES: Final = 8 << 20


class Location:
    """A path and the file system that it lies on, as one value.

    Locations compare, hash and pickle by their URI. Two on one file system share their store, so `a.store is b.store`
    says whether a rename between them is possible at all.

    Attributes:
        store: The file system.
        path: The path in it, without a trailing `/` and never percent-decoded.
        uri: As Hive writes it, such as `file:/warehouse/t` or `hdfs://nn/warehouse/t`.
    """

    __slots__ = ("path", "store", "uri")

    def __init__(self, store: FileStore, path: str, uri: str) -> None:
        self.store = store
        self.path = path
        self.uri = uri

    @classmethod
    def of(cls, uri: str) -> Location:
        """The location of `file:/path`, `file:///path`, a plain path, or a URI of hdfs, viewfs, s3a, abfs(s) or gs.

        A relative path counts from the working folder. The path is taken as it stands, like Hadoop's `Path`: `%3A`
        in it is part of a folder's name.

        Raises:
            ConfigurationError: `uri` is none of these.
        """
        parsed = _URI.fullmatch(uri)
        if not uri or "\0" in uri:
            raise ConfigurationError(f"{uri!r} is not a location: give a path or a URI such as 'file:/warehouse'")
        if parsed is None:
            if uri.lower().startswith("file:"):
                raise _not_local(uri)
            return cls._local(uri, "")
        scheme, authority, path = parsed[1].lower(), parsed[2] or "", parsed[3].rstrip("/")
        if scheme == "file":
            if authority not in ("", "localhost") or not parsed[3]:
                raise _not_local(uri)
            return cls._local(path or "/", "file:")
        if scheme not in _SCHEMES:
            known = ", ".join(["file", *_SCHEMES])
            raise ConfigurationError(f"{uri!r} has the unknown scheme {scheme!r}: use a path, or one of {known}")
        store, root = _store(_SCHEMES[scheme], authority)
        return cls(store, f"{root.rstrip('/')}{path}" or "/", f"{uri[: parsed.start(3)]}{path}")

    @classmethod
    def _local(cls, path: str, scheme: str) -> Location:
        path = os.path.abspath(path)
        return cls(_LOCAL, path, f"{scheme}{path}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The folder that it lies in."""
        return Location(self.store, self.path.rpartition("/")[0] or "/", self.uri.rpartition("/")[0] or "/")

    def __truediv__(self, name: str) -> Location:
        return Location(self.store, f"{self.path.rstrip('/')}/{name}", f"{self.uri.rstrip('/')}/{name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self.store is other.store and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __str__(self) -> str:
        return self.uri

    def __repr__(self) -> str:
        return f"Location({self.uri!r})"

    def __reduce__(self) -> Any:
        return Location.of, (self.uri,)

    # -- the store's methods, on this path ---------------------------------------------------------

    def exists(self) -> bool:
        return self.store.exists(self.path)

    def open_input(self) -> pa.NativeFile:
        """For random reads; the caller closes it."""
        return self.store.open_input(self.path)

    def create(self, *, sync: bool) -> OutputFile:
        """A new file. Raises PathExists."""
        return self.store.create(self.path, sync=sync)

    def make_folder(self, *, exist_ok: bool = True, parents: bool = True) -> list[str]:
        """As `FileStore.make_folder`."""
        return self.store.make_folder(self.path, exist_ok=exist_ok, parents=parents)

    def delete_file(self) -> None:
        self.store.delete_file(self.path)

    def delete_folder(self) -> None:
        self.store.delete_folder(self.path)

    def can_rename_to(self, target: Location) -> bool:
        """Whether both lie on one file system. `target` exists, or its folder does."""
        return self.store is target.store and self.store.can_rename(self.path, target.path)

    def rename(self, target: Location) -> None:
        """Give this file its new name in one step.

        Raises:
            PathExists: `target` already exists; it was not changed.
            UnsupportedFeature: They lie on different file systems.
        """
        self._require_store_of(target)
        self.store.rename(self.path, target.path)

    def publish(self, target: Location) -> None:
        """As `FileStore.publish`. Raises like `rename`."""
        self._require_store_of(target)
        self.store.publish(self.path, target.path)

    def _require_store_of(self, target: Location) -> None:
        if self.store is not target.store:
            raise UnsupportedFeature(f"cannot rename {self} to {target}: they are on different file systems")

    def announce_rename(self, target: Location, *, here: bool = False) -> None:
        """As `FileStore.announce_rename`, before this file is created."""
        if self.store is target.store:
            self.store.announce_rename(self.path, target.path, here=here)

    def list(self, *, recursive: bool = False, missing_ok: bool = False) -> list[FileEntry]:
        """What lies in the folder. Raises PathNotFound for a missing one, unless `missing_ok`."""
        return self.store.list(self.path, recursive=recursive, missing_ok=missing_ok)


def copy_file(source: Location, target: Location, *, sync: bool) -> None:
    """Copy a file to a new one, also between file systems. Raises PathExists; `target` is removed on any error."""
    with source.open_input() as file, target.create(sync=sync) as out:
        while block := _read(file, source):
            out.write(block)


def _read(file: pa.NativeFile, source: Location) -> pa.Buffer | None:
    with io_errors("read", source.path):
        block = file.read_buffer(_COPY_BYTES)
    return block if len(block) else None


def _not_local(uri: str) -> ConfigurationError:
    return ConfigurationError(f"{uri!r} is not a local path: write 'file:/absolute/path'")


@functools.lru_cache(maxsize=64)
def _store(scheme: str, authority: str) -> tuple[FileStore, str]:
    """The store of one authority, and the path of its root. Opened once for each process."""
    if scheme in _HDFS:
        return HdfsStore(f"{scheme}://{authority}/"), ""
    if scheme == "s3":
        return S3Store(authority), ""
    if scheme == "abfs":
        return AzureStore(authority), ""
    return ArrowStore(lambda: gs_filesystem(core_site())), authority
