"""Rows go to the partition and bucket that Hive would choose, each row once, in order."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from hive_ingest.acid.bucketing import bucket_ids
from hive_ingest.delta.routing import GroupKey, RoutedBatch, Router
from hive_ingest.errors import SerializationError, UnsupportedFeature
from hive_ingest.model import Column, Table, TableName
from hive_ingest.schema import arrow_schema


def table(partition_keys: dict[str, str], *, buckets: int = -1) -> Table:
    return Table(
        TableName.of("db.t"),
        (Column("id", "int"), Column("s", "string")),
        tuple(Column(k, t) for k, t in partition_keys.items()),
        bucket_columns=("id",) if buckets > 0 else (),
        num_buckets=buckets,
    )


def batch(of: Table, rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, arrow_schema((*of.columns, *of.partition_keys)))


def by_group(routed: RoutedBatch) -> dict[GroupKey, list[int]]:
    ids = routed.batch.column("id").to_pylist()
    ends = routed.offsets[1:]
    return {k: ids[a:b] for k, a, b in zip(routed.keys, routed.offsets, ends, strict=False)}


def test_an_unpartitioned_batch_is_one_group_and_is_not_copied() -> None:
    t = table({})
    rows = batch(t, [{"id": i, "s": "x"} for i in range(3)])
    routed = Router(t).route(rows)
    assert by_group(routed) == {GroupKey((), 0): [0, 1, 2]}
    assert routed.batch.column("id").buffers()[1].address == rows.column("id").buffers()[1].address


def test_rows_of_a_partition_keep_their_order_and_partition_columns_are_dropped() -> None:
    t = table({"country": "string", "day": "date"})
    rows = [{"id": i, "s": "", "country": "ab"[i % 2], "day": dt.date(2024, 1, 1 + i // 4)} for i in range(8)]
    routed = Router(t).route(batch(t, rows))
    assert by_group(routed) == {
        GroupKey(("a", "2024-01-01"), 0): [0, 2],
        GroupKey(("b", "2024-01-01"), 0): [1, 3],
        GroupKey(("a", "2024-01-02"), 0): [4, 6],
        GroupKey(("b", "2024-01-02"), 0): [5, 7],
    }
    assert routed.batch.schema.names == ["id", "s"]


def test_null_empty_and_the_default_partitions_own_name_are_one_partition() -> None:
    t = table({"p": "string"})
    values = [None, "", "__HIVE_DEFAULT_PARTITION__", "x"]
    routed = Router(t).route(batch(t, [{"id": i, "s": "", "p": v} for i, v in enumerate(values)]))
    assert by_group(routed) == {GroupKey((None,), 0): [0, 1, 2], GroupKey(("x",), 0): [3]}


def test_typed_partition_values_have_hives_text_form() -> None:
    t = table({"i": "int", "b": "boolean", "d": "decimal(8,3)", "day": "date"})
    row = {"id": 1, "s": "", "i": -7, "b": True, "d": decimal.Decimal("1.500"), "day": dt.date(2024, 2, 29)}
    assert Router(t).route(batch(t, [row])).keys == (GroupKey(("-7", "true", "1.5", "2024-02-29"), 0),)


def test_a_decimal_partition_of_zero_and_of_hundreds_has_no_exponent() -> None:
    t = table({"d": "decimal(8,3)"})
    rows = [{"id": 0, "s": "", "d": decimal.Decimal("0.000")}, {"id": 1, "s": "", "d": decimal.Decimal("1200")}]
    assert {key.partition[0] for key in Router(t).route(batch(t, rows)).keys} == {"0", "1200"}


def test_a_char_is_padded_where_it_names_a_partition() -> None:
    # Hive finds no other name: its query by the value passes over a folder "c=ab".
    t = table({"c": "char(4)", "v": "varchar(4)"})
    rows = [("ab", "ab"), ("ab  ", "ab"), ("äö", "ab "), ("", ""), (None, None)]
    found = by_group(Router(t).route(batch(t, [{"id": i, "c": c, "v": v} for i, (c, v) in enumerate(rows)])))
    assert found == {
        GroupKey(("ab  ", "ab"), 0): [0, 1],
        GroupKey(("äö  ", "ab "), 0): [2],
        GroupKey(("    ", None), 0): [3],
        GroupKey((None, None), 0): [4],
    }


def test_static_values_come_first_and_their_columns_are_not_in_the_batch() -> None:
    t = table({"continent": "string", "country": "string"})
    schema = arrow_schema((*t.columns, t.partition_keys[1]))
    rows = pa.RecordBatch.from_pylist([{"id": 1, "s": "", "country": "India"}], schema)
    assert Router(t, ["Asia"]).route(rows).keys == (GroupKey(("Asia", "India"), 0),)


def test_buckets_are_those_of_hives_hash_in_every_partition() -> None:
    t = table({"p": "string"}, buckets=4)
    rows = batch(t, [{"id": i, "s": "", "p": str(i % 3)} for i in range(200)])
    routed = Router(t).route(rows)
    expected = bucket_ids([rows.column("id")], ["int"], 4)
    found = {i: key for key, ids in by_group(routed).items() for i in ids}
    assert found == {i: GroupKey((str(i % 3),), int(expected[i])) for i in range(200)}


def test_a_parallel_writer_owns_its_bucket_number_in_an_unbucketed_table() -> None:
    t = table({"p": "string"})
    routed = Router(t, writer_bucket=17).route(batch(t, [{"id": 1, "s": "", "p": "x"}]))
    assert routed.keys == (GroupKey(("x",), 17),)


def test_an_empty_batch_has_no_groups() -> None:
    t = table({"p": "string"}, buckets=2)
    assert Router(t).route(batch(t, [])).keys == ()


def test_a_hundred_thousand_partitions_in_one_batch_are_kept_apart() -> None:
    t = table({"a": "int", "b": "int", "c": "int"})
    n = 100_000
    i = np.arange(n, dtype=np.int32)
    columns = [pa.array(i), pa.nulls(n, pa.string()), pa.array(i), pa.array(i[::-1]), pa.array(i)]
    routed = Router(t).route(pa.RecordBatch.from_arrays(columns, schema=arrow_schema((*t.columns, *t.partition_keys))))
    assert len(set(routed.keys)) == n
    assert routed.batch.num_rows == n


def test_a_partition_value_too_long_for_a_folder_name_is_a_bad_record() -> None:
    t = table({"p": "string"})
    with pytest.raises(SerializationError, match="more than 255 bytes"):
        Router(t).route(batch(t, [{"id": 1, "s": "", "p": "é" * 130}]))


def test_a_partition_key_without_an_exact_text_form_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="'p' is of type double"):
        Router(table({"p": "double"}))


def test_a_decimal_names_its_partition_with_all_its_digits() -> None:
    """It was once rounded to 28 digits, so two values shared a partition and were read as a third."""
    t = table({"d": "decimal(38,2)"})
    values = [decimal.Decimal("123456789012345678901234567890123456.10"), decimal.Decimal("-0.10"), None]
    rows = batch(t, [{"id": i, "s": "", "d": d} for i, d in enumerate(values)])
    names = {key.partition for key in Router(t).route(rows).keys}
    assert names == {("123456789012345678901234567890123456.1",), ("-0.1",), (None,)}
