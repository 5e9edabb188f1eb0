"""`ingest_files(overwrite=True)`: files replace a table, or the partitions that their records are for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.reader import read_table
from hive_ingest.record_writer import CsvWriter, StrictJsonWriter
from hive_ingest.streaming import IngestResult, follow_files, ingest_files
from tests.support.rows import ids

PARTS, PLAIN = "web.events", "web.plain"


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(PARTS, columns={"id": "int", "msg": "string"}, partition_keys={"part": "string"})
    metastore.create_table(PLAIN, columns={"id": "int", "msg": "string"})
    return metastore


def csv_of(path: Path, ids: Iterable[int], part: str | None = None) -> Path:
    rest = "" if part is None else f",{part}"
    header = "id,msg" if part is None else "id,msg,part"
    path.write_text(f"{header}\n" + "".join(f'{i},"row, {i}"{rest}\n' for i in ids))
    return path


def ingest(client: MetastoreClient, *paths: Path, table: str = PLAIN, **options: Any) -> IngestResult:
    defaults: dict[str, Any] = {"record_writer": CsvWriter(), "rows_per_transaction": 3}
    return ingest_files(client, table, paths, **(defaults | options))


def test_a_corrected_file_replaces_what_it_wrote_and_goes_on_after_it(ms: MetastoreClient, tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", range(10))
    ingest(ms, path)
    csv_of(path, range(20, 28))
    result = ingest(ms, path, overwrite=True)
    assert (result.stats.transactions_committed, result.stats.rows_committed) == (1, 8)
    assert ids(ms, PLAIN) == list(range(20, 28))
    assert ingest(ms, path).stats.transactions_committed == 0
    csv_of(path, range(20, 30))
    ingest(ms, path)
    assert ids(ms, PLAIN) == list(range(20, 30))
    ingest(ms, path, overwrite=True)
    assert ids(ms, PLAIN) == list(range(20, 30))


def test_only_partitions_that_have_records_are_replaced(ms: MetastoreClient, tmp_path: Path) -> None:
    for part, first in (("a", 0), ("b", 10)):
        ingest(ms, csv_of(tmp_path / f"{part}.csv", range(first, first + 5), part), table=PARTS)
    ingest(ms, csv_of(tmp_path / "new.csv", [20, 21], "b"), table=PARTS, overwrite=True)
    assert ids(ms, PARTS) == [0, 1, 2, 3, 4, 20, 21]
    one = csv_of(tmp_path / "static.csv", [30])
    ingest(ms, one, table=PARTS, overwrite=True, static_partition_values=["a"])
    assert ids(ms, PARTS) == [20, 21, 30]


def test_several_files_replace_the_table_together(ms: MetastoreClient, tmp_path: Path) -> None:
    ingest(ms, csv_of(tmp_path / "old.csv", range(10)))
    empty = csv_of(tmp_path / "empty.csv", [])
    files = [csv_of(tmp_path / f"{i}.csv", range(i, i + 4)) for i in (20, 30)]
    result = ingest(ms, *files, empty, overwrite=True)
    assert result.stats.transactions_committed == 1
    assert ids(ms, PLAIN) == [20, 21, 22, 23, 30, 31, 32, 33]
    assert ingest(ms, *files, empty).stats.transactions_committed == 0


@pytest.mark.parametrize("text", ["", "id,msg\n", "id,msg\nx,y\nz,y\n"], ids=["empty", "header", "bad records"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_nothing_is_replaced_by_no_row(ms: MetastoreClient, tmp_path: Path, text: str, dry_run: bool) -> None:
    ingest(ms, csv_of(tmp_path / "a.csv", range(5)))
    path = tmp_path / "b.csv"
    path.write_text(text)
    skipped = r" \(2 bad records skipped\)" if "x" in text else ""
    with pytest.raises(ConfigurationError, match=f"the files have no row{skipped} for web.plain"):
        ingest(ms, path, overwrite=True, dry_run=dry_run, record_writer=CsvWriter(on_error="skip"))
    assert ids(ms, PLAIN) == list(range(5))


def test_a_part_of_a_file_replaces_nothing(ms: MetastoreClient, tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", range(5))
    ingest(ms, path)
    path.write_text('id,msg\n10,a\n11,"b\n12,c\n')
    with pytest.raises(StreamingIOFailure, match="a quote that is not closed"):
        ingest(ms, path, overwrite=True)
    path.write_text("id,msg\n10,a\nx,b\n")
    with pytest.raises(SerializationError, match=r"a\.csv', line 3"):
        ingest(ms, path, overwrite=True)
    assert ids(ms, PLAIN) == list(range(5))


def test_no_file_is_left_out_of_an_overwrite(ms: MetastoreClient, tmp_path: Path) -> None:
    ingest(ms, csv_of(tmp_path / "old.csv", range(5)))
    long, short = csv_of(tmp_path / "long.csv", range(10, 200)), csv_of(tmp_path / "short.csv", [300])
    with pytest.raises(ConfigurationError, match=r"short\.csv': too short"):
        ingest(ms, long, short, overwrite=True, source_key="content")
    assert ids(ms, PLAIN) == list(range(5))


def test_columns_are_added_before_the_overwrite(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id":1}\n')
    ingest(ms, path, record_writer=StrictJsonWriter())
    path.write_text("".join(f'{{"id":{i},"rating":{i}.5}}\n' for i in range(10, 15)))
    result = ingest(ms, path, record_writer=StrictJsonWriter(), overwrite=True, merge_schema=True)
    assert [f"{column.name} {column.type}" for column in result.columns_added] == ["rating double"]
    found = read_table(ms, PLAIN).sort_by("id")
    assert found["rating"].to_pylist() == [10.5, 11.5, 12.5, 13.5, 14.5]


@pytest.mark.parametrize("option", ["overwrite", "dry_run"])
def test_followed_files_are_not_read_anew_in_each_round(ms: MetastoreClient, tmp_path: Path, option: str) -> None:
    path, options = csv_of(tmp_path / "a.csv", range(5)), {option: True}
    with pytest.raises(ConfigurationError, match=f"{option}=True cannot be used"):
        next(follow_files(ms, PLAIN, path, record_writer=CsvWriter(), **dict[str, Any](options)))
