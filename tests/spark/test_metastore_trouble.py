"""A metastore that goes away during a batch: the batch fails or is committed, and its replay makes it once.

The sink is called as Spark calls it, with the batches of one query.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hive_ingest as hi
from hive_ingest.errors import CommitOutcomeUnknown, MetastoreUnavailable
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.spark import HiveSink
from hive_ingest.testing import AnswerLost
from tests.services.kinds import Address
from tests.spark.flaky_client import Fault, FlakyClient
from tests.spark.numbers import Tables, assert_once, numbered
from tests.spark.planned import checkpoint_of
from tests.support.metastores import connect_in

pytestmark = pytest.mark.one_embedded

ROWS = 10
TXN_TIMEOUT_SECONDS = 5.0
#: What a batch must ask a metastore for.
CALLS = {
    "get_table",
    "create_table",
    "open_txns",
    "allocate_table_write_ids",
    "lock",
    "get_valid_write_ids",
    "get_partitions_by_names",
    "add_partitions",
    "add_dynamic_partitions",
    "heartbeat",
    "commit_txn",
}


@pytest.fixture
def address(metastore_timing_out: Callable[[float], Address]) -> Address:
    return metastore_timing_out(TXN_TIMEOUT_SECONDS)


@pytest.fixture
def client(address: Address, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, address.uri, **address.options) as client:
        yield client


@pytest.fixture
def tables(client: MetastoreClient) -> Tables:
    return Tables(client)


def sink_into(client: Any, table: str, **settings: Any) -> HiveSink:
    limits = {"commit_retry_seconds": 1.0, "lock_wait_seconds": 60.0}
    return HiveSink(metastore=client, table=table, checkpoint=checkpoint_of(), settings=limits | settings)


def batch(spark: SparkSession, batch_id: int) -> Any:
    """One task, with rows for a new partition, so that every batch makes the same calls."""
    rows = numbered(spark, ROWS * batch_id, ROWS * (batch_id + 1), 1)
    return rows.selectExpr("id", "text", f"'new in {batch_id}' part")


@pytest.mark.parametrize("fault", ["refused", "answer lost"])
def test_whatever_call_of_a_batch_fails_its_replay_makes_every_row_once(
    spark: SparkSession, client: MetastoreClient, tables: Tables, fault: Fault
) -> None:
    client.create_table("web.t", columns={"id": "bigint", "text": "string"}, partition_keys={"part": "string"})
    flaky = FlakyClient(client)
    sink = sink_into(flaky, "web.t")
    seen: set[str] = set()
    for at in itertools.count(1):  # the first batch creates the progress table, so it is not healed in between
        flaky.break_at(at, fault)
        with contextlib.suppress(MetastoreUnavailable):
            sink(batch(spark, 1), 0)
        seen.update(flaky.calls)
        if len(flaky.calls) < at:
            break
    for at in itertools.count(1):
        flaky.break_at(at, fault)
        with contextlib.suppress(MetastoreUnavailable):
            sink(batch(spark, at), at - 1)
        made = flaky.calls
        seen.update(made)
        flaky.heal()
        sink(batch(spark, at), at - 1)
        if len(made) < at:  # the batch was done before the call that would have failed
            break
    assert seen >= CALLS
    assert_once(ids(client), list(range(ROWS, ROWS * (at + 1))))
    assert tables.hidden("web.t") == []


def ids(client: MetastoreClient) -> list[int]:
    found: list[int] = hi.read_table(client, "web.t", columns=["id"]).column("id").to_pylist()
    return found


@pytest.mark.parametrize("call", ["lock", "add_dynamic_partitions", "commit_txn"])
def test_a_long_metastore_outage_loses_nothing_once_it_is_over(
    spark: SparkSession, client: MetastoreClient, tables: Tables, call: str
) -> None:
    table = tables.create("t", "parts")
    flaky = FlakyClient(client)
    sink = sink_into(flaky, table)
    flaky.break_at(call, "gone")
    with pytest.raises(CommitOutcomeUnknown if call == "commit_txn" else MetastoreUnavailable):
        sink(numbered(spark, 0, ROWS), 0)
    flaky.heal()

    sink(numbered(spark, 0, ROWS), 0)  # after the timeout of the first attempt's transaction

    assert_once(tables.ids(table), list(range(ROWS)))
    assert sink.last_batch is not None
    assert not sink.last_batch.is_skipped


def test_a_commit_whose_response_was_lost_is_looked_up_again(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "parts")
    lossy = AnswerLost(client, {"commit_txn": 2})
    sink_into(lossy, table, commit_retry_seconds=30.0)(numbered(spark, 0, ROWS), 0)
    assert lossy.calls["commit_txn"] == 3
    assert_once(tables.ids(table), list(range(ROWS)))


def test_a_commit_whose_outcome_stays_unknown_is_found_by_the_replay(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "parts")
    sink = sink_into(AnswerLost(client, {"commit_txn": 1000}), table)
    with pytest.raises(CommitOutcomeUnknown):
        sink(numbered(spark, 0, ROWS), 0)

    replay = sink_into(client, table)
    replay(numbered(spark, 0, ROWS), 0)

    assert replay.last_batch is not None
    assert replay.last_batch.is_skipped
    assert_once(tables.ids(table), list(range(ROWS)))


def test_progress_decides_when_the_metastore_has_forgotten_the_commit(
    spark: SparkSession,
    client: MetastoreClient,
    tables: Tables,
    address: Address,
    forget_commits: Callable[[str], None],
) -> None:
    table = tables.create("t", "parts")
    lossy = AnswerLost(client, {"commit_txn": 1}, after=lambda: forget_commits(address.uri))
    sink = sink_into(lossy, table)
    sink(numbered(spark, 0, ROWS), 0)
    assert sink.last_batch is not None
    assert sink.last_batch.rows == ROWS
    assert_once(tables.ids(table), list(range(ROWS)))
