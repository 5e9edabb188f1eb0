"""`hive-ingest sinks`: what an operator sees of a sink, and binding it to another Spark query.

Micro-batches come as the Spark sinks commit them, without Spark; the checkpoints are folders as Spark leaves them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.connection.progress import progress_table_name
from hive_ingest.errors import ConfigurationError, SinkConflict
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.sinks import latest_progress, list_sinks, progress_history
from hive_ingest.streaming.spark.adoption import adopt_query
from hive_ingest.streaming.spark.checkpoint import BatchPlan
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, MicroBatch, SparkPosition, is_new_batch
from tests.acceptance.cli.shell import Shell
from tests.support import connections
from tests.support.tables import create_table

PROGRESS = "web.alerts__progress"
pytestmark = pytest.mark.usefixtures("client")


@pytest.fixture
def client(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore, "alerts")
    return metastore


def connect(client: MetastoreClient, *sources: str, sink: str = "alerts", table: str = "alerts") -> StreamingConnection:
    return connections.connect(
        client,
        table,
        record_writer=hi.ArrowWriter(),
        agent_info="a writer",
        sink=sink,
        sources=sources,
    )


#: An entry of an offset log, of all batches here.
PLAN = "v1\n{}"


def position_of(query_id: str, batch_id: int) -> dict[str, Any]:
    """The position that is committed with a batch."""
    return SparkPosition.after(MicroBatch(query_id, batch_id, BatchPlan.parse(PLAN))).to_json()


def micro_batch(
    client: MetastoreClient, query_id: str, batch_id: int, *, sink: str = "alerts", plan: str = PLAN
) -> bool:
    """Whether it was written; its only row has its id."""
    batch = MicroBatch(query_id, batch_id, BatchPlan.parse(plan))
    with connect(client, SPARK_SOURCE, sink=sink) as connection:
        connection.begin_transaction()
        if not is_new_batch(connection, batch, sink):
            connection.abort_transaction()
            return False
        connection.write(pa.table({"id": pa.array([batch_id], pa.int32())}))
        connection.commit_transaction(positions={SPARK_SOURCE: SparkPosition.after(batch).to_json()})
        return True


def commit(client: MetastoreClient, positions: dict[str, int], *, sink: str = "alerts", table: str = "alerts") -> None:
    """Commit a position as a pipeline of files or of Kafka does."""
    with connect(client, *positions, sink=sink, table=table) as connection:
        connection.begin_transaction()
        connection.commit_transaction(positions=positions)


def checkpoint_at(folder: Path, query_id: str, *, committed: int, planned: int | None = None) -> Path:
    """A checkpoint as Spark leaves it, with checksums and a temporary file, and without batches far back."""
    logs = {"commits": committed, "offsets": committed if planned is None else planned}
    for log, last in logs.items():
        (folder / log).mkdir(parents=True)
        for batch in range(max(0, last - 1), last + 1):
            (folder / log / str(batch)).write_text(PLAN)
            (folder / log / f".{batch}.crc").write_bytes(b"crc")
        (folder / log / f".{last + 1}.5e8c.tmp").write_text("v1")
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    return folder


def bound_now(client: MetastoreClient, sink: str = "alerts") -> object:
    return latest_progress(client, progress_table_name("web", sink))[SPARK_SOURCE].position


# -- list and show -----------------------------------------------------------------------------------


def test_list_counts_the_sources_of_all_writers_of_a_sink(shell: Shell, client: MetastoreClient) -> None:
    commit(client, {"a.json": 1, "b.json": 1}, sink="files")
    commit(client, {"c.json": 1}, sink="files")
    commit(client, {"a.json": 2}, sink="files")
    (row,) = shell.done("sinks", "list", "-o", "json").rows
    assert row["sources"] == 3


def test_list_shows_the_table_and_the_newest_commit_of_each_sink(shell: Shell, client: MetastoreClient) -> None:
    client.create_database("other")
    client.create_table("web.mine__progress", columns={"id": "int"})
    commit(client, {"a.json": 1}, sink="files")
    commit(client, {"a.json": 2, "b.json": 1}, sink="files")
    micro_batch(client, "q1", 0)
    rows = shell.done("sinks", "list", "-o", "json").rows
    assert [(row["database"], row["sink"], row["table"], row["sources"]) for row in rows] == [
        ("web", "alerts", "web.alerts", 1),
        ("web", "files", "web.alerts", 2),
    ]
    (newest,) = latest_progress(client, PROGRESS).values()
    assert (rows[0]["txn"], rows[0]["written_at"]) == (
        newest.txn_id,
        newest.written_at.isoformat(timespec="milliseconds") + "Z",
    )
    assert shell.done("sinks", "list", "web", "-o", "json").rows == rows
    assert shell.done("sinks", "list", "other", "-o", "json").rows == []
    assert shell("sinks", "list", "nowhere").code == 1


def test_list_shows_a_sink_without_commits_and_one_whose_table_is_gone(shell: Shell, client: MetastoreClient) -> None:
    client.create_table("web.gone", columns={"id": "int"})
    commit(client, {"a": 1}, sink="left", table="gone")
    client.drop_table("web.gone")
    connect(client, "a", sink="fresh").close()
    fresh, left = shell.done("sinks", "list", "web", "-o", "json").rows
    assert (fresh["sink"], fresh["table"], fresh["sources"], fresh["txn"]) == ("fresh", None, 0, None)
    assert (left["sink"], left["table"], left["sources"]) == ("left", None, 1)


def test_show_lists_the_latest_position_of_every_source(shell: Shell, client: MetastoreClient) -> None:
    commit(client, {"b.json": 7})
    micro_batch(client, "q1", 0)
    micro_batch(client, "q1", 1)
    rows = shell.done("sinks", "show", "web.alerts", "-o", "json").rows
    assert [(row["source"], row["sequence"], row["epoch"], row["position"]) for row in rows] == [
        ("b.json", 1, 0, 7),
        ("spark", 2, 0, position_of("q1", 1)),
    ]
    assert set(rows[0]) == {"source", "sequence", "epoch", "position", "txn", "written_at"}
    assert shell.done("sinks", "show", "web", "--sink", "alerts", "-o", "json").rows == rows
    assert shell.done("sinks", "show", "web.alerts", "--source", "spark", "-o", "json").rows == rows[1:]
    assert json.dumps(position_of("q1", 1)) in shell.done("sinks", "show", "web.alerts").out


def test_show_lists_the_history_of_each_source_newest_first(shell: Shell, client: MetastoreClient) -> None:
    for number in range(4):
        commit(client, {"a": number})
    commit(client, {"b": 10})
    with connect(client, "a") as connection:
        connection.seek({"a": 0})
    rows = shell.done("sinks", "show", "web.alerts", "--history", "3", "-o", "json").rows
    assert [(row["source"], row["sequence"], row["epoch"], row["position"]) for row in rows] == [
        ("a", 5, 1, 0),
        ("a", 4, 0, 3),
        ("a", 3, 0, 2),
        ("b", 1, 0, 10),
    ]
    (latest,) = progress_history(client, PROGRESS, rows_per_source=1, source="a")["a"]
    assert latest.sequence == 5


def test_show_of_a_missing_sink_says_where_to_look(shell: Shell) -> None:
    outcome = shell("sinks", "show", "web.alerts", "--sink", "nobody")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: database web has no sink 'nobody'")
    assert "hive-ingest sinks list web" in outcome.err


def test_show_of_a_database_needs_the_name_of_a_sink(shell: Shell) -> None:
    outcome = shell("sinks", "show", "web")
    assert outcome.code == 2
    assert "--sink" in outcome.err


def test_show_says_when_the_sink_writes_another_table(shell: Shell, client: MetastoreClient) -> None:
    client.create_table("web.other", columns={"id": "int"})
    micro_batch(client, "q1", 0)
    outcome = shell.done("sinks", "show", "web.other", "--sink", "alerts", "-o", "json")
    assert len(outcome.rows) == 1
    assert outcome.err.startswith("note: sink alerts writes another table than web.other")


def test_reading_progress_leaves_no_transaction_open_and_creates_no_sink(shell: Shell, client: MetastoreClient) -> None:
    micro_batch(client, "q1", 0)
    shell.done("sinks", "list")
    shell.done("sinks", "show", "web.alerts", "--source", "spark")
    shell("sinks", "show", "web.alerts", "--sink", "nobody")
    assert client.get_valid_txns().open == ()
    assert [sink.name for sink in list_sinks(client, "web")] == ["alerts"]


def test_a_table_that_only_looks_like_progress_is_refused(client: MetastoreClient) -> None:
    client.create_table("web.mine__progress", columns={"id": "int"})
    for name in ("web.mine__progress", "web.alerts"):
        with pytest.raises(ConfigurationError, match="is not the progress table of a sink"):
            latest_progress(client, name)


# -- adopt -------------------------------------------------------------------------------------------


def test_adopt_lets_a_new_checkpoint_write_and_refuses_the_old_one(
    shell: Shell, client: MetastoreClient, tmp_path: Path
) -> None:
    for batch_id in range(3):
        micro_batch(client, "q1", batch_id)
    with pytest.raises(SinkConflict, match="hive-ingest sinks adopt"):
        micro_batch(client, "q2", 0)
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q2", committed=-1)
    output = shell.done("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint).out.splitlines()
    assert output[0] == "sink alerts of web.alerts:"
    assert output[1].startswith("before: query q1, last batch 2, written at 2")
    assert output[2:5] == [
        "now:    query q2, no batch yet",
        "next:   batch 0 of query q2, or a later one, will be written",
        "query q1 is refused from now on",
    ]
    assert output[5].startswith("CAUTION: a new query reads its sources from its own starting offsets")
    assert micro_batch(client, "q2", 0)
    with pytest.raises(SinkConflict, match="belongs to Spark query q2"):
        micro_batch(client, "q1", 3)
    (row,) = shell.done("sinks", "show", "web.alerts", "-o", "json").rows
    assert (row["sequence"], row["epoch"]) == (5, 1)


def test_adopt_continues_after_the_last_commit_of_a_used_checkpoint(
    shell: Shell, client: MetastoreClient, tmp_path: Path
) -> None:
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q2", committed=11)
    uri = f"file:{checkpoint}"
    assert "now:    query q2, last batch 11" in shell.done("sinks", "adopt", "web.alerts", "--checkpoint", uri).out
    assert not micro_batch(client, "q2", 11)
    assert micro_batch(client, "q2", 12)


def test_adopt_creates_a_missing_sink(shell: Shell, client: MetastoreClient) -> None:
    with pytest.raises(SinkConflict, match="no progress yet"):
        micro_batch(client, "q1", 5, sink="fresh")
    output = shell.done("sinks", "adopt", "web.alerts", "--sink", "new", "--query-id", "q1", "--batch-id", "4").out
    assert output.splitlines() == [
        "sink new of web.alerts:",
        "before: no Spark query",
        "now:    query q1, last batch 4",
        "next:   batch 5 of query q1, or a later one, will be written",
    ]
    assert micro_batch(client, "q1", 5, sink="new")


def test_a_query_that_comes_back_duplicates_nothing(shell: Shell, client: MetastoreClient, tmp_path: Path) -> None:
    """The sink committed its batch 2; the driver died before Spark noted that."""
    for batch_id in range(3):
        micro_batch(client, "q1", batch_id)
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q1", committed=1, planned=2)
    shell.done("sinks", "adopt", "web.alerts", "--query-id", "q2")
    output = shell.done("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint).out
    assert "now:    query q1, last batch 2\n" in output
    assert "CAUTION" not in output
    assert not micro_batch(client, "q1", 2)
    assert micro_batch(client, "q1", 3)


def test_adopting_the_query_that_is_bound_changes_nothing(
    shell: Shell, client: MetastoreClient, tmp_path: Path
) -> None:
    for batch_id in range(3):
        micro_batch(client, "q1", batch_id)
    before = latest_progress(client, PROGRESS)
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q1", committed=1, planned=2)
    for how in (("--checkpoint", checkpoint), ("--query-id", "q1"), ("--query-id", "q1", "--batch-id", "2")):
        output = shell.done("sinks", "adopt", "web.alerts", *how).out
        assert "now:    the same; nothing was changed\n" in output
        assert "refused" not in output
    assert latest_progress(client, PROGRESS) == before


def test_adopt_goes_back_on_request_and_says_what_may_be_duplicated(shell: Shell, client: MetastoreClient) -> None:
    for batch_id in range(3):
        micro_batch(client, "q1", batch_id)
    output = shell.done("sinks", "adopt", "web.alerts", "--query-id", "q1", "--batch-id", "0").out
    assert output.splitlines()[-1].startswith(
        "CAUTION: this sink has committed its batches up to 2 before; those from 1"
    )
    assert micro_batch(client, "q1", 1)


def test_adopt_says_when_a_batch_of_the_checkpoint_was_begun_and_not_finished(shell: Shell, tmp_path: Path) -> None:
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q1", committed=6, planned=7)
    output = shell.done("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint).out
    assert "CAUTION: by the checkpoint, batch 7 was begun and not finished" in output
    assert (
        "CAUTION" not in shell.done("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint, "--batch-id", "7").out
    )


def test_adopt_refuses_a_batch_that_the_checkpoint_does_not_have(shell: Shell, tmp_path: Path) -> None:
    """The query would plan others under its number, and they would be skipped."""
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q1", committed=-1)
    outcome = shell("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint, "--batch-id", "5")
    assert (outcome.code, outcome.out) == (1, "")
    assert "batch 5 is not in the checkpoint" in outcome.err


def test_a_restored_checkpoint_continues_when_the_operator_decides_so(
    shell: Shell, client: MetastoreClient, tmp_path: Path
) -> None:
    for batch_id in range(3):
        micro_batch(client, "q1", batch_id)
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q1", committed=1)
    replanned = 'v1\n{"batchTimestampMs": 5}'
    with pytest.raises(SinkConflict, match=r"planned again.*--batch-id 1"):
        micro_batch(client, "q1", 2, plan=replanned)

    outcome = shell("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint)
    assert outcome.code == 1
    assert "batch 2 is not in the checkpoint" in outcome.err
    assert "or give --batch-id 1" in outcome.err

    (checkpoint / "offsets" / "2").write_text(replanned)
    skipped = shell.done("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint, "--batch-id", "2").out
    assert "now:    query q1, last batch 2" in skipped
    assert not micro_batch(client, "q1", 2, plan=replanned)
    written = shell.done("sinks", "adopt", "web.alerts", "--checkpoint", checkpoint, "--batch-id", "1").out
    assert "CAUTION: this sink has committed its batches up to 2 before" in written
    assert micro_batch(client, "q1", 2, plan=replanned)


def test_adopt_leaves_other_sources_of_the_sink_unchanged(shell: Shell, client: MetastoreClient) -> None:
    commit(client, {"a.json": 3})
    before = latest_progress(client, PROGRESS)["a.json"]
    shell.done("sinks", "adopt", "web.alerts", "--query-id", "q1")
    after = latest_progress(client, PROGRESS)
    assert after["a.json"] == before
    assert after[SPARK_SOURCE].position == {"query_id": "q1", "batch_id": -1}


def test_adopt_refuses_a_sink_of_another_table(shell: Shell, client: MetastoreClient) -> None:
    client.create_table("web.other", columns={"id": "int"})
    micro_batch(client, "q1", 0)
    commit(client, {"a.json": 1}, sink="files")
    for sink in ("alerts", "files"):
        outcome = shell("sinks", "adopt", "web.other", "--sink", sink, "--query-id", "q2")
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.startswith(f"error: sink '{sink}' has progress for another table")
    assert bound_now(client) == position_of("q1", 0)
    assert client.get_valid_txns().open == ()


def test_adopt_refuses_while_a_batch_is_being_written_and_names_its_owner(
    shell: Shell, client: MetastoreClient
) -> None:
    micro_batch(client, "q1", 0)
    with connect(client, SPARK_SOURCE) as owner:
        owner.begin_transaction()
        outcome = shell("sinks", "adopt", "web.alerts", "--query-id", "q2", "--lock-wait-seconds", "0.2")
        owner.commit_transaction(positions={SPARK_SOURCE: position_of("q1", 1)})
    assert (outcome.code, outcome.out) == (1, "")
    assert "source 'spark' of sink 'alerts' was in use by another owner" in outcome.err
    assert f"sink=alerts owner={os.uname().nodename}/" in outcome.err
    assert bound_now(client) == position_of("q1", 1)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--query-id", "q1", "--checkpoint", "/c"],
        ["--query-id", "q1", "--batch-id", "-2"],
        ["--query-id", "q1", "--lock-wait-seconds", "-1"],
    ],
    ids=" ".join,
)
def test_adopt_needs_exactly_one_query_and_a_valid_batch(wrong: list[str], shell: Shell) -> None:
    assert shell("sinks", "adopt", "web.alerts", *wrong).code == 2


def test_adopt_refuses_a_folder_that_is_not_a_checkpoint_before_it_creates_anything(
    shell: Shell, client: MetastoreClient, tmp_path: Path
) -> None:
    for name, metadata in {"empty": None, "torn": '{"id": ', "other": '{"id": 5}', "list": "[]"}.items():
        (tmp_path / name).mkdir()
        if metadata is not None:
            (tmp_path / name / "metadata").write_text(metadata)
        outcome = shell("sinks", "adopt", "web.alerts", "--checkpoint", tmp_path / name)
        assert (outcome.code, outcome.out) == (1, "")
        assert str(tmp_path / name) in outcome.err
    assert list_sinks(client, "web") == []


def test_adopt_refuses_a_missing_table(shell: Shell) -> None:
    outcome = shell("sinks", "adopt", "web.nobody", "--query-id", "q1")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: there is no table web.nobody")


def test_adopting_from_python_returns_the_same(client: MetastoreClient) -> None:
    micro_batch(client, "q1", 0)
    adoption = adopt_query(client, "web.alerts", "alerts", "q2")
    assert adoption.before is not None
    assert adoption.before.position == position_of("q1", 0)
    assert (adoption.query_id, adoption.batch_id, adoption.last_written) == ("q2", -1, None)
    assert adoption.is_changed
    for query_id, batch_id in (("", None), ("q2", -2)):
        with pytest.raises(ConfigurationError, match=r"give (the id|-1 or more)"):
            adopt_query(client, "web.alerts", "alerts", query_id, batch_id)


# -- beside other pipelines --------------------------------------------------------------------------


def test_a_query_that_joins_a_sink_of_other_queries_is_reported_once_and_writes(
    client: MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    commit(client, {"a.json": 3, "b.json": 1})
    assert micro_batch(client, "q1", 0)
    (record,) = caplog.records
    assert "sink 'alerts' also has progress of 2 other sources, such as 'a.json'" in record.getMessage()
    assert micro_batch(client, "q1", 1)
    assert len(caplog.records) == 1


def test_a_new_source_is_refused_by_a_sink_of_another_table(client: MetastoreClient) -> None:
    client.create_table("web.other", columns={"id": "int"})
    commit(client, {"a.json": 3})
    with pytest.raises(SinkConflict, match="another table"):
        commit(client, {"b.json": 1}, table="other")


def test_sinks_need_no_spark(client: MetastoreClient, shell: Shell, metastore_uri: str, tmp_path: Path) -> None:
    """Neither loaded nor installed."""
    micro_batch(client, "q1", 0)
    checkpoint = checkpoint_at(tmp_path / "checkpoint", "q2", committed=-1)
    code = "import sys; sys.modules['pyspark'] = None; from hive_ingest.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "sinks", "adopt", "web.alerts", "--checkpoint", str(checkpoint)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert bound_now(client) == {"query_id": "q2", "batch_id": -1}
