"""Removes what compactions, overwrites and aborted transactions left. Source: Hive 4's `Cleaner` and its handlers.

A folder goes only when every snapshot that is open, or can be taken, reads the one that replaced it. What an aborted
transaction left is in no snapshot at all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from hive_ingest.acid import parse_folder_name
from hive_ingest.compaction.cleaner_lock import CleanerLock, locked_for_cleaning
from hive_ingest.compaction.leftovers import Leftovers, aborted_leftovers, obsolete_leftovers
from hive_ingest.compaction.policy import has_no_cleanup
from hive_ingest.compaction.target import Target, find_target, refuse_restored
from hive_ingest.errors import NoSuchCompaction, NoSuchObject, StreamingError, StreamingIOFailure, UnsupportedFeature
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    AbortedComponent,
    CompactionInfo,
    CompactionState,
    CompactionType,
    TableName,
    TxnId,
    WriteId,
)
from hive_ingest.plurals import counted
from hive_ingest.storage import Location
from hive_ingest.transactions import remove_leftovers

_log = logging.getLogger(__name__)
_ATTEMPT = re.compile(r"attempt (\d+) of \d+: ")


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """How a cleaner works.

    Attributes:
        retention_seconds: How long replaced files are kept after the commit that replaced them.
        retry_seconds: The wait after a failure, which doubles after each further one.
        max_attempts: After this number of failures the compaction ends as failed: the next one's cleaning removes what
            is left.
        aborted_threshold: More aborted transactions than this in a table or partition are cleaned without a
            compaction.
        aborted_grace_seconds: What an aborted transaction left is removed this time after its last heartbeat, because
            its writer may not know yet that it is aborted. None: the metastore's transaction timeout.
    """

    retention_seconds: float = 0.0
    retry_seconds: float = 300.0
    max_attempts: int = 5
    aborted_threshold: int = 0
    aborted_grace_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What was done about one compaction, or about the aborted transactions of a table or partition.

    Attributes:
        state: SUCCEEDED, REFUSED (NO_CLEANUP), FAILED, or READY_FOR_CLEANING where it is tried again later.
        removed: The folders and files that were removed.
    """

    info: CompactionInfo
    state: CompactionState
    removed: tuple[Location, ...] = ()
    message: str = ""


class Cleaner:
    """Cleans after the compactions of an embedded metastore. A real one has a cleaner of its own."""

    def __init__(
        self,
        client: MetastoreClient,
        settings: CleanerSettings | None = None,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Does nothing yet.

        Args:
            client: The metastore's.
            settings: How it works.
            is_stopped: Asked before each table or partition; True ends the round.

        Raises:
            UnsupportedFeature: The metastore has its own cleaner.
        """
        if client.has_own_cleaner:
            raise UnsupportedFeature(
                "a real Hive Metastore cleans after compactions itself (metastore.compactor.cleaner.on), ours included"
            )
        self._client = client
        self._settings = settings or CleanerSettings()
        self._is_stopped = is_stopped
        grace = self._settings.aborted_grace_seconds
        self._grace_seconds = client.txn_timeout_seconds if grace is None else grace

    def run_once(self, table: str | TableName | None = None) -> list[CleanResult]:
        """Clean all that may be cleaned now.

        Args:
            table: Only this one.

        Raises:
            MetastoreError: The metastore cannot be asked. What goes wrong with one table is in its result.
        """
        min_open = self._client.find_min_open_txn_id_for_cleaner()
        results: list[CleanResult] = []
        seen: set[int] = set()
        while not self._is_stopped() and (
            ready := [info for info in self._ready(table, min_open) if info.id not in seen]
        ):
            reach("after_find_ready_to_clean")
            seen.update(info.id for info in ready)
            done = [self._clean(info, min_open) for info in self._until_stopped(ready)]
            results += [result for result in done if result is not None]
        aborts = self._client.find_ready_to_clean_aborts(
            aborted_threshold=self._settings.aborted_threshold, table=table
        )
        found = map(self._clean_aborts, self._until_stopped(aborts))
        return results + [result for result in found if result is not None]

    def _until_stopped(self, infos: Iterable[CompactionInfo]) -> Iterator[CompactionInfo]:
        return takewhile(lambda _: not self._is_stopped(), infos)

    def _ready(self, table: str | TableName | None, min_open: TxnId) -> list[CompactionInfo]:
        """At most one of each table or partition, so that a second one is found once the first is done."""
        return self._client.find_ready_to_clean(
            min_open_txn_id=min_open, retention_seconds=self._settings.retention_seconds, table=table
        )

    # -- compactions -------------------------------------------------------------------------------

    def _clean(self, info: CompactionInfo, min_open: TxnId) -> CleanResult | None:
        try:
            with locked_for_cleaning(self._client, info) as lock:
                if lock is None:
                    _log.info("%s is locked by a DDL statement or an overwrite: it is cleaned later", info.table)
                    return None
                self._client.mark_cleaner_start(info)
                return self._clean_locked(info, min_open, lock)
        except NoSuchCompaction as error:
            # Another cleaner was faster, or the table was dropped or renamed.
            return CleanResult(info, CompactionState.SUCCEEDED, message=str(error))
        except StreamingError as error:
            return self._failed(info, error)

    def _clean_locked(self, info: CompactionInfo, min_open: TxnId, lock: CleanerLock) -> CleanResult:
        try:
            table = self._client.get_table(info.table)
            if table.is_partitioned and info.partition_name is None:
                return self._cleaned(info, (), "what was aborted before it named its partitions left no files")
            target = find_target(self._client, info.table, info.partition_name, table=table)
        except NoSuchObject as error:
            return self._cleaned(info, (), str(error))
        if has_no_cleanup(target.table.properties) or has_no_cleanup(target.properties):
            return self._refused(info, target)
        refuse_restored(self._client, target)
        return CleanResult(info, CompactionState.SUCCEEDED, self._remove_obsolete(info, target, min_open, lock))

    def _remove_obsolete(
        self, info: CompactionInfo, target: Target, min_open: TxnId, lock: CleanerLock
    ) -> tuple[Location, ...]:
        components = self._aborted_components(info, up_to=info.highest_write_id)
        obsolete = obsolete_leftovers(self._client, target, info, min_open)
        aborted = aborted_leftovers(target.location, components)
        removed = self._remove(target, [*obsolete, *aborted.folders], lock)
        gone = aborted.gone_with(obsolete, components)
        _sync_before_forgetting(target, gone)
        self._client.mark_cleaned(info, removed_txn_ids=gone)
        reach("after_mark_cleaned")
        return removed

    # -- aborted transactions ----------------------------------------------------------------------

    def _clean_aborts(self, info: CompactionInfo) -> CleanResult | None:
        if not self._aborted_components(info):
            return None
        try:
            with locked_for_cleaning(self._client, info) as lock:
                return None if lock is None else self._clean_aborts_locked(info, lock)
        except StreamingError as error:
            return self._failed(info, error)

    def _clean_aborts_locked(self, info: CompactionInfo, lock: CleanerLock) -> CleanResult | None:
        components = self._aborted_components(info)  # as they are under the lock
        found = self._aborted(info, components) if components else None
        if found is None:
            return None
        target, leftovers = found
        removed = self._remove(target, leftovers.folders, lock) if target is not None else ()
        gone = leftovers.gone_with((), components)
        if not gone and not removed:
            return None  # their rows lie in files with rows of others: a compaction has to leave them out
        _sync_before_forgetting(target, gone)
        self._client.mark_cleaned(info, removed_txn_ids=gone)
        reach("after_mark_cleaned")
        return CleanResult(info, CompactionState.SUCCEEDED, removed)

    def _aborted(
        self, info: CompactionInfo, components: Iterable[AbortedComponent]
    ) -> tuple[Target | None, Leftovers] | None:
        """Where to remove what. No target: there can be nothing. None: it must not be removed."""
        nothing = Leftovers((), ())
        try:
            table = self._client.get_table(info.table)
            if table.is_partitioned and info.partition_name is None:
                return None, nothing  # it ended before it named its partitions, and so before it published
            target = find_target(self._client, info.table, info.partition_name, table=table)
        except NoSuchObject:
            return None, nothing
        if has_no_cleanup(target.table.properties) or has_no_cleanup(target.properties):
            return None
        refuse_restored(self._client, target)
        return target, aborted_leftovers(target.location, components)

    def _aborted_components(self, info: CompactionInfo, *, up_to: WriteId | None = None) -> list[AbortedComponent]:
        """Without those of transactions whose writers may still be publishing."""
        return self._client.get_aborted_components(
            info.table, info.partition_name, up_to=up_to, silent_seconds=self._grace_seconds
        )

    # -- removal -----------------------------------------------------------------------------------

    def _remove(self, target: Target, leftovers: Iterable[Location], lock: CleanerLock) -> tuple[Location, ...]:
        """Remove them all; raises the first failure after trying every one."""
        remove_leftovers(self._client, Location.of(target.table.location))
        removed: list[Location] = []
        failures: list[StreamingIOFailure] = []
        for location in dict.fromkeys(leftovers):
            lock.require()
            try:
                _delete(location)
            except StreamingIOFailure as error:
                failures.append(error)
            else:
                removed.append(location)
                reach("between_removals")
        if failures:
            raise failures[0]
        if removed:
            _log.info("removed %s of %s", counted(len(removed), "folder or file", "folders and files"), target)
        reach("after_removals")
        return tuple(removed)

    def _cleaned(self, info: CompactionInfo, removed: tuple[Location, ...], message: str = "") -> CleanResult:
        try:
            self._client.mark_cleaned(info)
        except NoSuchCompaction as error:
            message = str(error)  # dropped meanwhile
        return CleanResult(info, CompactionState.SUCCEEDED, removed, message)

    def _refused(self, info: CompactionInfo, target: Target) -> CleanResult:
        message = f"{target} has NO_CLEANUP=true: nothing was removed"
        self._client.mark_refused(replace(info, error_message=message))
        return CleanResult(info, CompactionState.REFUSED, message=message)

    def _failed(self, info: CompactionInfo, error: StreamingError) -> CleanResult:
        """To be tried again, later each time."""
        attempts = _attempts(info) + 1
        message = f"attempt {attempts} of {self._settings.max_attempts}: {error}"
        place = f"{info.table} {info.partition_name or ''}".rstrip()
        _log.warning("cleaning %s: %s", place, message, extra={"compaction": info.id})
        noted = replace(info, error_message=message)
        try:
            if attempts >= self._settings.max_attempts and info.type is not CompactionType.ABORT_TXN_CLEANUP:
                self._client.mark_failed(noted)
                return CleanResult(noted, CompactionState.FAILED, message=message)
            delay = self._settings.retry_seconds * 2 ** min(attempts - 1, 10)
            self._client.set_cleaner_retry_retention(noted, delay)
        except StreamingError as failure:
            _log.warning("the failed cleaning of %s could not be noted: %s", info.table, failure)
        return CleanResult(noted, CompactionState.READY_FOR_CLEANING, message=message)


def _attempts(info: CompactionInfo) -> int:
    found = _ATTEMPT.match(info.error_message or "")
    return int(found[1]) if found else 0


def _sync_before_forgetting(target: Target | None, gone: Collection[TxnId]) -> None:
    """A folder that a power failure brings back would be read as committed once its transaction is forgotten.

    Also where this cleaner has removed nothing: one that was killed may have.
    """
    if target is not None and gone:
        target.location.store.sync_folders([target.location.path])


def _delete(location: Location) -> None:
    if parse_folder_name(location.name) is not None or _is_folder(location):
        location.delete_folder()
    else:
        location.delete_file()  # without the ACID columns, from before the table was transactional


def _is_folder(location: Location) -> bool:
    return any(entry.is_folder and entry.name == location.name for entry in location.parent.list())
