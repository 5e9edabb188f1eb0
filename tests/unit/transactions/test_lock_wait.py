"""A wait for a lock says who is in the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.errors import LockTimeout, SinkInUse
from hive_ingest.metastore_client import MetastoreClient, ddl_locks, wait_log
from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockRequest, LockType
from hive_ingest.reader import read_table
from hive_ingest.transactions import lock_wait
from tests.support.connections import connect
from tests.support.metastores import connect_in


class Clock:
    """Time passes only in `sleep`, a hundred times as fast as asked for."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 100 * seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (wait_log, lock_wait, ddl_locks):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, ddl_lock_wait_seconds=100) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int"})
        yield client


def lock_exclusively(ms: MetastoreClient) -> None:
    (txn,) = ms.open_txns(1)
    component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, "web", "t", operation_type=DataOperationType.UPDATE)
    ms.lock(LockRequest((component,), txn, user="me", hostname="here", agent_info="an update"))


def test_a_reader_that_waits_says_who_is_in_the_way_and_since_when(
    ms: MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger=wait_log.WAIT_LOGGER)
    lock_exclusively(ms)
    with pytest.raises(LockTimeout):
        read_table(ms, "web.t", lock_wait_seconds=100)
    first, *others = caplog.messages
    assert first.startswith("waiting for the read lock on web.t, ")
    assert "of me@here (an update) holds EXCLUSIVE on web.t since 20" in first
    assert 1 <= len(others) <= 3, "every half minute"


def test_a_writer_that_waits_for_a_source_names_it(ms: MetastoreClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=wait_log.WAIT_LOGGER)
    with connect(ms, sink="s", sources=["part-1", "part-2"]) as first, ms.clone() as client:
        first.begin_transaction()
        settings = {"lock_wait_seconds": 100}
        with (
            connect(client, sink="s", sources=["part-2"], settings=settings) as second,
            pytest.raises(SinkInUse, match=r"source 'part-2' of sink 's' was in use .* EXCL_WRITE on .*source=part-2"),
        ):
            second.begin_transaction()
    assert caplog.messages[0].startswith("waiting for locks on web.t, ")
    assert "holds EXCL_WRITE on web.s__progress.source=part-2 since" in caplog.messages[0]


def test_a_drop_that_waits_says_who_is_in_the_way(ms: MetastoreClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=wait_log.WAIT_LOGGER)
    lock_exclusively(ms)
    with pytest.raises(LockTimeout, match=r"me@here \(an update\) holds EXCLUSIVE on web.t"):
        ms.drop_table("web.t")
    assert caplog.messages[0].startswith("waiting for the EXCLUSIVE lock to drop table web.t, ")


def test_a_short_wait_is_not_logged(ms: MetastoreClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=wait_log.WAIT_LOGGER)
    lock_exclusively(ms)
    with pytest.raises(LockTimeout):
        read_table(ms, "web.t", lock_wait_seconds=0.5)
    assert caplog.messages == []
