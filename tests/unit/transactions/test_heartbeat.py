"""Heartbeats keep only our own transactions alive, and the owner learns of lost ones."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hive_ingest.errors import MetastoreUnavailable, TxnAborted
from hive_ingest.model import HeartbeatTxnRange, TxnId
from hive_ingest.transactions.heartbeat import Heartbeater, contiguous_ranges
from tests.support.waiting import wait_until


class FakeClient:
    """Answers range heartbeats from a script; counts them."""

    txn_timeout_seconds = 0.15

    def __init__(self, answers: list[HeartbeatTxnRange | Exception] | None = None) -> None:
        self.answers = answers or []
        self.ranges: list[tuple[int, int]] = []
        self.beat = threading.Event()
        self.threads: set[int] = set()

    def clone(self) -> FakeClient:
        return self

    def close(self) -> None:
        pass

    def heartbeat_txn_range(self, low: TxnId, high: TxnId) -> HeartbeatTxnRange:
        self.ranges.append((low, high))
        self.threads.add(threading.get_ident())
        answer = self.answers.pop(0) if self.answers else HeartbeatTxnRange()
        if not self.answers:
            self.beat.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


def heartbeater(client: Any) -> Heartbeater:
    return Heartbeater(client)


def ids(*values: int) -> list[TxnId]:
    return [TxnId(value) for value in values]


def test_heartbeat_ranges_hold_only_our_own_transactions() -> None:
    assert contiguous_ranges(ids(9, 3, 4, 5, 7)) == [(3, 5), (7, 7), (9, 9)]
    assert contiguous_ranges([]) == []


def test_open_transactions_get_heartbeats_from_a_separate_thread() -> None:
    client = FakeClient()
    beats = heartbeater(client)
    try:
        beats.watch(ids(4, 5, 9))
        wait_until(lambda: len(client.ranges) >= 2)
    finally:
        beats.stop()
    assert client.ranges[:2] == [(4, 5), (9, 9)]
    assert threading.get_ident() not in client.threads


def test_a_failed_heartbeat_is_retried_and_costs_nothing() -> None:
    client = FakeClient([MetastoreUnavailable("gone"), HeartbeatTxnRange()])
    beats = heartbeater(client)
    try:
        beats.watch(ids(1))
        assert client.beat.wait(60)
        beats.raise_if_lost(TxnId(1))
    finally:
        beats.stop()
    assert len(client.ranges) >= 2


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError("no route to host"), RuntimeError("a driver's own")])
def test_no_error_of_a_heartbeat_stops_the_heartbeats(error: Exception) -> None:
    """An error that was not a StreamingError ended the thread for good, and all transactions timed out."""
    client = FakeClient([error, error, HeartbeatTxnRange()])
    beats = heartbeater(client)
    try:
        beats.watch(ids(1, 5))
        assert client.beat.wait(60)
        wait_until(lambda: len(client.ranges) >= 5)
        beats.raise_if_lost(TxnId(1))
    finally:
        beats.stop()


def test_no_error_of_a_tick_or_of_connecting_stops_the_heartbeats(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeClient()
    refusals: list[Exception] = [OSError("too many open files"), MetastoreUnavailable("gone")]

    def clone() -> FakeClient:
        if refusals:
            raise refusals.pop()
        return client

    def tick(_: Any) -> None:
        raise ValueError("a bug in the tick")

    beats = Heartbeater(cast(Any, SimpleNamespace(txn_timeout_seconds=0.15, clone=clone)), tick)
    try:
        beats.watch(ids(1))
        wait_until(lambda: len(client.ranges) >= 3)
    finally:
        beats.stop()
    messages = " ".join(record.getMessage() for record in caplog.records)
    assert all(text in messages for text in ("too many open files", "gone", "a bug in the tick"))


def test_lost_transactions_get_no_more_heartbeats() -> None:
    client = FakeClient([HeartbeatTxnRange(aborted=frozenset(ids(2)))])
    beats = heartbeater(client)
    try:
        beats.watch(ids(1, 2, 3))
        wait_until(lambda: (3, 3) in client.ranges)
        beats.forget(ids(2))
        assert not beats.lost
    finally:
        beats.stop()
    assert client.ranges[:3] == [(1, 3), (1, 1), (3, 3)]


def test_a_transaction_that_the_metastore_aborted_is_reported_to_its_owner() -> None:
    client = FakeClient([HeartbeatTxnRange(aborted=frozenset(ids(1)))])
    beats = heartbeater(client)
    try:
        beats.watch(ids(1, 2))
        wait_until(lambda: bool(beats.lost))
        beats.raise_if_lost(TxnId(2))
        with pytest.raises(TxnAborted, match="transaction 1 is gone"):
            beats.raise_if_lost(TxnId(1))
    finally:
        beats.stop()


def test_the_age_counts_from_the_sending_of_the_last_answered_heartbeat() -> None:
    beats = heartbeater(FakeClient([MetastoreUnavailable("gone")] * 1000))
    try:
        beats.watch(ids(1))
        time.sleep(0.3)
        assert beats.age_seconds(TxnId(1)) >= 0.3
    finally:
        beats.stop()


def test_a_transaction_that_has_just_ended_has_no_age() -> None:
    """Statistics are read by other threads while the owner commits."""
    beats = heartbeater(FakeClient())
    try:
        beats.watch([TxnId(1), TxnId(2)])
        beats.forget([TxnId(1)])
        assert beats.age_if_watched(TxnId(1)) is None
        assert beats.age_if_watched(TxnId(2)) is not None
        count, age = beats.open_transactions()
        assert count == 1
        assert age is not None
        beats.forget([TxnId(2)])
        assert beats.open_transactions() == (0, None)
    finally:
        beats.stop()


def test_stop_is_idempotent_and_leaves_no_thread() -> None:
    before = threading.active_count()
    beats = heartbeater(FakeClient())
    beats.watch(ids(1))
    beats.stop()
    beats.stop()
    assert threading.active_count() == before


def test_a_transaction_that_another_thread_has_ended_is_aborted_not_unknown() -> None:
    beats = heartbeater(FakeClient())
    try:
        beats.watch(ids(1))
        assert beats.age_seconds(TxnId(1)) >= 0
        beats.forget(ids(1))
        with pytest.raises(TxnAborted, match="transaction 1 was ended while it was being committed"):
            beats.age_seconds(TxnId(1))
    finally:
        beats.stop()
