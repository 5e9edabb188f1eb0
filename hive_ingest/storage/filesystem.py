"""From a location, as Hive writes it, to the file system that holds it.

The only place that opens files. Nothing but the local file system has been run: the other schemes go through
`pyarrow.fs` (see `arrow_store`).
"""

from __future__ import annotations

import os
import re

import pyarrow as pa
import pyarrow.fs as pafs

from hive_ingest.errors import ConfigurationError
from hive_ingest.storage.arrow_store import ArrowStore
from hive_ingest.storage.file_store import FileEntry, FileStore, OutputFile, told_as_io_failure
from hive_ingest.storage.local_store import LocalStore

__all__ = ["ArrowStore", "FileEntry", "FileStore", "LocalStore", "OutputFile", "open_store"]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*|)", re.DOTALL)
#: Schemes as Hadoop names them, and as pyarrow does.
_SCHEMES = {
    "hdfs": "hdfs",
    "viewfs": "viewfs",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "abfs": "abfs",
    "abfss": "abfss",
    "gs": "gs",
}


def open_store(location: str) -> tuple[FileStore, str]:
    """The store of a location and the path in it, without a trailing `/`.

    `location` is `file:/path`, `file:///path`, a plain path (a relative one counts from the working folder),
    or a URI of hdfs, viewfs, s3a, abfs, abfss or gs. The path is taken as it stands, like Hadoop's `Path`:
    `%3A` in it is part of a folder's name. Raises ConfigurationError for anything else.
    """
    uri = _URI.fullmatch(location)
    if not location or "\0" in location:
        raise ConfigurationError(f"{location!r} is no location: give a path or a URI such as 'file:/warehouse'")
    if uri is None and location.lower().startswith("file:"):
        raise ConfigurationError(f"{location!r} is no local path: write 'file:/absolute/path'")
    if uri is None:
        return LocalStore(), os.path.abspath(location)
    scheme, authority, path = uri[1].lower(), uri[2] or "", uri[3]
    if scheme == "file":
        return LocalStore(), _local_path(location, authority, path)
    if scheme not in _SCHEMES:
        known = ", ".join(["file", *_SCHEMES])
        raise ConfigurationError(f"{location!r} has the unknown scheme {scheme!r}: use a path, or one of {known}")
    return _open_arrow(location, _SCHEMES[scheme], authority, path)


def _local_path(location: str, authority: str, path: str) -> str:
    if authority not in ("", "localhost") or not path:
        raise ConfigurationError(f"{location!r} is no local path: write 'file:/absolute/path'")
    return os.path.abspath(path)


def _open_arrow(location: str, scheme: str, authority: str, path: str) -> tuple[FileStore, str]:
    # Only the authority goes through pyarrow: it would percent-decode the path.
    with told_as_io_failure("open the file system of", location):
        try:
            filesystem, root = pafs.FileSystem.from_uri(f"{scheme}://{authority}/")
        except (ValueError, pa.ArrowInvalid) as error:
            raise ConfigurationError(f"{location!r} cannot be opened: {error}") from error
    return ArrowStore(filesystem), f"{root.rstrip('/')}{path.rstrip('/')}" or "/"
