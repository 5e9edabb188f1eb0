"""Columns from data, and columns that are added, on every metastore."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from hive_ingest import append, read_table
from hive_ingest.errors import ConfigurationError, InvalidOperation, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient, table_checks
from hive_ingest.model import Column, columns_of
from tests.acceptance.metastore.requests import READ, component, lock

SCHEMA = pa.schema(
    [
        ("Id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("name", pa.large_string()),
        ("small", pa.uint16()),
        ("tags", pa.list_(pa.string())),
        ("day", pa.date32()),
    ]
)
COLUMNS = [
    ("id", "bigint"),
    ("price", "decimal(10,2)"),
    ("name", "string"),
    ("small", "int"),
    ("tags", "array<string>"),
]


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    return metastore


def pairs(columns: tuple[Column, ...]) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def test_a_table_is_made_for_an_arrow_schema(ms: MetastoreClient) -> None:
    table = ms.create_table("web.t", schema=SCHEMA, partition_keys=["Day"])
    assert pairs(table.columns) == COLUMNS
    assert pairs(table.partition_keys) == [("day", "date")]
    again = ms.create_table("web.t", schema=SCHEMA, partition_keys=["day"], if_not_exists=True)
    assert again == table == ms.get_table("web.t")


def test_a_table_is_made_for_data_frames(ms: MetastoreClient) -> None:
    frame = pd.DataFrame({"id": [1, 2], "at": pd.to_datetime(["2026-01-01", None]), "ok": [True, False]}, index=[7, 9])
    assert pairs(ms.create_table("web.p", schema=frame).columns) == [
        ("id", "bigint"),
        ("at", "timestamp"),
        ("ok", "boolean"),
    ]
    reader = pa.RecordBatchReader.from_batches(SCHEMA, [])
    assert pairs(ms.create_table("web.r", schema=reader).columns) == [*COLUMNS, ("day", "date")]


def test_types_of_some_columns_of_the_data_can_be_chosen(ms: MetastoreClient) -> None:
    columns = [Column("name", "varchar(20)", "of the shop"), Column("id", "int")]
    table = ms.create_table("web.t", schema=SCHEMA, columns=columns, partition_keys={"day": "string", "hour": "int"})
    assert table.columns[:3] == (
        Column("id", "int"),
        Column("price", "decimal(10,2)"),
        Column("name", "varchar(20)", "of the shop"),
    )
    assert pairs(table.partition_keys) == [("day", "string"), ("hour", "int")]


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({}, ConfigurationError, "needs columns"),
        ({"schema": [1, 2]}, ConfigurationError, "list has no Arrow schema"),
        ({"schema": SCHEMA, "columns": {"nmae": "string"}}, ConfigurationError, "'nmae', which the data does not have"),
        ({"schema": SCHEMA, "partition_keys": ["days"]}, ConfigurationError, "'days' is not a column of the data"),
        ({"schema": SCHEMA, "partition_keys": "day"}, ConfigurationError, "give a list of names"),
        (
            {"schema": pa.schema([("a", pa.uint64()), ("b", pa.null())])},
            UnsupportedFeature,
            "column 'a': .*column 'b': .*give the types of these columns",
        ),
        ({"schema": pa.schema([("a", pa.int8()), ("A", pa.int8())])}, InvalidOperation, "2 columns named 'a'"),
    ],
)
def test_data_that_no_table_fits_is_refused(
    ms: MetastoreClient, arguments: dict[str, object], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        ms.create_table("web.t", **arguments)  # type: ignore[arg-type]
    assert ms.get_tables("web") == []


def test_several_columns_are_added_together(ms: MetastoreClient) -> None:
    ms.create_table("web.t", columns={"id": "int"}, partition_keys={"p": "int"})
    ms.add_partitions("web.t", [["1"]])
    added = ms.add_columns("web.t", {"A": "int", "b": "decimal(5, 1)"})
    assert pairs(added.columns) == [("id", "int"), ("a", "int"), ("b", "decimal(5, 1)")]
    assert ms.get_table("web.t") == added
    # Hive reads a partition by its own columns.
    assert ms.get_partition("web.t", ["1"]).columns == added.columns


def test_columns_that_are_there_are_left_out_if_their_type_is_the_same(ms: MetastoreClient) -> None:
    before = ms.create_table("web.t", columns={"id": "int", "d": "decimal(5,1)"}, partition_keys={"p": "int"})
    assert ms.add_columns("web.t", {"d": "decimal(5, 1)", "P": "int"}, if_not_exists=True) == before
    added = ms.add_columns("web.t", {"d": "decimal(5,1)", "e": "int"}, if_not_exists=True)
    assert pairs(added.columns) == [("id", "int"), ("d", "decimal(5,1)"), ("e", "int")]
    for columns in ({"f": "int", "e": "bigint"}, {"f": "int", "p": "string"}):
        with pytest.raises(InvalidOperation, match="already, of type int"):
            ms.add_columns("web.t", columns, if_not_exists=True)
    with pytest.raises(InvalidOperation, match="has a column 'e' already"):
        ms.add_columns("web.t", {"f": "int", "e": "int"})
    assert ms.get_table("web.t") == added


def test_columns_are_added_beside_a_writer(ms: MetastoreClient) -> None:
    ms.create_table("web.t", columns={"id": "int"})
    (txn_id,) = ms.open_txns()
    lock(ms, component(READ, "web", "t"), txn_id=txn_id)
    assert len(ms.add_columns("web.t", {"a": "int"}).columns) == 2
    ms.abort_txn(txn_id)


def test_no_column_is_lost_when_several_clients_add_some(ms: MetastoreClient, tmp_path: Path) -> None:
    ms.create_table("web.t", columns={"id": "int"})
    clients = [ms.clone() for _ in range(3)]
    start = threading.Barrier(len(clients))

    def add(number: int) -> None:
        with clients[number] as client:
            start.wait()
            client.add_columns("web.t", {f"c{number}": "int", "shared": "string"}, if_not_exists=True)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {column.name for column in ms.get_table("web.t").columns} == {"id", "c0", "c1", "c2", "shared"}


@pytest.mark.parametrize("change", [{"bucketing_version": "1"}, {"transactional_properties": "insert_only"}])
def test_properties_by_which_files_were_written_cannot_be_changed(ms: MetastoreClient, change: dict[str, str]) -> None:
    """With another bucketing version, the rows there would be in wrong buckets."""
    table = ms.create_table("web.t", columns={"id": "int"}, bucket_columns=["id"], num_buckets=2)
    with pytest.raises(InvalidOperation, match=rf"'{next(iter(change))}' cannot change.*create a new table"):
        ms.alter_table("web.t", replace(table, properties={**table.properties, **change}))
    assert ms.get_table("web.t") == table


def test_a_bucket_column_cannot_get_a_type_with_another_hash(ms: MetastoreClient) -> None:
    """Hive hashes the int 1 and the bigint 1 differently, so that rows of before and after would not meet."""
    columns = {"id": "int", "name": "varchar(9)", "price": "decimal(5,2)", "other": "int"}
    table = ms.create_table("web.b", columns=columns, bucket_columns=["id", "name", "price"], num_buckets=4)
    for name, type_ in (("id", "bigint"), ("name", "char(9)"), ("name", "varchar(8)"), ("price", "decimal(7,3)")):
        with pytest.raises(InvalidOperation, match=f"bucket column '{name}' cannot change .*the bucket of the rows"):
            ms.alter_table("web.b", replace(table, columns=columns_of({**columns, name: type_})))
    same_hash = {**columns, "name": "string", "other": "bigint"}
    assert ms.alter_table("web.b", replace(table, columns=columns_of(same_hash))).columns == columns_of(same_hash)


@pytest.mark.parametrize("type_", ["struct<a:varchar(3)>", "struct<a:char(9)>"])
def test_a_text_inside_a_value_cannot_become_shorter(ms: MetastoreClient, type_: str) -> None:
    """Only the texts of whole columns are cut when they are read."""
    table = ms.create_table("web.t", columns={"s": "struct<a:varchar(10)>", "whole": "varchar(10)"})
    with pytest.raises(InvalidOperation, match="not every value in its files would fit"):
        ms.alter_table("web.t", replace(table, columns=columns_of({"s": type_, "whole": "varchar(10)"})))
    longer = {"s": "struct<a:varchar(11)>", "whole": "varchar(3)"}
    assert ms.alter_table("web.t", replace(table, columns=columns_of(longer))).columns == columns_of(longer)


def test_no_new_column_has_the_name_of_a_virtual_column_of_hive(ms: MetastoreClient) -> None:
    """A table of rows that were read with `row_ids=True` could not be read any more."""
    append(ms, "web.t", pa.table({"id": [1]}), create=True)
    copied = read_table(ms, "web.t", row_ids=True)
    with pytest.raises(InvalidOperation, match="'row__id' is a virtual column of Hive"):
        append(ms, "web.copy", copied, create=True)
    with pytest.raises(InvalidOperation, match="'row__id' is a virtual column of Hive"):
        append(ms, "web.t", copied, merge_schema=True)
    with pytest.raises(InvalidOperation, match="'input__file__name' is a virtual"):
        ms.create_table("web.p", columns={"id": "int"}, partition_keys={"INPUT__FILE__NAME": "string"})
    append(ms, "web.t", copied)
    assert read_table(ms, "web.t").to_pylist() == [{"id": 1}, {"id": 1}]


def test_a_table_that_has_such_a_column_is_refused_by_the_reader(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_checks, "VIRTUAL_COLUMNS", frozenset())  # as Hive's DDL, which accepts the name
    table = ms.create_table("web.t", columns={"id": "int", "row__id": "int"})
    monkeypatch.undo()
    with pytest.raises(UnsupportedFeature, match=r"web\.t has a column named 'row__id'.*CHANGE"):
        read_table(ms, "web.t", columns=["id"])
    first, last = table.columns
    ms.alter_table("web.t", replace(table, columns=(first, replace(last, name="rid"))))
    assert read_table(ms, "web.t").column_names == ["id", "rid"]
