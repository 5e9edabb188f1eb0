"""What a metastore's queue and transactions become."""

from __future__ import annotations

from hive_ingest.metrics.metastore import MetastoreState
from hive_ingest.model import (
    CompactionInfo,
    CompactionState,
    CompactionType,
    OpenTxnsInfo,
    TableName,
    TxnId,
    TxnInfo,
    TxnState,
)

NOW = 1_000_000.0


def compaction(id: int, state: CompactionState, partition: str | None = None, at: int | None = None) -> CompactionInfo:
    return CompactionInfo(id, TableName.of("web.t"), partition, CompactionType.MINOR, state, enqueue_time_ms=at)


def transaction(id: int, state: TxnState, started_ms: int) -> TxnInfo:
    return TxnInfo(TxnId(id), state, "me", "here", "", started_ms, started_ms)


def state_of(*compactions: CompactionInfo, transactions: tuple[TxnInfo, ...] = ()) -> MetastoreState:
    return MetastoreState.of(compactions, OpenTxnsInfo(TxnId(99), transactions), NOW)


def test_an_empty_metastore_has_zeros() -> None:
    queue = {"initiated": 0, "working": 0, "ready_for_cleaning": 0}
    assert state_of() == MetastoreState(queue, 0.0, 0, 0, 0.0, 0)


def test_the_queue_is_counted_by_state_and_the_oldest_request_by_age() -> None:
    found = state_of(
        compaction(4, CompactionState.INITIATED, "p=1", 990_000),
        compaction(3, CompactionState.INITIATED, "p=2", 970_000),
        compaction(2, CompactionState.WORKING, "p=3", 900_000),
        compaction(1, CompactionState.SUCCEEDED, "p=4", 800_000),
    )
    assert found.queue == {"initiated": 2, "working": 1, "ready_for_cleaning": 0}
    assert found.oldest_request_seconds == 30


def test_a_partition_fails_while_its_latest_compaction_failed() -> None:
    found = state_of(
        compaction(6, CompactionState.DID_NOT_INITIATE, "p=1"),
        compaction(5, CompactionState.FAILED, "p=1"),
        compaction(4, CompactionState.FAILED, "p=1"),
        compaction(3, CompactionState.SUCCEEDED, "p=2"),
        compaction(2, CompactionState.FAILED, "p=2"),
        compaction(1, CompactionState.FAILED),
    )
    assert found.failing_partitions == 2


def test_open_and_aborted_transactions_are_counted_apart() -> None:
    found = state_of(
        transactions=(
            transaction(1, TxnState.ABORTED, 100),
            transaction(2, TxnState.OPEN, 940_000),
            transaction(3, TxnState.OPEN, 999_000),
        )
    )
    assert (found.open_transactions, found.oldest_transaction_seconds, found.aborted_transactions) == (2, 60, 1)


def test_a_clock_that_is_behind_gives_no_negative_age() -> None:
    found = state_of(transactions=(transaction(1, TxnState.OPEN, 1_005_000),))
    assert found.oldest_transaction_seconds == 0
