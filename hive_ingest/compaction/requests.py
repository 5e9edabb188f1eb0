"""Compactions on demand, and the removal of deleted rows from the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hive_ingest.compaction.cleaner import Cleaner, CleanerSettings
from hive_ingest.compaction.folder_state import FolderState
from hive_ingest.compaction.housekeeping import Housekeeper
from hive_ingest.compaction.job import JobSettings
from hive_ingest.compaction.overrides import check_overrides
from hive_ingest.compaction.policy import has_no_cleanup
from hive_ingest.compaction.target import find_target, partition_names_of
from hive_ingest.compaction.worker import Worker
from hive_ingest.errors import ConfigurationError, StreamingError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionInfo, CompactionState, CompactionType, TableName, TxnState

_log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.2
_WAITING = (CompactionState.INITIATED, CompactionState.WORKING)
#: So long a request may wait before a warning says that perhaps no worker runs.
NO_WORKER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """What became of a request.

    Attributes:
        id: The compaction's id in the queue, as `show compactions` has it.
        accepted: False: it, or one like it, was in the queue already.
        state: The last state seen. READY_FOR_CLEANING: what is read is compacted, the old files are still there.
        message: Why it failed or was refused.
    """

    table: TableName
    partition_name: str | None
    type: CompactionType
    id: int
    accepted: bool
    state: CompactionState
    message: str = ""


def compact(
    client: MetastoreClient,
    table: str | TableName,
    *,
    partition: str | None = None,
    kind: str = "major",
    properties: Mapping[str, str] | None = None,
    wait: bool = False,
    timeout_seconds: float | None = None,
    settings: JobSettings | None = None,
    as_worker: bool | None = None,
) -> list[CompactionOutcome]:
    """Request compactions, whatever the thresholds say.

    Args:
        client: The metastore's.
        table: `"database.table"`.
        partition: `"k=v/…"`; with leading keys only, all partitions below. None: every partition.
        kind: `"minor"` merges deltas, `"major"` writes a new base without deleted rows.
        properties: Stored with the request. Those named `tblprops.<name>` override the table's property for this
            compaction, such as `tblprops.orc.compress`; Hive's workers know others too.
        wait: Until they have ended.
        timeout_seconds: The longest wait. None: any time.
        settings: Of the worker that the caller is meanwhile.
        as_worker: Whether the caller works on the metastore's queue while it waits. None: on an embedded metastore, so
            that no worker has to run elsewhere; on a real one Hive's workers, or `hive-ingest compactor`, take them.

    Returns:
        One for each partition, by name; for a table without partitions one.

    Raises:
        NoSuchObject: There is no such table or partition.
        ConfigurationError: `kind`, `partition` or a property is not valid for the table.
        UnsupportedFeature: A worker outside the server cannot serve this metastore.
        MetastoreError: The metastore refused.
    """
    name = TableName.of(table)
    type_ = _type_of(kind)
    found = client.get_table(name)
    check_overrides(found, properties or {})
    if as_worker is None:
        as_worker = client.runs_compactions and not client.has_own_cleaner
    worker = Worker(client, settings) if as_worker and wait else None
    outcomes = []
    for each in partition_names_of(client, found, partition):
        response = client.compact(
            name, partition_name=each, compaction_type=type_, properties=properties, initiator_id="manual"
        )
        outcomes.append(CompactionOutcome(name, each, type_, response.id, response.accepted, response.state))
    return _Wait(client, name, timeout_seconds, worker).until_ended(outcomes) if wait else outcomes


def _type_of(kind: str) -> CompactionType:
    if kind.lower() not in ("minor", "major"):
        raise ConfigurationError(f"kind={kind!r}: a compaction is 'minor' or 'major'")
    return CompactionType[kind.upper()]


class _Wait:
    """Waits for compactions of one table, and works on the queue where that is of use."""

    def __init__(
        self, client: MetastoreClient, table: TableName, timeout_seconds: float | None, worker: Worker | None
    ) -> None:
        self._client, self._table = client, table
        self._began = time.monotonic()
        self._timeout = timeout_seconds
        self._has_warned = False
        self._housekeeper = Housekeeper(client)
        self._worker = worker

    def until_ended(self, outcomes: Sequence[CompactionOutcome]) -> list[CompactionOutcome]:
        while True:
            known = {info.id: info for info in self._client.show_compactions(self._table)}
            now = [_updated(outcome, known) for outcome in outcomes]
            if not any(outcome.state in _WAITING for outcome in now) or self._is_over:
                return now
            if self._worker is None or self._worker.run_once() is None:
                self._warn(now)
                self._housekeeper.run_if_due()
                time.sleep(_PAUSE_SECONDS)

    @property
    def _is_over(self) -> bool:
        return self._timeout is not None and time.monotonic() - self._began >= self._timeout

    def _warn(self, outcomes: Sequence[CompactionOutcome]) -> None:
        waiting = [outcome.id for outcome in outcomes if outcome.state is CompactionState.INITIATED]
        if waiting and not self._has_warned and time.monotonic() - self._began > NO_WORKER_SECONDS:
            self._has_warned = True
            _log.warning(
                "compaction %d of %s has waited for %.0f s and no worker has taken it: run hive-ingest compactor, or "
                "the workers of Hive (hive.compactor.worker.threads)",
                waiting[0],
                self._table,
                NO_WORKER_SECONDS,
            )


def _updated(outcome: CompactionOutcome, known: dict[int, CompactionInfo]) -> CompactionOutcome:
    info = known.get(outcome.id)
    if info is None:
        return outcome
    return CompactionOutcome(
        outcome.table,
        outcome.partition_name,
        outcome.type,
        outcome.id,
        outcome.accepted,
        info.state,
        info.error_message or "",
    )


# -- purge -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PurgeOutcome:
    """What a purge did in one partition, or in a table without partitions.

    Attributes:
        left: What may still hold deleted or overwritten rows: folders, or open write ids. Empty: nothing does.
        reasons: Why it is left.
    """

    table: TableName
    partition_name: str | None
    left: tuple[str, ...]
    reasons: tuple[str, ...] = ()


def purge(
    client: MetastoreClient,
    table: str | TableName,
    *,
    partition: str | None = None,
    timeout_seconds: float = 300.0,
    settings: JobSettings | None = None,
) -> list[PurgeOutcome]:
    """Remove deleted, overwritten and aborted rows from the disk, as requests for erasure need.

    A major compaction of each partition, then a wait for the readers that still need the old files, then their
    removal, whatever the retention. What cannot be removed in time is reported.

    Args:
        client: Of an embedded metastore: a real one has a cleaner of its own.
        table: `"database.table"`.
        partition: As for `compact`.
        timeout_seconds: How long to wait for readers and writers once the compactions have ended.
        settings: Of the compactions.

    Raises:
        UnsupportedFeature: The metastore has its own cleaner.
        NoSuchObject, ConfigurationError, MetastoreError: As for `compact`.
    """
    cleaner = Cleaner(client, CleanerSettings())
    outcomes = compact(client, table, partition=partition, kind="major", wait=True, settings=settings)
    if not all(outcome.accepted for outcome in outcomes):
        # One that was in the queue already may be a minor one, or have begun before the last rows were deleted.
        outcomes = compact(client, table, partition=partition, kind="major", wait=True, settings=settings)
    deadline = time.monotonic() + timeout_seconds
    while True:
        cleaner.run_once()
        found = [_purged(client, outcome) for outcome in outcomes]
        if not any(each.left for each in found) or time.monotonic() >= deadline:
            return found
        if not any(_may_still_go(outcome, client) for outcome in outcomes):
            return found
        time.sleep(_PAUSE_SECONDS)


def _may_still_go(outcome: CompactionOutcome, client: MetastoreClient) -> bool:
    """Whether waiting may help: its compaction waits for the cleaner, or aborted files for their grace."""
    states = {info.id: info.state for info in client.show_compactions(outcome.table)}
    waits = states.get(outcome.id) is CompactionState.READY_FOR_CLEANING
    return waits or bool(client.get_aborted_components(outcome.table, outcome.partition_name))


def _purged(client: MetastoreClient, outcome: CompactionOutcome) -> PurgeOutcome:
    try:
        target = find_target(client, outcome.table, outcome.partition_name)
        valid_txns = client.get_valid_txns()
        (snapshot,) = client.get_valid_write_ids([outcome.table], valid_txns)
        state = FolderState.read(target.location, snapshot, valid_txns)
    except StreamingError as error:
        return PurgeOutcome(outcome.table, outcome.partition_name, ("(not known)",), (str(error),))
    left = [folder.name for folder in (*state.obsolete, *state.aborted)]
    reasons: list[str] = []
    if left:
        reasons += _why_left(client, outcome)
        if has_no_cleanup(target.table.properties) or has_no_cleanup(target.properties):
            reasons.append("NO_CLEANUP=true is set: remove the property, then purge again")
    if outcome.state is CompactionState.FAILED:
        left += [folder.name for folder in state.deltas]
    if state.delete_deltas or outcome.state is CompactionState.FAILED:
        left += [folder.name for folder in state.delete_deltas]
        reasons.append(
            f"the major compaction did not include them: it is {outcome.state.text}"
            + (f" ({outcome.message})" if outcome.message else "")
            + (f"; write id {snapshot.min_open} is still open" if snapshot.min_open else "")
        )
    if state.directory.has_uncompacted_aborts:
        left.append("rows of aborted transactions in files with rows of others")
        reasons.append("there was nothing to merge them with: purge again after the next insert")
    return PurgeOutcome(outcome.table, outcome.partition_name, tuple(left), tuple(reasons))


def _why_left(client: MetastoreClient, outcome: CompactionOutcome) -> Iterator[str]:
    info = {info.id: info for info in client.show_compactions(outcome.table)}.get(outcome.id)
    if info is None:
        return
    if info.error_message:
        yield info.error_message
    if info.state is CompactionState.READY_FOR_CLEANING and info.next_txn_id is not None:
        transactions = client.get_open_txns_info().transactions
        older = [each.id for each in transactions if each.state is TxnState.OPEN and each.id < info.next_txn_id]
        if older:
            yield f"open transactions may read them: {', '.join(map(str, older[:5]))}"
