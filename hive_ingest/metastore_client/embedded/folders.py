"""Folders of databases, tables and partitions, made and removed where they are local."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from pathlib import PurePath

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.metastore_client.locations import local_path
from hive_ingest.storage import LocalStore

_log = logging.getLogger(__name__)


def make_folders(locations: Iterable[str]) -> None:
    """Make the folders and their parents, on the device. Nothing is done remotely: the writer makes them there.

    Raises StreamingIOFailure.
    """
    store = LocalStore()
    made: list[str] = []
    for location in locations:
        path = local_path(location)
        if path is not None:
            made += store.make_folder(str(path))
    store.sync_folders({str(PurePath(folder).parent) for folder in made})


def is_inside(location: str, parent: str) -> bool:
    """`location` lies below `parent`, and is not `parent` itself. No `..` gets out of it."""
    child, above = local_path(location), local_path(parent)
    if child is None or above is None:
        return location.startswith(parent.rstrip("/") + "/") and "/../" not in f"{location}/"
    return child.resolve() != above.resolve() and child.resolve().is_relative_to(above.resolve())


def remove_folder(location: str, *, keep: Iterable[str]) -> None:
    """Remove a folder of something that is dropped, unless one of the locations `keep` is in it or is it.

    What cannot be removed is logged: the catalog no longer knows it, so nobody reads it.
    """
    path = local_path(location)
    if path is None or path.is_symlink() or not path.is_dir():
        return
    if any(_holds(location, other) for other in keep):
        _log.warning("%s is not removed: something else lies in it", location)
        return
    try:
        shutil.rmtree(path)
    except OSError as error:
        _log.warning("%s could not be removed (%s): remove it by hand", location, error)


def _holds(location: str, other: str) -> bool:
    return is_inside(other, location) or local_path(other) == local_path(location)


def move_folder(old: str, new: str) -> None:
    """Rename a table's folder. Raises StreamingIOFailure; nothing is moved then."""
    source, target = local_path(old), local_path(new)
    if source is None or target is None or not source.exists():
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    except OSError as error:
        raise StreamingIOFailure(f"{old} cannot be renamed to {new} ({error.strerror})") from error
