"""`ingest_files(merge_schema=True)`: columns that records have and the table lacks."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.connection import CommitInfo
from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.reader import read_table
from hive_ingest.record_writer import CsvWriter, RecordWriter, StrictDelimitedInputWriter, StrictJsonWriter
from hive_ingest.streaming import IngestResult, ingest_files

TABLE = "web.events"


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={"id": "int", "msg": "string"}, partition_keys={"part": "string"})
    return metastore


def ingest(client: MetastoreClient, *paths: Path | str, **options: Any) -> IngestResult:
    defaults: dict[str, Any] = {"record_writer": StrictJsonWriter(), "merge_schema": True, "rows_per_transaction": 2}
    return ingest_files(client, TABLE, paths, **(defaults | options))


def types(client: MetastoreClient) -> dict[str, str]:
    return {column.name: column.type for column in client.get_table(TABLE).columns}


def rows(client: MetastoreClient, *names: str) -> list[tuple[Any, ...]]:
    found = sorted(read_table(client, TABLE).to_pylist(), key=lambda row: row["id"])
    return [tuple(row[name] for name in names) for row in found]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_keys_become_columns_wherever_in_a_file_they_begin(ms: MetastoreClient, tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        '{"id":1,"part":"a","Rating":4}\n{"id":2,"part":"a","rating":4.5,"none":null}\n'
        '{"id":3,"part":"b"}\n{"id":4,"part":"b","tags":["x"],"none":[]}\n'
        '{"id":5,"part":"b","day":"2026-11-23","tags":null}\n',
    )
    result = ingest(ms, path)
    added = {"rating": "double", "tags": "array<string>", "day": "date"}
    assert {column.name: column.type for column in result.columns_added} == added
    assert types(ms) == {"id": "int", "msg": "string"} | added
    assert result.stats.transactions_committed == 3
    assert rows(ms, "id", "rating", "tags") == [
        (1, 4.0, None),
        (2, 4.5, None),
        (3, None, None),
        (4, None, ["x"]),
        (5, None, None),
    ]
    path.write_text(path.read_text() + '{"id":6,"part":"b","rating":1}\n')
    assert ingest(ms, path).columns_added == ()
    assert rows(ms, "rating")[-1] == (1.0,)


def test_names_in_a_header_become_columns_of_the_options_forms(ms: MetastoreClient, tmp_path: Path) -> None:
    first = written(tmp_path / "1.csv", "id;msg;part;Preis;leer\n1;a;x;1,50;\n2;b;x;2;\n")
    second = written(tmp_path / "2.csv", 'id;msg;part;preis;tag\n3;"c\nd";x;3;01.02.2026\n')
    forms = CsvWriter(field_delimiter=";", decimal_point=",", date_formats=["dd.MM.yyyy"], missing_columns="null")
    ingest(ms, first, second, record_writer=forms)
    assert types(ms) == {"id": "int", "msg": "string", "preis": "double", "tag": "date"}
    assert [str(row) for row in rows(ms, "preis", "tag")] == [
        "(1.5, None)",
        "(2.0, None)",
        "(3.0, datetime.date(2026, 2, 1))",
    ]


def test_a_pipe_is_read_once(ms: MetastoreClient, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(f'{{"id":{i},"part":"a","n{i // 2}":{i}}}\n' for i in range(5))
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    ingest(ms, pipe)
    writer.join()
    assert rows(ms, "n0", "n1", "n2") == [
        (0, None, None),
        (1, None, None),
        (None, 2, None),
        (None, 3, None),
        (None, None, 4),
    ]


def test_columns_stay_and_rows_do_not_when_a_transaction_fails(ms: MetastoreClient, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"id":1,"part":"a","n":1}\n{"id":"x","part":"a"}\n')
    with pytest.raises(SerializationError, match=r"a\.jsonl', line 2"):
        ingest(ms, path)
    assert types(ms)["n"] == "bigint"
    assert rows(ms, "id") == []
    path.write_text('{"id":1,"part":"a","n":1}\n{"id":2,"part":"a"}\n')
    ingest(ms, path)
    assert rows(ms, "id", "n") == [(1, 1), (2, None)]


def test_bad_records_are_skipped_as_without_it(ms: MetastoreClient, tmp_path: Path) -> None:
    lines = [
        '{"id":1,"part":"a","n":1}',
        "no JSON",
        '{"id":2,"part":"a","n":',
        "[1]",
        "",
        '{"id":3,"part":"a","m":NaN}',
    ]
    path = written(tmp_path / "a.jsonl", "".join(f"{line}\n" for line in lines))
    result = ingest(ms, path, record_writer=StrictJsonWriter(on_error="skip"), rows_per_transaction=100)
    assert result.stats.records_skipped == 5
    assert rows(ms, "id", "n") == [(1, 1)]
    csv = written(tmp_path / "a.csv", "id,msg,part,k\n4,a,b,1\n5,a\n")
    result = ingest(ms, csv, record_writer=CsvWriter(on_error="skip", missing_columns="null"))
    assert result.stats.records_skipped == 1
    assert rows(ms, "id", "k") == [(1, None), (4, 1)]


def test_records_that_no_column_can_hold_do_not_end_a_run_that_skips_them(ms: MetastoreClient, tmp_path: Path) -> None:
    deep = '{"id":3,"part":"a","d":' + "[" * 30_000 + "]" * 30_000 + "}"
    lines = ['{"id":1,"part":"a","n":"x"}', '{"id":2,"part":"a","n":"\\ud800"}', deep]
    path = written(tmp_path / "a.jsonl", "".join(f"{line}\n" for line in lines))
    result = ingest(ms, path, record_writer=StrictJsonWriter(on_error="skip"), rows_per_transaction=100)
    assert result.stats.records_skipped == 2
    csv = tmp_path / "a.csv"
    csv.write_bytes(b"id,msg,part,k\n4,a,b,1\n5,a,b,\xe9\n")
    result = ingest(ms, csv, record_writer=CsvWriter(on_error="skip", missing_columns="null"))
    assert result.stats.records_skipped == 1
    assert types(ms) == {"id": "int", "msg": "string", "n": "string", "k": "bigint"}
    assert rows(ms, "id", "n", "k") == [(1, "x", None), (4, None, 1)]


def test_short_and_long_records_are_padded_and_cut_as_by_the_writer(ms: MetastoreClient, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,msg,part,new,opt\n1,a,b,5\n2,a,b,6,,\n")
    ingest(ms, path, record_writer=CsvWriter(missing_fields="null", missing_columns="null"))
    assert types(ms) == {"id": "int", "msg": "string", "new": "bigint"}
    assert rows(ms, "new") == [(5,), (6,)]


def test_a_column_whose_values_have_no_common_type_is_named(ms: MetastoreClient, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"id":1,"part":"a","n":1}\n{"id":2,"part":"a","n":"x"}\n')
    with pytest.raises(ConfigurationError, match=r"a\.jsonl.*no type holds all values of the new column 'n'"):
        ingest(ms, path)
    assert types(ms) == {"id": "int", "msg": "string"}
    ms.add_columns(TABLE, {"n": "string"})
    ingest(ms, path, record_writer=StrictJsonWriter(coerce="lossless"))
    assert rows(ms, "n") == [("1",), ("x",)]


def test_positions_of_another_run_are_taken(ms: MetastoreClient, tmp_path: Path) -> None:
    """Another run commits what this one has read already, while its columns are added."""
    path = written(tmp_path / "a.jsonl", "".join(f'{{"id":{i},"part":"a","n{i}":{i}}}\n' for i in range(4)))
    others: list[IngestResult] = []

    def commit_the_rest(info: CommitInfo) -> None:
        if not others:
            with ms.clone() as other:
                others.append(ingest(other, path))

    ingest(ms, path, rows_per_transaction=1, on_commit=commit_the_rest)
    assert rows(ms, "id", "n0", "n3") == [(0, 0, None), (1, None, None), (2, None, None), (3, None, 3)]


@pytest.mark.parametrize("writer", [StrictDelimitedInputWriter(), CsvWriter(header=False)])
def test_records_without_names_are_refused(ms: MetastoreClient, tmp_path: Path, writer: RecordWriter) -> None:
    with pytest.raises(ConfigurationError, match="merge_schema=True requires records that name their columns"):
        ingest(ms, written(tmp_path / "a", "1\n"), record_writer=writer)


@pytest.mark.parametrize(
    ("name", "writer", "text"),
    [
        ("a.jsonl", StrictJsonWriter(), '{"id": 1, "part": "a", "ROW__ID": 5}\n'),
        ("a.csv", CsvWriter(missing_columns="null"), "id,part,Row__Id\n1,a,5\n"),
    ],
)
def test_a_virtual_column_of_hive_is_not_added(
    name: str, writer: RecordWriter, text: str, ms: MetastoreClient, tmp_path: Path
) -> None:
    path = written(tmp_path / name, text)
    with pytest.raises(ConfigurationError, match=rf"{name}'.*'row__id', which is a virtual column of Hive"):
        ingest(ms, path, record_writer=writer)
    assert list(types(ms)) == ["id", "msg"]
    assert rows(ms, "id") == []
