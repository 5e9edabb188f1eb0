"""Logs that are being written: their new lines are ingested as they come, through rotation and truncation."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from hive_ingest.errors import ConfigurationError, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import TableName
from hive_ingest.streaming.file_patterns import matching_files
from hive_ingest.streaming.files import IngestResult, ingest_files
from hive_ingest.streaming.texts import STDIN

DEFAULT_POLL_SECONDS = 1.0

#: Path, size and time of the last change of each file.
_State = tuple[tuple[str, int, int], ...]


def follow_files(
    metastore: MetastoreClient | str,
    table: str | TableName,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    poll_seconds: float = DEFAULT_POLL_SECONDS,
    stop: threading.Event | None = None,
    **options: Any,
) -> Iterator[IngestResult]:
    """Ingest files, and then again whenever one of them has changed or a new one matches, until `stop` is set.

    Files are recognised by their content (`source_key="content"`), so a log that is rotated by renaming, or copied and
    then emptied, is continued where it was. Include the rotated names, as in `app.log*`: lines that were written
    just before a rotation are read under the new name. A last line without its newline is left until it is whole.

    Args:
        metastore: A client, or the URI of a metastore.
        table: `"database.table"`.
        paths: Local files, folders and patterns. What matches nothing yet is waited for.
        poll_seconds: How long to wait before looking again.
        stop: Ends the iteration once it is set, after the round under way.
        options: As `ingest_files` takes them.

    Yields:
        The result of each round in which a file had changed.

    Raises:
        ConfigurationError: `poll_seconds` is not positive, or an option as in `ingest_files`.
        StreamingError: As `ingest_files`, unless the files have changed meanwhile.
    """
    if poll_seconds <= 0:
        raise ConfigurationError(f"poll_seconds={poll_seconds}: give a number above 0")
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if any(os.fspath(path) == STDIN for path in listed):
        raise ConfigurationError("the standard input cannot be followed: it is read to its end without follow")
    chosen = {"source_key": "content", "unfinished_line": "wait"} | options
    stop = stop or threading.Event()
    seen: _State = ()
    with opened_metastore(metastore) as client:
        while not stop.is_set():
            found = _state_of(listed)
            if found != seen and found:
                try:
                    result = ingest_files(client, table, [path for path, _, _ in found], **chosen)
                except StreamingIOFailure:
                    if _state_of(listed) == found:
                        raise
                    continue  # a file was rotated or emptied while it was read
                seen = found
                yield result
            stop.wait(poll_seconds)


def _state_of(paths: list[str | os.PathLike[str]]) -> _State:
    found = []
    for path in paths:
        try:
            for file in matching_files([path]):
                status = os.stat(file)
                found.append((file, status.st_size, status.st_mtime_ns))
        except (ConfigurationError, FileNotFoundError):
            continue  # nothing there yet, or not any more
    return tuple(found)
