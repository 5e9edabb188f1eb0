"""ORC files and ACID folders as they are on the disk, without a metastore."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from hive_ingest.acid import FLUSH_LENGTH_SUFFIX, is_hidden
from hive_ingest.errors import PathNotFound, StreamingError
from hive_ingest.orc import FileSummary, summarise_file
from hive_ingest.storage import Location


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that is not a whole ORC file, or cannot be read."""

    path: str
    message: str


def inspect_path(path: str | os.PathLike[str]) -> Iterator[FileSummary | UnreadableFile]:
    """The summary of an ORC file, or of each file below a folder but for hidden ones, by path.

    Raises:
        PathNotFound: There is no such file or folder.
        StreamingIOFailure: A folder cannot be read.
    """
    for file in _files(Location.of(os.fspath(path))):
        try:
            yield summarise_file(file)
        except StreamingError as error:
            yield UnreadableFile(file.path, str(error))


def _files(location: Location) -> Iterator[Location]:
    entry = next((entry for entry in location.parent.list(missing_ok=True) if entry.name == location.name), None)
    if entry is None and location.path != "/":
        raise PathNotFound(f"there is no file or folder {str(location)!r}: correct the path")
    if entry is not None and not entry.is_folder:
        yield location
        return
    for found in location.list(recursive=True):
        below = found.path.removeprefix(location.path).strip("/").split("/")
        if not (found.is_folder or any(map(is_hidden, below)) or found.name.endswith(FLUSH_LENGTH_SUFFIX)):
            yield location / "/".join(below)
