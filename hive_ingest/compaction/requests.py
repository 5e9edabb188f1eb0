"""Compactions on demand."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hive_ingest.compaction.housekeeping import Housekeeper
from hive_ingest.compaction.job import NOTHING_TO_MERGE, JobSettings
from hive_ingest.compaction.overrides import check_overrides
from hive_ingest.compaction.target import partition_names_of
from hive_ingest.compaction.waiting import WaitingRequests
from hive_ingest.compaction.worker import Worker
from hive_ingest.errors import ConfigurationError, InvalidTable
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import CompactionInfo, CompactionState, CompactionType, Table, TableName

_PAUSE_SECONDS = 0.2
#: While there is work, the queue is read only after this many times as long as reading it last took.
_REST = 10
_WAITING = (CompactionState.INITIATED, CompactionState.WORKING)
#: How a refusal begins that there is nothing to do for; the second one is of Hive's own workers.
_NOT_NEEDED = (NOTHING_TO_MERGE, "None of the compaction thresholds met")


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """What became of a request.

    Attributes:
        id: The compaction's id in the queue, as `show compactions` has it.
        accepted: False: it, or one like it, was in the queue already, or nothing was written since one that waits for
            the cleaner.
        state: The last state seen. READY_FOR_CLEANING: what is read is compacted, the old files are still there.
            REFUSED: there was nothing to do, or the table or partition was dropped or renamed since the request.
        message: Why it failed or was refused.
    """

    table: TableName
    partition_name: str | None
    type: CompactionType
    id: int
    accepted: bool
    state: CompactionState
    message: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether it failed, or was refused although there is something to merge."""
        if self.state is CompactionState.REFUSED:
            return not self.message.startswith(_NOT_NEEDED)
        return self.state is CompactionState.FAILED


def compact(
    metastore: MetastoreClient | str,
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

    With `wait`, a compaction that was in the queue already and may not do what is asked for, because it is a minor one
    or had begun before, is waited for, and then the request is made again.

    Args:
        metastore: A client, or the URI of a metastore.
        table: `"database.table"`.
        partition: `"k=v/…"`; with leading keys only, all partitions below. None: every partition.
        kind: `"minor"` merges deltas, `"major"` writes a new base without deleted rows.
        properties: Stored with the request. Those named `tblprops.<name>` override the table's property for this
            compaction, such as `tblprops.orc.compress`; Hive's workers know others too.
        wait: Whether to wait until they have ended.
        timeout_seconds: The longest wait. None: no limit.
        settings: Of the caller's worker; see `as_worker`.
        as_worker: Whether the caller works on the metastore's queue while it waits. None: on an embedded metastore, so
            that no worker has to run elsewhere; on a real one Hive's workers, or `hive-ingest compactor`, take them.

    Returns:
        One for each partition, by name; for a table without partitions one.

    Raises:
        NoSuchObject: There is no such table or partition.
        InvalidTable: The table is not one that is compacted.
        ConfigurationError: `kind`, `partition` or a property is not valid for the table.
        UnsupportedFeature: A worker outside the server cannot serve this metastore.
        MetastoreError: The metastore refused.
    """
    name = TableName.of(table)
    type_ = _type_of(kind)
    with opened_metastore(metastore) as client:
        partitions = requested_partitions(client, name, partition=partition, properties=properties)
        if as_worker is None:
            as_worker = client.runs_compactions and not client.has_own_cleaner
        worker = Worker(client, settings) if as_worker and wait else None

        def request(partitions: Iterable[str | None]) -> list[CompactionOutcome]:
            return [_request(client, name, each, type_, properties) for each in partitions]

        outcomes = request(partitions)
        if not wait:
            return outcomes
        waiting = _Wait(client, name, timeout_seconds, worker)
        ended = waiting.until_ended(outcomes)
        others = {
            after.partition_name
            for before, after in zip(outcomes, ended, strict=True)
            if _is_another(before, after, type_) and after.state not in _WAITING
        }
        again = {each.partition_name: each for each in waiting.until_ended(request(others))} if others else {}
        return [again.get(each.partition_name, each) for each in ended]


def requested_partitions(
    client: MetastoreClient,
    table: str | TableName,
    *,
    partition: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> list[str | None]:
    """The partitions for which `compact` makes a request, by name; [None] for a table without partitions.

    Raises:
        NoSuchObject, InvalidTable, ConfigurationError: As `compact`.
    """
    found = client.get_table(table)
    _check_table(client, found)
    check_overrides(found, properties or {})
    return partition_names_of(client, found, partition)


def _request(
    client: MetastoreClient,
    table: TableName,
    partition: str | None,
    type_: CompactionType,
    properties: Mapping[str, str] | None,
) -> CompactionOutcome:
    response = client.compact(
        table, partition_name=partition, compaction_type=type_, properties=properties, initiator_id="manual"
    )
    return CompactionOutcome(table, partition, type_, response.id, response.accepted, response.state)


def _is_another(before: CompactionOutcome, after: CompactionOutcome, wanted: CompactionType) -> bool:
    """Whether the compaction that was in the queue did not do all that was asked for.

    It may have begun before the latest commits, and a minor one keeps deleted rows.
    """
    if before.accepted or before.state not in _WAITING:
        return False
    return before.state is CompactionState.WORKING or (
        wanted is CompactionType.MAJOR and after.type is not CompactionType.MAJOR
    )


def _check_table(client: MetastoreClient, table: Table) -> None:
    """Refuses what no worker would compact. Hive's own workers also compact insert-only tables."""
    if not table.is_transactional or (table.is_insert_only and not client.has_own_cleaner):
        kind = "insert-only" if table.is_transactional else "not transactional"
        raise InvalidTable(f"{table.name} is {kind}: only full ACID tables are compacted")


def _type_of(kind: str) -> CompactionType:
    if kind.lower() not in ("minor", "major"):
        raise ConfigurationError(f"kind={kind!r}: a compaction is 'minor' or 'major'")
    return CompactionType[kind.upper()]


class _Wait:
    """Waits for compactions of one table, and meanwhile works on the queue if it has a worker."""

    def __init__(
        self, client: MetastoreClient, table: TableName, timeout_seconds: float | None, worker: Worker | None
    ) -> None:
        self._client, self._table = client, table
        self._began = time.monotonic()
        self._timeout = timeout_seconds
        self._waiting = WaitingRequests()
        self._housekeeper = Housekeeper(client)
        self._worker = worker

    def until_ended(self, outcomes: Sequence[CompactionOutcome]) -> list[CompactionOutcome]:
        while True:
            began = time.monotonic()
            known = {info.id: info for info in self._client.show_compactions(self._table)}
            now = [_updated(outcome, known) for outcome in outcomes]
            if not any(outcome.state in _WAITING for outcome in now) or self._is_over:
                return now
            if not self._work(_REST * (time.monotonic() - began)):
                self._waiting.warn(known[outcome.id] for outcome in outcomes if outcome.id in known)
                self._housekeeper.run_if_due()
                time.sleep(_PAUSE_SECONDS)

    def _work(self, seconds: float) -> bool:
        """Carry out compactions of the queue for at least `seconds`. Returns whether there were any."""
        end = time.monotonic() + seconds
        did_work = False
        while self._worker is not None and self._worker.run_once() is not None:
            did_work = True
            if time.monotonic() >= end or self._is_over:
                break
        return did_work

    @property
    def _is_over(self) -> bool:
        return self._timeout is not None and time.monotonic() - self._began >= self._timeout


def _updated(outcome: CompactionOutcome, known: dict[int, CompactionInfo]) -> CompactionOutcome:
    info = known.get(outcome.id)
    if info is None:
        return replace(
            outcome,
            state=CompactionState.REFUSED,
            message="no longer in the queue: its table or partition was dropped or renamed since the request",
        )
    return replace(outcome, type=info.type, state=info.state, message=info.error_message or "")
