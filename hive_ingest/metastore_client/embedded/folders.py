"""Folders of databases, tables and partitions, where they are local: made, moved, and put out of sight."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from hive_ingest.errors import InvalidOperation, StreamingIOFailure
from hive_ingest.metastore_client.locations import local_path
from hive_ingest.storage import LocalStore

#: Of the folders that hold rows of an ACID table.
_ACID_PREFIXES = ("base_", "delta_", "delete_delta_")


def make_folders(locations: Iterable[str], *, inside: str | None = None) -> None:
    """Make the folders and their parents, on the device. Nothing is done remotely: the writer makes them there.

    Args:
        locations: Of the folders.
        inside: A folder that must be there already: if it is missing, its disk may not be mounted, and what is made
            below the mount point would disappear with the next mount.

    Raises:
        StreamingIOFailure: A folder cannot be made, or `inside` is missing.
    """
    store = LocalStore()
    parent = None if inside is None else local_path(inside)
    if parent is not None and not parent.is_dir():
        raise StreamingIOFailure(
            f"cannot make a folder in {str(parent)!r}, which is in the catalog and is missing: mount its disk, or "
            "restore it"
        )
    made: list[str] = []
    for location in locations:
        path = local_path(location)
        if path is not None:
            made += store.make_folder(str(path))
    store.sync_folders({str(PurePath(folder).parent) for folder in made})


def refuse_acid_files(location: str, what: str) -> None:
    """Raises InvalidOperation if the folder holds deltas or bases: their rows would appear in `what`."""
    path = local_path(location)
    if path is None or not path.is_dir():
        return
    found = next((name for name in os.listdir(path) if name.startswith(_ACID_PREFIXES)), None)
    if found is not None:
        raise InvalidOperation(
            f"{what}: its folder {location} already holds ACID files ({found!r}), whose rows would appear in it: "
            "remove them if nobody needs them, or choose another location"
        )


def is_inside(location: str, parent: str) -> bool:
    """`location` lies below `parent`, and is not `parent` itself. No `..` gets out of it."""
    child, above = local_path(location), local_path(parent)
    if child is None or above is None:
        return location.startswith(parent.rstrip("/") + "/") and "/../" not in f"{location}/"
    return child.resolve() != above.resolve() and child.resolve().is_relative_to(above.resolve())


def is_same_or_inside(location: str, parent: str) -> bool:
    """As `is_inside`, or `parent` itself."""
    return is_inside(location, parent) or local_path(location) == local_path(parent)


def rename_folder(source: Path, target: Path) -> None:
    """Rename, on the device. Raises StreamingIOFailure."""
    try:
        source.rename(target)
    except OSError as error:
        raise StreamingIOFailure(f"{source} cannot be renamed to {target} ({error.strerror})") from error
    LocalStore().sync_folders({str(source.parent), str(target.parent)})


def require_free(location: str, what: str) -> None:
    """Raises InvalidOperation unless a folder can be renamed to `location`: it is missing, or empty."""
    path = local_path(location)
    if path is not None and os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise InvalidOperation(f"{what} cannot get the folder {location}, which is not empty: remove it, or its name")


def require_movable(source: str, target: str) -> None:
    """Check that a folder can be renamed, before anything depends on it.

    Raises:
        StreamingIOFailure: It is missing, or certainly cannot be renamed to `target`.
    """
    old, new = local_path(source), local_path(target)
    if old is None or new is None:
        return
    why = _why_not_movable(old, new)
    if why is not None:
        raise StreamingIOFailure(f"{old} cannot be renamed to {new}, and nothing was changed: {why}")


def _why_not_movable(source: Path, target: Path) -> str | None:
    try:
        device = source.lstat().st_dev  # of a symbolic link, which is renamed itself
        above = {folder: folder.stat().st_dev for folder in (source.parent, target.parent)}
    except OSError as error:
        return f"{error.filename} cannot be looked at ({error.strerror}): mount its disk, or restore it"
    closed = [str(folder) for folder in above if not os.access(folder, os.W_OK | os.X_OK)]
    if closed:
        return f"this user cannot write to {' and '.join(closed)}: change the permissions, or mount it writable"
    if set(above.values()) != {device}:
        return "they are on different file systems, or it is a mount point: create a new table and copy the rows"
    return None
