"""Folders of registered tables and partitions. A missing folder is an error, not an empty folder."""

from __future__ import annotations

from hive_ingest.errors import PathNotFound
from hive_ingest.storage import FileEntry, Location


def list_registered(location: Location) -> list[FileEntry]:
    """List the folder of a table or partition. Raises PathNotFound, which says what to do."""
    try:
        return location.list()
    except PathNotFound as error:
        raise missing_folder(str(location)) from error


def missing_folder(location: str) -> PathNotFound:
    """The error for a registered folder that does not exist: its rows are elsewhere, or lost."""
    return PathNotFound(
        f"the folder {location!r} of a registered table or partition is missing: mount its file system or restore it "
        "from a backup; drop the table or partition if its rows are no longer wanted"
    )
