"""Logs that are being written: their new lines are ingested as they come, through rotation and truncation."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from hive_ingest.connection import CommitInfo
from hive_ingest.errors import ConfigurationError, StreamingIOFailure, TooManyBadRecords
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import TableName
from hive_ingest.streaming.files.ingest import IngestResult, ingest_files
from hive_ingest.streaming.files.patterns import matching_files
from hive_ingest.streaming.files.texts import STDIN

_log = logging.getLogger(__name__)

DEFAULT_POLL_SECONDS = 1.0
#: A file may be unreadable while it is rotated or compressed, for so long.
_RETRY_SECONDS: Final = 60.0

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
        options: As `ingest_files` takes them, but neither `overwrite` nor `dry_run`. `max_bad_records` counts over all
            rounds.

    Yields:
        The result of each round in which a file had changed.

    Raises:
        ConfigurationError: `poll_seconds` is not positive, or an option as in `ingest_files`.
        TooManyBadRecords: More than `max_bad_records` were skipped since the first round.
        StreamingIOFailure: No round has succeeded for a minute; until then a file may be in the middle of a rotation.
        StreamingError: As `ingest_files`.
    """
    if poll_seconds <= 0:
        raise ConfigurationError(f"poll_seconds={poll_seconds}: give a number above 0")
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if any(os.fspath(path) == STDIN for path in listed):
        raise ConfigurationError("the standard input cannot be followed: it is read to its end without follow")
    for name in ("overwrite", "dry_run"):
        if options.get(name):
            raise ConfigurationError(
                f"{name}=True cannot be used for files that are followed: each round would begin anew"
            )
    limit = _BadRecordLimit(options.get("max_bad_records"), options.get("on_commit"))
    chosen = {"source_key": "content", "unfinished_line": "wait"} | options | {"on_commit": limit.count}
    stop = stop or threading.Event()
    seen: _State = ()
    failing_since: float | None = None
    with opened_metastore(metastore) as client:
        while not stop.is_set():
            found = _state_of(listed)
            if found != seen and found:
                try:
                    chosen["max_bad_records"] = limit.left
                    result = ingest_files(client, table, [path for path, _, _ in found], **chosen)
                except TooManyBadRecords as error:
                    limit.explain(error)
                    raise
                except StreamingIOFailure as error:
                    now = monotonic()
                    if failing_since is None:
                        failing_since = now
                        _log.warning("%s; trying again: a file may be in the middle of a rotation", error)
                    if now - failing_since >= _RETRY_SECONDS:
                        raise
                else:
                    seen, failing_since = found, None
                    yield result
            stop.wait(poll_seconds)


class _BadRecordLimit:
    """The limit of bad records of all rounds, of which each counts from 0.

    Args:
        most: The limit, if there is one.
        on_commit: Called after each commit.
    """

    def __init__(self, most: int | None, on_commit: Callable[[CommitInfo], None] | None) -> None:
        self._most = most
        self._on_commit = on_commit
        self._skipped = 0

    @property
    def left(self) -> int | None:
        """How many more may be skipped."""
        return None if self._most is None else self._most - self._skipped

    def count(self, info: CommitInfo) -> None:
        """Count those of a committed transaction."""
        self._skipped += info.records_skipped
        if self._on_commit is not None:
            self._on_commit(info)

    def explain(self, error: TooManyBadRecords) -> None:
        """Say how the limit of a round came about."""
        if self._skipped and self._most is not None:
            error.add_note(
                f"{self._skipped} were skipped in earlier rounds, of the {self._most} that are allowed in all"
            )


def _state_of(paths: list[str | os.PathLike[str]]) -> _State:
    found = []
    for path in paths:
        try:
            files = list(matching_files([path]))
        except ConfigurationError:
            continue  # nothing there yet
        for file in files:
            with suppress(FileNotFoundError):  # renamed meanwhile: the other files are read nevertheless
                status = os.stat(file)
                found.append((file, status.st_size, status.st_mtime_ns))
    return tuple(found)
