"""How a transaction gets its id, its write ids and its locks."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from hive_ingest.config import StreamingSettings
from hive_ingest.model import TxnId
from hive_ingest.transactions.heartbeat import Heartbeater
from hive_ingest.transactions.opener import TransactionOpener


class FakeClient:
    """Counts transactions. A test adds further methods that it needs."""

    txn_timeout_seconds = 300.0

    def __init__(self) -> None:
        self.opened = 0
        self.aborted: list[TxnId] = []

    def open_txns(self, count: int, **_: Any) -> list[TxnId]:
        first = self.opened + 1
        self.opened += count
        return [TxnId(txn_id) for txn_id in range(first, first + count)]

    def abort_txns(self, txn_ids: list[TxnId], *, reason: str) -> None:
        self.aborted += txn_ids


def test_lost_prefetched_transactions_are_forgotten() -> None:
    """The heartbeater kept it for as long as the connection lived."""
    client: Any = FakeClient()
    heartbeater = Heartbeater(client)
    plan: Any = SimpleNamespace(agent_info="a test")
    opener = TransactionOpener(client, plan, heartbeater, StreamingSettings(), 3)
    try:
        assert opener._next_txn() == 1
        heartbeater.lost |= {TxnId(2): "timed out", TxnId(3): "timed out"}
        assert opener._next_txn() == 4
    finally:
        heartbeater.stop()
    assert heartbeater.lost == {}
    assert sorted(heartbeater._last_good) == [1, 4, 5, 6]


def test_transactions_that_no_thread_keeps_alive_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When no thread could be started, they stayed open until the timeout."""
    client: Any = FakeClient()
    heartbeater = Heartbeater(client)
    plan: Any = SimpleNamespace(agent_info="a test")
    opener = TransactionOpener(client, plan, heartbeater, StreamingSettings(), 3)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            opener._next_txn()
    assert client.aborted == [1, 2, 3]
    assert opener.remaining == 0
    try:
        assert opener._next_txn() == 4
    finally:
        heartbeater.stop()
