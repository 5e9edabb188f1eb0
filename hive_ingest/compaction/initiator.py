"""Requests the compactions that tables need. Source: Hive 4's `Initiator`."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from hive_ingest.compaction.folder_state import FolderState
from hive_ingest.compaction.kept_delta import MAY_KEEP
from hive_ingest.compaction.policy import CompactionPolicy, Decision, has_no_auto_compaction
from hive_ingest.compaction.target import Target, find_target
from hive_ingest.compaction.waiting import WaitingRequests
from hive_ingest.errors import NoSuchObject, PathNotFound, StreamingError
from hive_ingest.events import PartitionExamined, report
from hive_ingest.identity import this_host
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    CompactionCandidate,
    CompactionInfo,
    CompactionResponse,
    CompactionState,
    CompactionType,
    Table,
    TableName,
    WriteId,
)

_log = logging.getLogger(__name__)
_UNDER_WAY = (CompactionState.INITIATED, CompactionState.WORKING)
_DONE = (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED)
#: The most tables and partitions that are examined in one round. Those that need no compaction stay among the
#: candidates, and with a low limit they would keep others out forever.
_MOST_CANDIDATES = 100_000
#: A folder that needed no compaction is looked at again after this time, although nothing was committed to it.
_LOOK_AGAIN_SECONDS = 300.0
#: Fewer candidates are examined by the caller's thread: several would contend with a writer for the interpreter.
_WORTH_THREADS = 8
_Place: TypeAlias = tuple[TableName, str | None]


@dataclass(frozen=True, slots=True)
class Initiated:
    """What an initiator decided about a table or partition, and the answer to its request if it made one.

    Attributes:
        error: Why it could not decide.
        is_suspended: Nothing is requested because the last compactions failed.
        is_resting: Nothing is requested yet because the last compaction has just ended.
    """

    table: TableName
    partition_name: str | None
    decision: Decision
    response: CompactionResponse | None = None
    error: StreamingError | None = None
    is_suspended: bool = False
    is_resting: bool = False


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A decision against a compaction, what was known of the table or partition then, and when that was."""

    candidate: CompactionCandidate
    table: Table
    decision: Decision
    at: float


class Initiator:
    """Looks at what was written, and requests compactions by a policy."""

    def __init__(
        self,
        client: MetastoreClient,
        policy: CompactionPolicy | None = None,
        *,
        version: str = "",
        check_interval_seconds: float | None = None,
        threads: int = 2,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Does nothing yet.

        Args:
            client: The metastore's.
            policy: When to compact.
            version: Shown by SHOW COMPACTIONS as the initiator's.
            check_interval_seconds: Look only at what was written within this time; None for all that was written since
                its last compaction.
            threads: How many threads read folders.
            is_stopped: Asked before each folder; True ends the round.
        """
        self._client = client
        self._policy = policy or CompactionPolicy()
        self._version = version
        self._interval = check_interval_seconds
        self._threads = threads
        self._is_stopped = is_stopped
        self._id = f"{this_host()}-initiator"
        self._remembered: dict[_Place, _Remembered] = {}
        self._waiting = WaitingRequests()

    def run_once(self) -> list[Initiated]:
        """One round over all tables.

        Raises:
            UnsupportedFeature: The metastore is a real one, which has an initiator of its own.
            MetastoreError: The metastore cannot be asked. What goes wrong with one table is in its result.
        """
        candidates = self._client.find_potential_compactions(
            aborted_threshold=self._policy.aborted_threshold,
            aborted_time_threshold_seconds=self._policy.aborted_age_seconds,
            check_interval_seconds=self._interval,
            limit=_MOST_CANDIDATES,
        )
        places = {(each.table, each.partition_name) for each in candidates}
        self._remembered = {place: each for place, each in self._remembered.items() if place in places}
        return self._look_at(candidates, self._client.show_compactions()) if candidates else []

    def examine(self, places: Iterable[tuple[TableName, str | None]], *, is_hurried: bool = False) -> list[Initiated]:
        """Look at certain tables and partitions, as after a commit. Any metastore takes the requests.

        Args:
            places: A table without partitions, with None, or a table with the name of a partition.
            is_hurried: A compaction is requested although the last one has just ended.

        Raises:
            MetastoreError: The metastore cannot be asked. What goes wrong with one table is in its result.
        """
        candidates = [CompactionCandidate(table, partition) for table, partition in places]
        tables = dict.fromkeys(each.table for each in candidates)
        known = [info for table in tables for info in self._client.show_compactions(table)]
        return self._look_at(candidates, known, may_rest=not is_hurried)

    def _look_at(
        self, candidates: list[CompactionCandidate], known: list[CompactionInfo], *, may_rest: bool = False
    ) -> list[Initiated]:
        self._waiting.warn(known)
        tables = self._tables(candidates)
        of_place: dict[_Place, list[CompactionInfo]] = defaultdict(list)
        for info in known:
            of_place[info.table, info.partition_name].append(info)

        def initiate(each: CompactionCandidate) -> Initiated | None:
            known = of_place.get((each.table, each.partition_name), [])
            if may_rest and (rest := self._rest_seconds(known)):
                decision = Decision(None, f"rests for {rest:.1f} s after its last compaction")
                return Initiated(each.table, each.partition_name, decision, is_resting=True)
            return self._initiate(each, tables[each.table], known)

        if len(candidates) < _WORTH_THREADS:
            return [found for found in map(initiate, candidates) if found is not None]
        with ThreadPoolExecutor(self._threads, "initiator") as threads:
            return [each for each in threads.map(initiate, candidates) if each is not None]

    def _tables(self, candidates: Iterable[CompactionCandidate]) -> dict[TableName, Table | None]:
        """Each table once; None where it was dropped."""
        found: dict[TableName, Table | None] = {}
        for name in dict.fromkeys(each.table for each in candidates):
            try:
                found[name] = self._client.get_table(name)
            except NoSuchObject:
                found[name] = None
        return found

    def _initiate(
        self, candidate: CompactionCandidate, table: Table | None, known: list[CompactionInfo]
    ) -> Initiated | None:
        if self._is_stopped():
            return None
        if table is None or table.is_partitioned != bool(candidate.partition_name):
            return None  # dropped, or a transaction that ended before it named its partitions
        try:
            return self._decide_and_request(candidate, table, known)
        except (NoSuchObject, PathNotFound) as error:
            _log.info("%s is not looked at: it is being dropped or cleaned: %s", candidate.table, error)
            return None
        except StreamingError as error:
            if self._note(candidate, str(error), known):
                place = _text(candidate)
                _log.warning("whether %s needs a compaction is not known: %s", place, error, extra={"candidate": place})
            decision = Decision(None, f"is not known: {error}")
            return Initiated(candidate.table, candidate.partition_name, decision, error=error)

    def _decide_and_request(
        self, candidate: CompactionCandidate, table: Table, known: list[CompactionInfo]
    ) -> Initiated | None:
        name, partition = candidate.table, candidate.partition_name
        reason = _why_not(table, known)
        if reason is None and (decision := self._recall(candidate, table)) is not None:
            return Initiated(name, partition, decision)
        if reason is None and not _succeeded_last(known) and self._failed_too_often(candidate):
            reason = (
                f"the last {self._policy.failed_threshold} compactions failed, so none is requested within "
                f"{self._policy.failed_retry_seconds:g} s of the last one: correct the cause, then run hive-ingest "
                "compact"
            )
            self._note(candidate, reason, known)
            return Initiated(name, partition, Decision(None, reason), is_suspended=True)
        if reason is not None:
            return Initiated(name, partition, Decision(None, reason))
        decision = self._decide(candidate, find_target(self._client, name, partition, table=table), known)
        if decision.type is None:
            return Initiated(name, partition, decision)
        response = self._client.compact(
            name,
            partition_name=partition,
            compaction_type=decision.type,
            properties={MAY_KEEP: "true"} if decision.may_keep_large_delta else None,
            initiator_id=self._id,
            initiator_version=self._version,
        )
        if response.accepted:
            _log.info("%s compaction of %s: %s", decision.type.name.lower(), _text(candidate), decision.reason)
        return Initiated(name, partition, decision, response)

    def _decide(self, candidate: CompactionCandidate, target: Target, known: list[CompactionInfo]) -> Decision:
        valid_txns = self._client.get_valid_txns()
        (snapshot,) = self._client.get_valid_write_ids([target.table.name], valid_txns)
        compactor = snapshot.for_compactor()
        if not _has_merged(known, compactor.high_water_mark):
            if candidate.too_many_aborts:
                aborted = self._policy.aborted_threshold
                return Decision(CompactionType.MAJOR, f"more than {aborted} aborted transactions")
            if candidate.has_old_abort:
                return Decision(CompactionType.MINOR, "an old aborted transaction")
        state = FolderState.read(target.location, compactor, valid_txns)
        report(
            PartitionExamined(
                str(candidate.table),
                candidate.partition_name or "",
                deltas=state.delta_count,
                delta_bytes=state.delta_bytes,
                base_bytes=state.base_bytes,
            )
        )
        last = [info.end_ms or info.commit_time_ms or 0 for info in known if info.state in _DONE]
        since = time.time() - max(last) / 1000 if last else None
        decision = self._policy.decide(state, target.table.properties, seconds_since_last=since)
        if decision.type is None and not snapshot.open:
            self._remember(candidate, target.table, decision)
        return decision

    def _remember(self, candidate: CompactionCandidate, table: Table, decision: Decision) -> None:
        """That a folder needs no compaction: it cannot need one before the next commit, except by age."""
        if candidate.commits and self._policy.max_age_seconds is None:
            place = (candidate.table, candidate.partition_name)
            self._remembered[place] = _Remembered(candidate, table, decision, time.monotonic())

    def _recall(self, candidate: CompactionCandidate, table: Table) -> Decision | None:
        found = self._remembered.get((candidate.table, candidate.partition_name))
        if found is None or (found.candidate, found.table) != (candidate, table):
            return None
        return found.decision if time.monotonic() - found.at < _LOOK_AGAIN_SECONDS else None

    def _rest_seconds(self, newest_first: Iterable[CompactionInfo]) -> float:
        """How long it still rests. By the clock of this machine; one that is far off lets nothing rest."""
        last = next((info for info in newest_first if info.state in _DONE), None)
        ended_ms = last and (last.commit_time_ms or last.end_ms)
        if last is None or not ended_ms or not last.start_ms:
            return 0.0
        rest = self._policy.rest_seconds((ended_ms - last.start_ms) / 1000)
        left = ended_ms / 1000 + rest - time.time()
        return left if 0 < left <= rest else 0.0

    def _failed_too_often(self, candidate: CompactionCandidate) -> bool:
        return self._client.check_failed_compactions(
            candidate.table,
            candidate.partition_name,
            threshold=self._policy.failed_threshold,
            retry_seconds=self._policy.failed_retry_seconds,
        )

    def _note(self, candidate: CompactionCandidate, message: str, known: list[CompactionInfo]) -> bool:
        """Into the history, as `did not initiate`, where the server takes it from others.

        Returns:
            False if it is the latest entry already.
        """
        if known and known[0].state is CompactionState.DID_NOT_INITIATE and known[0].error_message == message:
            return False
        if not self._client.runs_compactions:
            return True
        info = CompactionInfo(
            id=0,
            table=candidate.table,
            partition_name=candidate.partition_name,
            type=CompactionType.MINOR,
            state=CompactionState.DID_NOT_INITIATE,
            error_message=message,
            initiator_id=self._id,
            initiator_version=self._version,
        )
        try:
            self._client.mark_failed(info)
        except StreamingError as error:
            _log.warning("that %s was not compacted is not in the history: %s", _text(candidate), error)
        return True


def _why_not(table: Table, known: list[CompactionInfo]) -> str | None:
    if not table.is_transactional or table.is_insert_only:
        return "only full ACID tables are compacted"
    if has_no_auto_compaction(table.properties):
        return "the table has NO_AUTO_COMPACTION=true"
    for info in known:
        if info.state in _UNDER_WAY:
            return f"compaction {info.id} is {info.state.text}"
    return None


def _succeeded_last(newest_first: Iterable[CompactionInfo]) -> bool:
    """Whether the latest compaction succeeded. The history does not have it yet if it waits for the cleaner."""
    ended = (info.state for info in newest_first if info.state in (*_DONE, CompactionState.FAILED))
    return next(ended, None) in _DONE


def _has_merged(known: Iterable[CompactionInfo], highest: WriteId) -> bool:
    """Whether a compaction has merged everything up to `highest`: another one would remove nothing from the folder."""
    done = (*_DONE, CompactionState.REFUSED)
    return any(info.state in done and (info.highest_write_id or 0) >= highest for info in known)


def _text(candidate: CompactionCandidate) -> str:
    return f"{candidate.table} {candidate.partition_name or ''}".rstrip()
