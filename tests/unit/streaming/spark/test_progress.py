"""The decision about a micro-batch, without Spark."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from hive_ingest.connection import SourceProgress
from hive_ingest.errors import ConfigurationError, SinkConflict
from hive_ingest.model import TxnId
from hive_ingest.streaming.spark.checkpoint import BatchPlan
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, MicroBatch, SparkPosition, decide

COMMITTED_AT = dt.datetime(2024, 1, 1, 12)
BEFORE, AFTER = COMMITTED_AT - dt.timedelta(seconds=5), COMMITTED_AT + dt.timedelta(seconds=5)


def batch(batch_id: int, query_id: str = "q1", plan: str = "a", planned_at: dt.datetime | None = BEFORE) -> MicroBatch:
    return MicroBatch(query_id, batch_id, BatchPlan(plan, planned_at))


def progress(position: Any) -> SourceProgress:
    return SourceProgress(SPARK_SOURCE, position, 1, 0, 1, TxnId(1), COMMITTED_AT)


def after(committed: MicroBatch) -> SourceProgress:
    return progress(SparkPosition.after(committed).to_json())


def test_the_first_batch_of_a_new_checkpoint_is_written() -> None:
    assert decide(None, batch(0), "web")


@pytest.mark.parametrize("batch_id", [8, 11])
def test_a_batch_is_written_when_it_is_newer_than_the_last_one_committed(batch_id: int) -> None:
    assert decide(after(batch(7)), batch(batch_id), "web")


def test_the_batch_that_was_committed_last_is_skipped() -> None:
    assert not decide(after(batch(7)), batch(7), "web")


def test_another_batch_under_the_last_number_is_refused() -> None:
    """A restored checkpoint plans a batch again, with other rows; it was skipped, and they were lost."""
    with pytest.raises(SinkConflict, match=r"planned again.*--batch-id 6.*--batch-id 7"):
        decide(after(batch(7)), batch(7, plan="b"), "web")


def test_a_batch_below_the_last_one_is_refused() -> None:
    """It was skipped, whatever was in it."""
    with pytest.raises(SinkConflict, match=r"committed batch 7 .* this is batch 6: the checkpoint was restored"):
        decide(after(batch(7)), batch(6), "web")


def test_a_position_without_a_fingerprint_is_that_of_a_batch_planned_before_it_was_written() -> None:
    """Positions of older versions have no fingerprint and must stay usable."""
    old = progress({"query_id": "q1", "batch_id": 7})
    assert not decide(old, batch(7, planned_at=BEFORE), "web")
    assert decide(old, batch(8, planned_at=AFTER), "web")
    for planned_at in (AFTER, None):
        with pytest.raises(SinkConflict, match="planned again"):
            decide(old, batch(7, planned_at=planned_at), "web")


def test_a_sink_bound_to_a_new_query_takes_its_batch_0() -> None:
    assert decide(progress(SparkPosition("q2", -1).to_json()), batch(0, "q2"), "web")


def test_another_query_is_refused_with_what_to_do() -> None:
    with pytest.raises(SinkConflict, match=r"'web' belongs to Spark query q1, .* batch 7 .*hive-ingest sinks adopt"):
        decide(after(batch(7)), batch(8, "q2"), "web")


def test_a_used_checkpoint_is_refused_by_a_sink_without_progress() -> None:
    with pytest.raises(SinkConflict, match=r"no progress yet, and query q1 comes with batch 3.*sinks adopt"):
        decide(None, batch(3), "web")


@pytest.mark.parametrize("position", [{"offset": 5}, None, {"query_id": "q1", "batch_id": "7"}])
def test_progress_of_another_kind_of_pipeline_is_refused(position: Any) -> None:
    with pytest.raises(SinkConflict, match="is not that of a Spark query"):
        decide(progress(position), batch(8), "web")


# -- the plan of a batch ---------------------------------------------------------------------------


def entry(*offsets: str, version: str = "v1", planned_ms: int = 1795352151442, **metadata: Any) -> str:
    known = {"batchWatermarkMs": 0, "batchTimestampMs": planned_ms, "conf": {}} | metadata
    return "\n".join([version, json.dumps(known), *offsets])


def fingerprint(text: str) -> str:
    return BatchPlan.parse(text).fingerprint


def test_a_plan_knows_when_it_was_made() -> None:
    plan = BatchPlan.parse(entry('{"logOffset":1}'))
    assert plan.planned_at == dt.datetime(2026, 11, 22, 12, 55, 51, 442000)


def test_one_plan_has_one_fingerprint_whatever_the_order_of_its_keys_and_the_settings_of_spark() -> None:
    text = entry('{"t":{"0":5,"1":7}}', "-")
    same = entry('{"t": {"1": 7, "0": 5}}', "-", batchWatermarkMs=9, conf={"spark.sql.shuffle.partitions": "9"})
    assert fingerprint(text) == fingerprint(same)
    assert fingerprint(entry("a", "b", version="v2")) == fingerprint(entry("b", "a", version="v2"))


@pytest.mark.parametrize(
    "other",
    [
        entry('{"logOffset":2}', "x"),
        entry("x", '{"logOffset":1}'),
        entry('{"logOffset":1}', "y"),
        entry('{"logOffset":1}'),
        entry('{"logOffset":1}', "x", planned_ms=1795352151443),
    ],
    ids=["offset", "order of sources", "not JSON", "one source", "time of planning"],
)
def test_two_plans_have_two_fingerprints(other: str) -> None:
    """This holds even if the offsets are equal: that of a file source is a counter of its checkpoint."""
    assert fingerprint(entry('{"logOffset":1}', "x")) != fingerprint(other)


@pytest.mark.parametrize("text", ["", "v1", "v1\nnot JSON", "v1\n[]"])
def test_a_file_that_is_not_an_offset_log_entry_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an entry"):
        BatchPlan.parse(text)
