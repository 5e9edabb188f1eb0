"""Exactly once: progress commits with the data, and a source has only one owner."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection, TransactionState
from hive_ingest.errors import (
    ConfigurationError,
    InvalidTransactionState,
    LockTimeout,
    SerializationError,
    SinkConflict,
    SinkInUse,
    TxnAborted,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, TableName
from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.streaming.sinks import latest_progress
from tests.services.kinds import Address
from tests.support import connections
from tests.support.metastores import connect_in
from tests.support.rows import ids
from tests.support.tables import create_table
from tests.support.warehouses import warehouse_in


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore)
    return metastore


def connect(client: Any, *sources: str, table: str = "t", **options: Any) -> StreamingConnection:
    options.setdefault("sink", "flights")
    settings = {"lock_wait_seconds": 1.0} | options.pop("settings", {})
    return connections.connect(
        client,
        table,
        sources=sources,
        settings=settings,
        agent_info=options.pop("agent_info", "test"),
        **options,
    )


def commit(conn: StreamingConnection, row: int, positions: dict[str, Any]) -> None:
    conn.begin_transaction()
    conn.write(f'{{"id": {row}}}'.encode())
    conn.commit_transaction(positions=positions)


def positions(conn: StreamingConnection) -> dict[str, Any]:
    return {source: row and row.position for source, row in conn.progress.items()}


def peek(client: MetastoreClient, *sources: str) -> dict[str, Any]:
    with connect(client, *sources) as conn:
        conn.begin_transaction()
        found = positions(conn)
        conn.abort_transaction()
        return found


def test_a_position_is_found_again_by_the_next_owner(ms: MetastoreClient) -> None:
    with connect(ms, "a") as conn:
        conn.begin_transaction()
        assert conn.progress == {"a": None}
        conn.write(b'{"id": 1}')
        conn.commit_transaction(positions={"a": {"offset": 10, "name": "ü"}})
        assert positions(conn) == {"a": {"offset": 10, "name": "ü"}}
    assert peek(ms, "a") == {"a": {"offset": 10, "name": "ü"}}


def test_a_sink_that_has_its_progress_table_is_not_asked_to_create_it(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query connects for each micro-batch."""
    connect(ms, "a").close()
    monkeypatch.setattr(type(ms), "create_table", lambda *_, **__: pytest.fail("create_table was called"))
    with connect(ms, "a") as conn:
        commit(conn, 1, {"a": 1})


def test_progress_is_stored_as_rows_that_anybody_can_read(ms: MetastoreClient) -> None:
    with connect(ms, "a", "b") as conn:
        commit(conn, 1, {"a": 1})
        commit(conn, 2, {"a": 2, "b": "x"})
    rows = hi.read_table(ms, "web.flights__progress").sort_by([("sequence", "ascending"), ("source", "ascending")])
    shown = [(r["sequence"], r["source"], r["position"], r["epoch"], r["version"]) for r in rows.to_pylist()]
    assert shown == [(1, "a", "1", 0, 1), (1, "b", '"x"', 0, 1), (2, "a", "2", 0, 1)]


def test_an_aborted_transaction_advances_no_position(ms: MetastoreClient) -> None:
    with connect(ms, "a") as conn:
        commit(conn, 1, {"a": 1})
        conn.begin_transaction()
        conn.write(b'{"id": 2}')
        conn.abort_transaction()
        conn.begin_transaction()
        assert positions(conn) == {"a": 1}
        conn.abort_transaction()
    assert ids(ms) == [1]


def test_each_commit_carries_the_positions_of_all_sources_owned(ms: MetastoreClient) -> None:
    with connect(ms, "a", "b") as conn:
        commit(conn, 1, {"a": 1, "b": 1})
        for i in range(2, 5):
            commit(conn, i, {"a": i})
    assert peek(ms, "a", "b") == {"a": 4, "b": 1}


def test_sources_of_one_sink_have_separate_owners_at_the_same_time(ms: MetastoreClient) -> None:
    with connect(ms, "a") as one, connect(ms, "b") as two:
        one.begin_transaction()
        two.begin_transaction()
        one.write(b'{"id": 1}')
        two.write(b'{"id": 2}')
        two.commit_transaction(positions={"b": 2})
        one.commit_transaction(positions={"a": 1})
        for i in range(3, 7):
            commit((one, two)[i % 2], i, {("a", "b")[i % 2]: i})
    assert peek(ms, "a", "b") == {"a": 6, "b": 5}
    assert ids(ms) == [1, 2, 3, 4, 5, 6]


def test_the_time_of_a_commit_has_one_type_and_value_however_it_is_read(ms: MetastoreClient) -> None:
    """It was a datetime after a commit, and a pandas.Timestamp when it was read where pandas is installed."""
    with connect(ms, "a") as conn:
        commit(conn, 1, {"a": 1})
        written = conn.progress["a"]
    with connect(ms, "a") as conn:
        conn.begin_transaction()
        read = conn.progress["a"]
        conn.abort_transaction()
    from_outside = latest_progress(ms, "web.flights__progress")["a"]
    times = [row.written_at for row in (written, read, from_outside) if row is not None]
    assert [type(time) for time in times] == [dt.datetime] * 3
    assert len(set(times)) == 1


def test_a_second_live_owner_of_a_source_is_refused_and_the_holder_is_named(ms: MetastoreClient) -> None:
    with connect(ms, "a", "b", agent_info="first") as first, connect(ms, "b", "c") as second:
        first.begin_transaction()
        with pytest.raises(SinkInUse, match=rf"sink=flights owner=.*/{os.getpid()}/.* first"):
            second.begin_transaction()
        assert len(ms.get_valid_txns().open) == 1
        first.write(b'{"id": 1}')
        first.commit_transaction(positions={"a": 1})
        second.begin_transaction()
        second.abort_transaction()


def test_a_waiting_owner_continues_from_what_the_other_committed(ms: MetastoreClient) -> None:
    with connect(ms, "a") as first, ms.clone() as other_client:
        first.begin_transaction()
        first.write(b'{"id": 1}')
        found: list[Any] = []

        def wait_and_resume() -> None:
            with connect(other_client, "a", settings={"lock_wait_seconds": 60.0}) as second:
                second.begin_transaction()
                found.append(positions(second))
                second.write(b'{"id": 2}')
                second.commit_transaction(positions={"a": 2})

        thread = threading.Thread(target=wait_and_resume)
        thread.start()
        time.sleep(0.5)
        first.commit_transaction(positions={"a": 1})
        thread.join()
    assert found == [{"a": 1}]
    assert peek(ms, "a") == {"a": 2}
    assert ids(ms) == [1, 2]


def test_a_zombie_that_resumes_late_commits_nothing(ms: MetastoreClient) -> None:
    with connect(ms, "a") as zombie:
        zombie.begin_transaction()
        zombie.write(b'{"id": 666}')
        assert zombie.txn_id is not None
        ms.abort_txns([zombie.txn_id], reason="taken for dead")
        with connect(ms, "a") as successor:
            commit(successor, 1, {"a": 1})
        with pytest.raises(TxnAborted):
            zombie.commit_transaction(positions={"a": 666})
        assert zombie.state is TransactionState.ABORTED
    assert ids(ms) == [1]
    assert peek(ms, "a") == {"a": 1}


def test_a_dead_owner_is_taken_over_at_once(ms: MetastoreClient, metastore_uri: str, tmp_path: Any) -> None:
    script = (
        "import sys, os, hive_ingest as hi\n"
        "ms = hi.connect_metastore(sys.argv[1], warehouse=sys.argv[2])\n"
        "c = hi.StreamingConnection.connect(ms, database='web', table='t', record_writer=hi.StrictJsonWriter(),\n"
        "    sink='flights', sources=['a'])\n"
        "c.begin_transaction(); c.write(b'{\"id\": 13}'); c.flush(); os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, metastore_uri, warehouse_in(tmp_path)], check=False)
    assert killed.returncode == -9
    with connect(ms, "a", settings={"lock_wait_seconds": 60.0}) as conn:  # shorter than the transaction timeout
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        conn.commit_transaction(positions={"a": 1})
    assert ids(ms) == [1]


def test_seek_goes_back_on_purpose_and_begins_a_new_epoch(ms: MetastoreClient) -> None:
    with connect(ms, "a", "b") as conn:
        commit(conn, 1, {"a": 10, "b": 20})
        conn.seek({"a": 5})
        row = conn.progress["a"]
        assert row is not None
        assert (row.position, row.epoch, row.sequence) == (5, 1, 2)
        assert conn.progress["b"] is not None
        assert conn.progress["b"].epoch == 0
    assert peek(ms, "a", "b") == {"a": 5, "b": 20}


def test_seek_by_a_function_decides_on_the_progress_that_it_has_locked(ms: MetastoreClient) -> None:
    with connect(ms, "a") as conn:
        commit(conn, 1, {"a": 10})
        with connect(ms, "a") as other:
            commit(other, 2, {"a": 11})
        conn.seek(lambda progress: {"a": progress["a"].position - 1} if progress["a"] else {})
        assert positions(conn) == {"a": 10}
        row = conn.progress["a"]
        conn.seek(lambda progress: {})
        assert conn.progress["a"] == row
    assert ms.get_valid_txns().open == ()


def test_an_error_in_a_function_passed_to_seek_changes_nothing(ms: MetastoreClient) -> None:
    with connect(ms, "a") as conn:
        commit(conn, 1, {"a": 10})
        with pytest.raises(ZeroDivisionError):
            conn.seek(lambda progress: {"a": 1 // 0})
        assert ms.get_valid_txns().open == ()
    assert peek(ms, "a") == {"a": 10}


def test_a_source_that_is_new_to_a_sink_sees_the_others(ms: MetastoreClient) -> None:
    with connect(ms, "b", "a") as conn:
        commit(conn, 1, {"a": 10, "b": 1})
        assert conn.other_sources == ()
    with connect(ms, "c", "a") as conn:
        conn.begin_transaction()
        assert conn.other_sources == ("b",)


INVALID_POSITIONS = [
    pytest.param({"b": 1}, r"\['b'\] are not owned.*: pass positions of 'a'", id="a source that is not owned"),
    pytest.param({"a": object()}, "is not a JSON value", id="not JSON"),
    pytest.param({"a": float("nan")}, "is not a JSON value", id="a number that JSON does not have"),
    pytest.param({"a": "\ud800"}, "is not a JSON value", id="text that is not Unicode"),
    pytest.param({}, "pass positions=", id="none"),
]


@pytest.mark.parametrize(("wrong", "message"), INVALID_POSITIONS)
def test_an_invalid_position_is_refused_and_the_transaction_stays_open(
    ms: MetastoreClient, wrong: dict[str, Any], message: str
) -> None:
    """Refused only after the files were finished, it failed the transaction, and its rows were lost."""
    with connect(ms, "a") as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with pytest.raises(ConfigurationError, match=message):
            conn.commit_transaction(positions=wrong)
        assert conn.state is TransactionState.OPEN
        conn.write(b'{"id": 2}')
        conn.commit_transaction(positions={"a": 7})
    assert ids(ms) == [1, 2]
    assert peek(ms, "a") == {"a": 7}


def test_a_bad_record_found_with_an_invalid_position_fails_the_transaction(ms: MetastoreClient) -> None:
    with connect(ms, "a") as conn:
        conn.begin_transaction()
        conn.write(b'{"id": "x"}')
        with pytest.raises(SerializationError):
            conn.commit_transaction()
        assert conn.state is TransactionState.FAILED


def test_progress_before_it_was_read_is_an_error_and_not_empty(ms: MetastoreClient) -> None:
    with connect(ms, "a") as conn:
        commit(conn, 1, {"a": 1})
    with connect(ms, "a") as conn:
        with pytest.raises(InvalidTransactionState, match="begin_transaction"):
            conn.progress  # noqa: B018
        conn.begin_transaction()
        assert positions(conn) == {"a": 1}
        conn.abort_transaction()
        assert positions(conn) == {"a": 1}


def test_a_sink_that_belongs_to_another_table_is_refused(ms: MetastoreClient) -> None:
    ms.create_table("web.u", columns={"id": "int"})
    with connect(ms, "a") as conn:
        commit(conn, 1, {"a": 1})
    with connect(ms, "a", table="u") as conn, pytest.raises(SinkConflict, match="another table"):
        conn.begin_transaction()
    assert ms.get_valid_txns().open == ()


class AsHive3:
    """Identifies tables as a metastore of Hive 3 does."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_table(self, name: str | TableName) -> Table:
        table: Table = self._client.get_table(name)
        return dataclasses.replace(table, id=table.creation_id)


def test_a_sink_continues_after_the_metastore_was_upgraded_from_hive_3(ms: MetastoreClient) -> None:
    with connect(AsHive3(ms), "a") as conn:
        commit(conn, 1, {"a": 1})
    with connect(ms, "a") as conn:
        conn.begin_transaction()
        assert positions(conn) == {"a": 1}
        conn.abort_transaction()


def test_rows_of_a_sink_are_not_committed_without_a_position(ms: MetastoreClient) -> None:
    """They would be written again after a restart."""
    with connect(ms, "a") as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with pytest.raises(ConfigurationError, match="pass positions="):
            conn.commit_transaction()
        conn.abort_transaction()
        conn.begin_transaction()
        conn.commit_transaction()
    assert ids(ms) == []


def test_one_text_is_not_a_list_of_sources(ms: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match="give a list"):
        connections.connect(ms, sink="flights", sources="abc")


@pytest.mark.parametrize("name", ["", "Flights", "1a", "a b", "a.b"])
def test_a_sink_name_that_no_table_can_have_is_refused(ms: MetastoreClient, name: str) -> None:
    with pytest.raises(ConfigurationError, match="not a valid sink name"):
        connect(ms, "a", sink=name)


def test_a_sink_without_sources_is_refused(ms: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match="at least one source"):
        connect(ms)


def test_an_exclusive_lock_on_the_data_is_reported_as_such(ms: MetastoreClient) -> None:
    from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockRequest, LockType

    (txn,) = ms.open_txns(1, agent_info="the overwriter")
    component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, "web", "t", operation_type=DataOperationType.INSERT)
    ms.lock(LockRequest((component,), txn, agent_info="the overwriter"))
    with (
        connect(ms, "a") as conn,
        pytest.raises(LockTimeout, match=r"\(the overwriter\) holds EXCLUSIVE on web\.t") as caught,
    ):
        conn.begin_transaction()
    assert not isinstance(caught.value, SinkInUse)
    assert ms.get_valid_txns().open == (txn,)


def test_an_owner_waits_for_its_source_longer_than_a_dead_one_can_hold_it(
    metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    """The wait was shorter than the timeout: a new owner on another host gave up with rows left to write."""
    address = metastore_timing_out(400)
    with connect_in(tmp_path, address.uri, **address.options) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int"})
        for given, sink, expected in (({}, "flights", 600), ({}, None, 180), ({"lock_wait_seconds": 7}, "flights", 7)):
            with StreamingConnection.connect(
                client,
                database="web",
                table="t",
                record_writer=StrictJsonWriter(),
                settings=given,
                sink=sink,
                sources=["a"] if sink else [],
            ) as connection:
                connection.begin_transaction()
                assert connection.share_transaction().settings.lock_wait_seconds == expected
                connection.abort_transaction()
