"""`ingest_files(dry_run=True)`: what a run would do, and nothing of it is done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.connection import BadRecordTable
from hive_ingest.errors import SerializationError, SinkConflict
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnState
from hive_ingest.record_writer import CsvWriter, StrictJsonWriter
from hive_ingest.streaming import IngestProgress, IngestResult, ingest_files
from tests.support.rows import ids

TABLE = "web.events"


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={"id": "int", "msg": "string"}, partition_keys={"part": "string"})
    return metastore


def lines(path: Path, ids: Iterable[int], *more: str) -> Path:
    texts = [json.dumps({"id": i, "msg": f"row {i}", "part": f"p{i % 3}"}) for i in ids]
    path.write_text("".join(f"{text}\n" for text in (*texts, *more)))
    return path


def ingest(client: MetastoreClient, path: Path, **options: Any) -> IngestResult:
    defaults: dict[str, Any] = {"record_writer": StrictJsonWriter(), "rows_per_transaction": 10}
    return ingest_files(client, TABLE, path, **(defaults | options))


def test_a_dry_run_counts_and_leaves_everything_as_it_is(ms: MetastoreClient, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", range(25))
    before = ms.get_tables("web")
    reports: list[IngestProgress] = []
    result = ingest(ms, path, dry_run=True, on_progress=reports.append)
    assert result.is_dry_run
    assert (result.stats.transactions_committed, result.stats.rows_committed) == (3, 25)
    assert [each.records_committed for each in reports] == [0, 10, 20, 25]
    assert (ms.get_tables("web"), ids(ms, TABLE)) == (before, []), "no sink was made"
    assert ms.list_partition_names(TABLE) == []
    assert not [info for info in ms.get_open_txns_info().transactions if info.state is TxnState.OPEN]


def test_a_dry_run_begins_where_the_next_run_does(ms: MetastoreClient, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", range(25))
    ingest(ms, path)
    nothing = ingest(ms, path, dry_run=True)
    assert (nothing.stats.transactions_committed, len(nothing.finished_before)) == (0, 1)
    lines(path, range(37))
    result = ingest(ms, path, dry_run=True)
    assert (result.stats.rows_committed, result.finished_before) == (12, ())
    again = ingest(ms, path, dry_run=True, overwrite=True)
    assert (again.stats.rows_committed, again.stats.transactions_committed) == (37, 1)
    assert ids(ms, TABLE) == list(range(25))
    assert ingest(ms, path).stats.rows_committed == 12
    lines(path, range(1, 20))
    with pytest.raises(SinkConflict):
        ingest(ms, path, dry_run=True)


def test_bad_records_are_counted_and_not_kept(ms: MetastoreClient, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", range(12), "no json", '{"id":"x"}')
    with pytest.raises(SerializationError, match=r"a\.jsonl', line 13"):
        ingest(ms, path, dry_run=True)
    for target in (tmp_path / "bad.jsonl", BadRecordTable("web.bad")):
        result = ingest(ms, path, dry_run=True, record_writer=StrictJsonWriter(on_error="skip"), bad_records=target)
        assert (result.stats.rows_committed, result.stats.records_skipped) == (12, 2)
    assert not (tmp_path / "bad.jsonl").exists()
    assert ms.get_tables("web") == ["events"]


def test_columns_are_named_and_not_added(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,msg,part,rating,day\n" + "".join(f"{i},m,p,{i}.5,2026-11-0{i % 9 + 1}\n" for i in range(25)))
    options: dict[str, Any] = {"record_writer": CsvWriter(), "merge_schema": True}
    result = ingest(ms, path, dry_run=True, **options)
    assert [f"{column.name} {column.type}" for column in result.columns_added] == ["rating double", "day date"]
    assert [column.name for column in ms.get_table(TABLE).columns] == ["id", "msg"]
    assert ingest(ms, path, **options).columns_added == result.columns_added
