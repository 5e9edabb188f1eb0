"""Rows of Arrow data as Python objects, of which some have none of their own."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.record_writer import python_row

NOT_UTF8 = pa.Array.from_buffers(
    pa.string(),
    2,
    [None, pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00"), pa.py_buffer(b"\xff\xfea")],
)


def value_of(array: pa.Array, place: int = 0) -> Any:
    return python_row(pa.record_batch({"v": array.slice(place, 1)}))["v"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (NOT_UTF8, "\\xff\\xfe"),
        (pa.ListArray.from_arrays([0, 1, 2], NOT_UTF8), ["\\xff\\xfe"]),
        (pa.MapArray.from_arrays([0, 1, 2], NOT_UTF8, NOT_UTF8), [("\\xff\\xfe", "\\xff\\xfe")]),
        (pa.StructArray.from_arrays([NOT_UTF8], ["x"]), {"x": "\\xff\\xfe"}),
        (pa.DictionaryArray.from_arrays([0, 1], NOT_UTF8), "\\xff\\xfe"),
        (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "<value out of range: 2147483647>"),
        (pa.array([2**62], pa.int64()).view(pa.timestamp("s")), f"<value out of range: {2**62}>"),
        (pa.array([5], pa.int64()).view(pa.date64()), "1970-01-01 00:00:00.005"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_value_that_python_has_not_is_a_text(array, expected):
    assert value_of(array) == expected


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (NOT_UTF8.slice(1), "a"),
        (pa.array([None], pa.list_(pa.int8())), None),
        (pa.array([[1, None]], pa.list_view(pa.int8())), [1, None]),
        (pa.array([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int8()))), [("k", [1])]),
        (pa.array([{"x": Decimal("1.50")}]), {"x": Decimal("1.50")}),
        (pa.array([0], pa.int64()).view(pa.date64()), dt.date(1970, 1, 1)),
        (pa.array(["a"]).dictionary_encode(), "a"),
        (pa.array([b"\xff"]), b"\xff"),
        (pa.nulls(1), None),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_other_values_are_those_of_arrow(array, expected):
    assert value_of(array) == expected
