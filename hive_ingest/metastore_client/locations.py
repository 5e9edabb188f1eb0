"""Locations as Hive writes them."""

from __future__ import annotations

from pathlib import Path

from hive_ingest.metastore_client.text_checks import check_text


def local_path(location: str) -> Path | None:
    """The path of `file:/abs`, `file:///abs` or a plain path; None for any other scheme.

    Nothing is percent-decoded: Hive writes paths as they are, so `%3A` in a location is a `%3A` on the disk.
    """
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme or not scheme:
        return Path(location)
    if scheme.lower() != "file":
        return None
    return Path("/" + rest.lstrip("/"))


def normal_location(location: str) -> str:
    """As Hive writes it: `file:/absolute/path` for anything local, other URIs without a slash at the end.

    Raises:
        ConfigurationError: It is not a text that a metastore can store.
    """
    check_text("a location", location)
    path = local_path(location)
    if path is None:
        return location.rstrip("/")
    return "file:" + str(path.expanduser().absolute())
