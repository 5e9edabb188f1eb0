"""Folders of databases, tables and partitions: made, moved, and put out of sight.

Object stores cannot move a folder, and where this library only reads, it makes none either.
"""

from __future__ import annotations

from collections.abc import Iterable

from hive_ingest.errors import InvalidOperation, StreamingIOFailure, UnsupportedFeature
from hive_ingest.metastore_client.locations import local_path
from hive_ingest.storage import FileStore, Location

#: Of the folders that hold rows of an ACID table.
_ACID_PREFIXES = ("base_", "delta_", "delete_delta_")


def make_folders(locations: Iterable[str], *, inside: str | None = None) -> None:
    """Make the folders and their parents, on the device.

    Args:
        locations: Of the folders.
        inside: A folder that must be there already: if it is missing, its disk may not be mounted, and what is made
            below the mount point would disappear with the next mount.

    Raises:
        StreamingIOFailure: A folder cannot be made, or `inside` is missing.
    """
    wanted = [place for place in map(Location.of, locations) if place.store.has_folders]
    if inside is not None and wanted and not Location.of(inside).exists():
        raise StreamingIOFailure(
            f"cannot make a folder in {Location.of(inside).path!r}, which is in the catalog and is missing: mount its "
            "disk, or restore it"
        )
    made: dict[FileStore, set[str]] = {}
    for place in wanted:
        above = {folder.rpartition("/")[0] or "/" for folder in place.make_folder()}
        made.setdefault(place.store, set()).update(above)
    for store, folders in made.items():
        store.sync_folders(sorted(folders))
        store.unmark_folders(folders)


def refuse_acid_files(location: str, what: str) -> None:
    """Raises InvalidOperation if the folder holds deltas or bases: their rows would appear in `what`."""
    folder = Location.of(location)
    if not folder.store.has_folders:
        return
    found = next((entry.name for entry in folder.list(missing_ok=True) if entry.name.startswith(_ACID_PREFIXES)), None)
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
    return location == parent or is_inside(location, parent) or _is_same_path(location, parent)


def _is_same_path(one: str, other: str) -> bool:
    path = local_path(one)
    return path is not None and path == local_path(other)


def rename_folder(source: Location, target: Location) -> None:
    """Rename, on the device. Raises StreamingIOFailure."""
    source.store.rename_folder(source.path, target.path)
    source.store.sync_folders(sorted({source.parent.path, target.parent.path}))


def require_free(location: str, what: str) -> None:
    """Raises InvalidOperation unless a folder can be renamed to `location`: it is missing, or empty."""
    folder = Location.of(location)
    if folder.store.can_rename_folders and not folder.store.is_free(folder.path):
        raise InvalidOperation(f"{what} cannot get the folder {location}, which is not empty: remove it, or its name")


def require_movable(source: str, target: str) -> None:
    """Check that a folder can be renamed, before anything depends on it.

    Raises:
        StreamingIOFailure: It is missing, or certainly cannot be renamed to `target`.
        UnsupportedFeature: It lies on an object store, or they lie on different file systems.
    """
    old, new = Location.of(source), Location.of(target)
    if not old.store.can_rename_folders or old.store is not new.store:
        raise UnsupportedFeature(
            f"{source} cannot be renamed to {target} from here: create a new table and copy the rows"
        )
    why = old.store.why_not_renamable(old.path, new.path)
    if why is not None:
        raise StreamingIOFailure(f"{old.path} cannot be renamed to {new.path}, and nothing was changed: {why}")
