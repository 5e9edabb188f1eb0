"""Bucket numbers as real Hive computes them: vectors from Hive's own classes, and a plain oracle."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.acid.bucketing import bucket_hash_codes, bucket_ids
from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.schema import arrow_type, parse_type
from tests.support.hive_tables import DATA

VECTORS = json.loads((DATA / "bucket_hashes.json").read_text())["rows"]


def column(type_, texts):
    if parse_type(type_).children:  # a value of a JSON record
        return pa.array(
            [record and plain_value(parse_type(type_), json.loads(record)) for record in texts], arrow_type(type_)
        )
    return pa.array([None if text is None else value_of(type_, text) for text in texts], arrow_type(type_))


def value_of(type_: str, text: str) -> Any:
    kind = type_.partition("(")[0]
    if kind == "boolean":
        return text == "true"
    if kind in ("float", "double"):
        return float(text.replace("Infinity", "inf"))
    if kind == "decimal":
        return Decimal(text)
    if kind == "date":
        return dt.date.fromisoformat(text)
    if kind == "timestamp":
        return pa.scalar(text).cast(pa.timestamp("ns")).value
    return text if kind in ("string", "char", "varchar") else int(text)


def plain_value(type_, value):
    """What a JSON record has, as Arrow accepts it."""
    if value is None:
        return None
    if type_.kind == "array":
        return [plain_value(type_.children[0][1], item) for item in value]
    if type_.kind == "struct":
        return {name: plain_value(child, value.get(name)) for name, child in type_.children}
    return value_of(str(type_), value if isinstance(value, str) else json.dumps(value))


def vectors_by_types():
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in VECTORS:
        groups.setdefault(tuple(row["types"]), []).append(row)
    return groups.items()


@pytest.mark.parametrize(
    ("types", "rows"), vectors_by_types(), ids=lambda x: "-".join(x) if isinstance(x, tuple) else ""
)
def test_hashes_and_buckets_are_those_of_real_hive(types, rows):
    columns = [column(t, [row["values"][i] for row in rows]) for i, t in enumerate(types)]
    assert bucket_hash_codes(columns, types).tolist() == [row["hash"] for row in rows]
    assert bucket_ids(columns, types, 4).tolist() == [row["bucket_of_4"] for row in rows]
    assert bucket_ids(columns, types, 7).tolist() == [row["bucket_of_7"] for row in rows]


def murmur(data):
    """Hive's Murmur3.hash32 a byte at a time, tail bytes signed as Java's are."""

    def scramble(k):
        k = k * 0xCC9E2D51 & 0xFFFFFFFF
        return (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF

    h, whole = 104729, len(data) // 4 * 4
    for i in range(0, whole, 4):
        h ^= scramble(int.from_bytes(data[i : i + 4], "little"))
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & 0xFFFFFFFF
    if data[whole:]:
        k = 0
        for i, byte in enumerate(data[whole:]):
            k ^= (byte - 256 if byte > 127 else byte) << 8 * i
        h ^= scramble(k & 0xFFFFFFFF)
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


@given(st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=60))
def test_any_strings_hash_in_bulk_as_one_by_one(values):
    expected = [0 if v is None else murmur(v.encode()) for v in values]
    assert bucket_hash_codes([pa.array(values, pa.string())], ["string"]).tolist() == expected


def test_a_very_long_string_among_short_ones_hashes_as_it_does_alone():
    values = ["é" * 100_003, *(str(i) for i in range(1000)), "x" * 70_001]
    assert bucket_hash_codes([pa.array(values)], ["string"]).tolist() == [murmur(v.encode()) for v in values]


def test_slices_and_chunks_hash_as_the_whole():
    values = [None if i % 7 == 0 else f"value {i}" for i in range(100)]
    whole = bucket_ids([pa.array(values)], ["string"], 8)
    sliced = bucket_ids([pa.array(values).slice(13, 50)], ["string"], 8)
    chunked = bucket_ids([pa.chunked_array([values[:31], [], values[31:]], pa.string())], ["string"], 8)
    assert sliced.tolist() == whole[13:63].tolist()
    assert chunked.tolist() == whole.tolist()


@pytest.mark.parametrize("type_", sorted({type_ for row in VECTORS for type_ in row["types"]}))
def test_no_rows_and_only_nulls(type_):
    assert bucket_ids([pa.array([], arrow_type(type_))], [type_], 4).tolist() == []
    assert bucket_ids([pa.nulls(3, arrow_type(type_))], [type_], 4).tolist() == [0, 0, 0]


@pytest.mark.parametrize("type_", ["binary", "array<binary>", "map<string,int>", "struct<a:int,b:map<int,int>>"])
def test_a_type_without_a_bucket_hash_is_refused(type_):
    with pytest.raises(UnsupportedFeature, match=type_):
        bucket_ids([pa.nulls(1, arrow_type(type_))], [type_], 4)


@pytest.mark.parametrize("type_", ["array<struct<a:int,b:string>>", "struct<a:int,b:array<string>>"])
def test_nested_values_hash_in_slices_and_chunks_as_in_the_whole(type_):
    items = [None, {"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 7, "b": "yy"}]
    values: list[Any] = [None if k % 7 == 0 else items[: k % 5] for k in range(40)]
    if type_.startswith("struct"):
        values = [
            None if value is None else {"a": k, "b": None if k % 3 == 0 else ["z"] * (k % 6)}
            for k, value in enumerate(values)
        ]
    whole = pa.array(values, arrow_type(type_))
    hashes = bucket_hash_codes([whole], [type_]).tolist()
    assert hashes == [bucket_hash_codes([pa.array([value], whole.type)], [type_])[0] for value in values]
    assert bucket_hash_codes([whole.slice(5, 20)], [type_]).tolist() == hashes[5:25]
    assert bucket_hash_codes([pa.chunked_array([whole[:9], whole[9:]])], [type_]).tolist() == hashes
    assert [code for code, value in zip(hashes, values, strict=True) if value is None] == [0] * 6


def test_every_nan_has_one_hash():
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    hashes = bucket_hash_codes([pa.array([float("nan"), other_nan[0]])], ["double"])
    assert hashes[0] == hashes[1]


def test_buckets_and_columns_are_required():
    with pytest.raises(ConfigurationError):
        bucket_ids([pa.array([1])], ["int"], 0)
    with pytest.raises(ConfigurationError):
        bucket_ids([], [], 4)
