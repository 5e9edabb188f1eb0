"""The decision about a micro-batch, without Spark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from hive_ingest.connection import SourceProgress
from hive_ingest.errors import SinkConflict
from hive_ingest.model import TxnId
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, decide, position_of


def progress(position: Any) -> SourceProgress:
    return SourceProgress(SPARK_SOURCE, position, 1, 0, 1, TxnId(1), dt.datetime(2024, 1, 1))


def test_the_first_batch_of_a_new_checkpoint_is_written() -> None:
    assert decide(None, "q1", 0, "web")


@pytest.mark.parametrize(("batch_id", "is_written"), [(6, False), (7, False), (8, True), (11, True)])
def test_a_batch_is_written_when_it_is_newer_than_the_last_one_committed(batch_id: int, is_written: bool) -> None:
    assert decide(progress(position_of("q1", 7)), "q1", batch_id, "web") is is_written


def test_a_sink_bound_to_a_new_query_takes_its_batch_0() -> None:
    assert decide(progress(position_of("q2", -1)), "q2", 0, "web")


def test_another_query_is_refused_and_told_what_to_do() -> None:
    with pytest.raises(SinkConflict, match=r"'web' belongs to Spark query q1, .* batch 7 .*hive-ingest sinks adopt"):
        decide(progress(position_of("q1", 7)), "q2", 8, "web")


def test_a_used_checkpoint_is_refused_by_a_sink_without_progress() -> None:
    with pytest.raises(SinkConflict, match=r"no progress yet, and query q1 comes with batch 3.*sinks adopt"):
        decide(None, "q1", 3, "web")


@pytest.mark.parametrize("position", [{"offset": 5}, None, {"query_id": "q1", "batch_id": "7"}])
def test_progress_of_another_kind_of_pipeline_is_refused(position: Any) -> None:
    with pytest.raises(SinkConflict, match="is no Spark query's"):
        decide(progress(position), "q1", 8, "web")
