"""Compaction in the writing process: requested after commits, carried out in threads, never in the writer's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.compaction import Compactor, CompactorSettings, FolderState
from hive_ingest.connection import progress_table_name
from hive_ingest.errors import ConfigurationError, MetastoreUnavailable
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState, CompactionType, TableName
from hive_ingest.storage import Location
from hive_ingest.testing import faults
from tests.support.compactions import FAST, NO_GRACE, Compacted
from tests.support.fronts import Front
from tests.support.rows import rows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has its own queue and cleaner")

QUICK = CompactorSettings(job=FAST, cleaner=NO_GRACE, initiator_seconds=0.05, worker_seconds=0.05, cleaner_seconds=0.05)


def maintenance(client: Any, **options: Any) -> hi.Maintenance:
    arguments: dict[str, Any] = {"pause_seconds": 0.01, "settings": QUICK} | options
    return hi.Maintenance(client, **arguments)


@contextmanager
def writing(table: Compacted, keeper: hi.Maintenance, **options: Any) -> Iterator[hi.StreamingConnection]:
    with hi.StreamingConnection.connect(
        table.client,
        table=table.name,
        record_writer=hi.ArrowWriter(),
        settings={"fsync": False},
        on_commit=keeper.on_commit,
        **options,
    ) as connection:
        yield connection


def commit(connection: hi.StreamingConnection, *ids: int, part: str | None = None, **positions: Any) -> None:
    connection.begin_transaction()
    connection.write(rows(ids, text=[f"row {i}" for i in ids], part=part))
    connection.commit_transaction(positions=positions)


def deltas(client: EmbeddedMetastoreClient, name: TableName, folder: Path | None = None) -> int:
    """What a reader opens beside the base."""
    valid_txns = client.get_valid_txns()
    (snapshot,) = client.get_valid_write_ids([name], valid_txns)
    location = Location.of(str(folder) if folder else client.get_table(name).location)
    return FolderState.read(location, snapshot, valid_txns).delta_count


# -- requests ----------------------------------------------------------------------------------------


def test_partitions_that_were_written_are_requested_by_the_policy(parts: Compacted) -> None:
    with maintenance(parts.client, mode="request") as keeper:
        with writing(parts, keeper) as connection:
            for i in range(6):
                commit(connection, i, part="many")
            commit(connection, 6, part="one")
        assert keeper.finish()
    (info,) = parts.history()
    assert (info.partition_name, info.type, info.state) == (
        "part=many",
        CompactionType.MAJOR,
        CompactionState.INITIATED,
    )
    assert len(parts.folders("many")) == 6


def test_a_policy_can_be_given(table: Compacted) -> None:
    with maintenance(table.client, mode="request", policy=hi.CompactionPolicy(max_deltas=1)) as keeper:
        with writing(table, keeper) as connection:
            commit(connection, 1)
            commit(connection, 2)
        assert keeper.finish()
    assert [info.state for info in table.history()] == [CompactionState.INITIATED]


def test_no_auto_compaction_holds(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"NO_AUTO_COMPACTION": "true"})
    with maintenance(ms, mode="request") as keeper:
        with writing(table, keeper) as connection:
            for i in range(8):
                commit(connection, i)
        assert keeper.finish()
    assert table.history() == []


def test_a_policy_that_is_none_is_refused(table: Compacted) -> None:
    """Rather than fail in a thread for ever."""
    with pytest.raises(ConfigurationError, match=r"pass a CompactionPolicy, such as CompactionPolicy\.hive\(\)"):
        hi.Maintenance(table.client, policy="hive")  # type: ignore[arg-type]


def test_off_does_nothing(table: Compacted) -> None:
    before = threading.active_count()
    with maintenance(table.client, mode="off") as keeper, writing(table, keeper) as connection:
        for i in range(8):
            commit(connection, i)
        assert keeper.finish()
        assert not [each for each in threading.enumerate() if each.name == "hive-ingest-maintenance"]
    of_the_process = sum("hive-ingest-sync-" in each.name for each in threading.enumerate())
    assert threading.active_count() - of_the_process <= before + 1
    assert table.history() == []


def test_an_unknown_mode_is_refused(ms: EmbeddedMetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match="maintenance='yes' is unknown"):
        maintenance(ms, mode="yes")


# -- inline ------------------------------------------------------------------------------------------


def test_the_deltas_of_a_table_and_of_its_sink_stay_few(table: Compacted) -> None:
    progress = progress_table_name(table.name.database, "s")
    with maintenance(table.client) as keeper:
        for run in range(3):
            with writing(table, keeper, sink="s", sources=["a"]) as connection:
                connection.begin_transaction()
                last = connection.progress["a"]
                assert (last and last.position) == (10 * run or None)
                connection.abort_transaction()
                for i in range(10 * run, 10 * run + 10):
                    commit(connection, i, a=i + 1)
            assert keeper.finish()
            assert deltas(table.client, table.name) <= 5
            assert deltas(table.client, progress) <= 5
    assert table.ids() == list(range(30))
    assert len(table.folders()) < 15
    assert hi.read_table(table.client, progress).num_rows == 30


def test_the_roles_run_on_after_an_error(table: Compacted, caplog: pytest.LogCaptureFixture) -> None:
    fails = iter([True, True])

    def show_compactions(*arguments: Any) -> Any:
        if next(fails, False):
            raise MetastoreUnavailable("the server is away")
        return table.client.show_compactions(*arguments)

    class Away(Front):
        def __init__(self) -> None:
            super().__init__(table.client.clone(), show_compactions=show_compactions, clone=Away)

        def __enter__(self) -> Away:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

    with maintenance(Away(), mode="request") as keeper:
        with writing(table, keeper) as connection:
            for i in range(6):
                commit(connection, i)
        wait_until(lambda: bool(table.history()), "nothing was requested")
    assert "the server is away" in caplog.text


def test_a_commit_does_not_wait_for_the_look(table: Compacted) -> None:
    """Commits go on while the thread that looks is held."""
    held, released = threading.Event(), threading.Event()

    class Held(hi.CompactionPolicy):
        def decide(self, *arguments: Any, **options: Any) -> Any:
            held.set()
            assert released.wait(60)
            return super().decide(*arguments, **options)

    with maintenance(table.client, mode="request", policy=Held()) as keeper:
        with writing(table, keeper) as connection:
            commit(connection, 0)
            assert held.wait(60)
            for i in range(1, 6):
                commit(connection, i)
            assert not keeper.finish(timeout_seconds=0)
            released.set()
        assert keeper.finish()
    assert len(table.history()) == 1


def test_closing_gives_a_running_compaction_up(table: Compacted) -> None:
    begun, released = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "after_update_compactor_state":
            begun.set()
            assert released.wait(60)

    table.inserts(1, 6)
    with faults(observe=hold):
        keeper = maintenance(table.client)
        try:
            assert begun.wait(60)
            keeper.close(timeout_seconds=0)  # it is still held
        finally:
            released.set()
        wait_until(lambda: table.history()[0].state is CompactionState.INITIATED, "it was not put back")
    assert len(table.folders()) == 6
    assert Compactor(table.client, settings=QUICK).run_once().worked[0].state is CompactionState.READY_FOR_CLEANING
    assert table.ids() == [1, 2, 3, 4, 5, 6]


def test_no_thread_is_left(table: Compacted) -> None:
    with maintenance(table.client, workers=2) as keeper:
        wait_until(lambda: sum("hive-ingest-worker" in each.name for each in threading.enumerate()) == 2)
    keeper.close()
    of_the_process = {"MainThread", "hive-ingest-reaper", "hive-ingest-hdfs"}
    names = {each.name for each in threading.enumerate() if not each.name.startswith("hive-ingest-sync-")}
    assert names <= of_the_process


def test_a_process_that_forgets_to_close_it_ends(ms: EmbeddedMetastoreClient) -> None:
    code = "import sys, hive_ingest as hi\nmaintenance = hi.Maintenance(hi.connect_metastore(sys.argv[1]), workers=2)\n"
    done = subprocess.run([sys.executable, "-c", code, ms.uri], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_does_nothing(table: Compacted) -> None:
    """It has none of the threads, and their locks may be held for ever."""
    with maintenance(table.client, mode="request") as keeper:
        child = os.fork()
        if child == 0:
            keeper.on_commit(None)  # type: ignore[arg-type]
            done = keeper.finish()
            keeper.close()
            os._exit(0 if done else 1)
        assert os.waitpid(child, 0)[1] == 0
        with writing(table, keeper) as connection:
            for i in range(6):
                commit(connection, i)
        assert keeper.finish()
    assert len(table.history()) == 1


# -- in pipelines ------------------------------------------------------------------------------------


def test_ingest_files_leaves_a_compacted_table(ms: EmbeddedMetastoreClient, tmp_path: Path) -> None:
    table = Compacted(ms)
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps({"id": i, "text": "x"}) + "\n" for i in range(12)))
    result = hi.ingest_files(
        ms,
        table.name,
        path,
        record_writer=hi.StrictJsonWriter(),
        rows_per_transaction=1,
        settings={"fsync": False},
        maintenance="inline",
    )
    assert result.stats.transactions_committed == 12
    assert table.ids() == list(range(12))
    assert deltas(ms, table.name) <= 5
    assert deltas(ms, progress_table_name("web", table.name.table)) <= 5


def append_six(table: Compacted, **options: Any) -> None:
    for i in range(6):
        hi.append(table.client, table.name, rows([i], text=["x"]), settings={"fsync": False}, **options)


def test_append_can_be_maintained(table: Compacted) -> None:
    """By a maintenance of the caller's, given as one or by its hook."""
    with maintenance(table.client, mode="request") as keeper:
        append_six(table, maintenance=keeper)
        assert keeper.finish()
    assert len(table.history()) == 1
    committed: list[hi.CommitInfo] = []
    with maintenance(table.client, mode="request") as keeper:
        append_six(table, maintenance=keeper, on_commit=committed.append)
        append_six(table, on_commit=keeper.on_commit)
        assert keeper.finish()
    assert [info.rows for info in committed] == [1] * 6


def test_append_requests_or_makes_compactions_before_it_returns(ms: EmbeddedMetastoreClient) -> None:
    requested, compacted = Compacted(ms), Compacted(ms, "u")
    append_six(requested, maintenance="request")
    assert [info.state for info in requested.history()] == [CompactionState.INITIATED]
    append_six(compacted, maintenance="inline", compaction_policy=hi.CompactionPolicy(max_deltas=3))
    assert deltas(ms, compacted.name) <= 3
    assert compacted.ids() == requested.ids() == list(range(6))
    assert {thread.name for thread in threading.enumerate() if "maintenance" in thread.name} == set()
    with pytest.raises(ConfigurationError, match="maintenance='sometimes' is unknown"):
        append_six(compacted, maintenance="sometimes")


def test_no_trouble_with_maintenance_makes_an_append_that_has_committed_look_failed(
    ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = Compacted(ms)

    def fail(*args: Any) -> bool:
        raise RuntimeError("a defect (on purpose)")

    monkeypatch.setattr(hi.Maintenance, "finish", fail)
    info = hi.append(ms, table.name, rows([1], text=["x"]), maintenance="request")
    assert info.rows == 1
    assert table.ids() == [1]
    assert "a defect (on purpose)" in caplog.text
