"""What goes into an ACID file comes out again, whatever its nulls, its nesting and its slices.

Each of these shapes was written wrong by pyarrow alone at some time: a struct that is null, inside one that is not.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_ingest.errors import SerializationError
from hive_ingest.model import WriteId
from hive_ingest.orc.normalise import normalise, unwritable_values
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.storage import LocalStore

Value = Any
SCALARS: dict[pa.DataType, list[Value]] = {
    pa.int8(): [0, -128, 127],
    pa.int64(): [0, 2**63 - 1, -(2**63)],
    pa.bool_(): [True, False],
    pa.float64(): [0.0, -1.5, float("inf")],
    pa.string(): ["", "a", "日本"],
    pa.binary(): [b"", b"\0x"],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1582, 10, 14), dt.date(2024, 2, 29)],
    pa.timestamp("ns"): [
        dt.datetime(1970, 1, 1),
        dt.datetime(1960, 1, 1, 0, 0, 0, 5),
        dt.datetime(2262, 1, 1, 2, 3, 4, 5),
    ],
    pa.timestamp("us"): [
        dt.datetime(1960, 1, 1, 0, 0, 0, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 1000),
        dt.datetime(1970, 1, 1),
    ],
    pa.decimal128(38, 10): [Decimal("0E-10"), Decimal(10) ** 27, Decimal("-1.0000000001")],
    pa.decimal128(9, 2): [Decimal("0.00"), Decimal("-9999999.99")],
}
WRITABLE = [type_ for type_ in SCALARS if type_ != pa.timestamp("us")]


class Shapes:
    """Random types and arrays of them. One seed gives one run (drawing each value by hypothesis takes minutes)."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def type(self, scalars: list[pa.DataType], depth: int = 3) -> pa.DataType:
        kind = self.random.choice(["scalar", "list", "map", "struct", "struct"]) if depth else "scalar"
        if kind == "scalar":
            return self.random.choice(scalars)
        if kind == "list":
            return pa.list_(self.type(scalars, depth - 1))
        if kind == "map":
            return pa.map_(pa.string(), self.type(scalars, depth - 1))
        return pa.struct([(f"f{i}", self.type(scalars, depth - 1)) for i in range(self.random.randint(1, 3))])

    def value(self, type_: pa.DataType) -> Value:
        if self.random.random() < 0.3:
            return None
        if pa.types.is_struct(type_):
            return {field.name: self.value(field.type) for field in type_}
        if pa.types.is_map(type_):
            keys = self.random.sample(["", "k", "l"], self.random.randint(0, 3))
            return [(key, self.value(type_.item_type)) for key in keys]
        if pa.types.is_list(type_):
            return [self.value(type_.value_type) for _ in range(self.random.randint(0, 3))]
        return self.random.choice(SCALARS[type_])

    def array(self, scalars: list[pa.DataType], length: int) -> pa.Array:
        """A slice of a longer array, with garbage under some of its nulls."""
        type_ = self.type(scalars)
        before, after = self.random.randint(0, 3), self.random.randint(0, 3)
        whole = pa.array([self.value(type_) for _ in range(before + length + after)], type_)
        if pa.types.is_struct(type_) and self.random.random() < 0.5:
            mask = pa.array([self.random.random() < 0.3 for _ in whole])
            whole = pa.StructArray.from_arrays(whole.flatten(), fields=list(type_), mask=mask)
        return whole.slice(before, length)


def round_trip(*batches: pa.RecordBatch) -> list[dict[str, Value]]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a"
        with AcidOrcWriter(
            LocalStore(), path, schema=batches[0].schema, write_id=WriteId(1), bucket_property=0, sync=False
        ) as writer:
            for batch in batches:
                writer.write(batch)
            writer.close()
        rows: list[dict[str, Value]] = orc.read_table(path)["row"].to_pylist()
        return rows


def batch_of(*arrays: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(arrays), names=[f"c{i}" for i in range(len(arrays))])


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_arrays_of_every_shape_survive_the_round_trip(seed: int) -> None:
    shapes = Shapes(seed)
    batch = batch_of(*(shapes.array(WRITABLE, 12) for _ in range(3)))
    expected = batch.to_pylist()
    assert round_trip(batch, batch.slice(5), batch.slice(3, 4)) == expected + expected[5:] + expected[3:7]


def test_a_null_struct_in_a_struct_does_not_shift_its_neighbours() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4])], ["x"], mask=pa.array([False, True, False, False]))
    batch = batch_of(pa.StructArray.from_arrays([inner], ["s"]), inner.slice(0), pa.array([1, 2, 3, 4]))
    assert round_trip(batch, batch.slice(1, 2)) == batch.to_pylist() + batch.slice(1, 2).to_pylist()


def test_arrays_without_null_structs_are_not_copied() -> None:
    type_ = pa.struct(
        [
            ("a", pa.list_(pa.struct([("b", pa.int64())]))),
            ("m", pa.map_(pa.string(), pa.struct([("c", pa.int64())]))),
        ]
    )
    structs = pa.array([{"a": [{"b": 1}], "m": [("k", {"c": None})]}] * 3, type_)
    batch = batch_of(pa.array([1, None, 3]), structs)
    result = normalise(batch, batch.schema)
    assert result.field(1).field(0).buffers() == structs.field(0).buffers()
    assert result.field(0).buffers()[1].address == batch.column(0).buffers()[1].address


@pytest.mark.parametrize(
    ("given_array", "type_"),
    [
        (pa.array(["a", "b", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", "b", None], pa.large_string()), pa.string()),
        (pa.array(["a", "b", None], pa.string_view()), pa.string()),
        (pa.array([b"a", b"b", None], pa.binary(1)), pa.binary()),
        (pa.array([1, 2, None], pa.uint8()), pa.int16()),
        (pa.array([1.5, 2.5, None], pa.float16()), pa.float32()),
        (pa.array([[1], [], None], pa.large_list(pa.int32())), pa.list_(pa.int64())),
        (pa.array([[1, 2], [3, 4], None], pa.list_(pa.int32(), 2)), pa.list_(pa.int32())),
        (pa.array([Decimal("1.5"), Decimal("2"), None], pa.decimal128(5, 1)), pa.decimal128(10, 3)),
        (pa.array([dt.datetime(2020, 1, 1), dt.datetime(1960, 1, 1), None], pa.timestamp("s")), pa.timestamp("ns")),
        (pa.array([dt.date(2020, 1, 1), dt.date(1960, 1, 1), None], pa.date64()), pa.date32()),
        (pa.array([None, None, None]), pa.int32()),
    ],
    ids=lambda value: str(value.type if isinstance(value, pa.Array) else value),
)
def test_other_arrow_types_are_cast_to_the_columns_type(given_array: pa.Array, type_: pa.DataType) -> None:
    rows = normalise(batch_of(given_array), pa.schema([("c0", type_)]))
    assert rows.field(0).type == type_
    assert rows.field(0).to_pylist() == given_array.to_pylist()


def test_a_value_that_its_column_cannot_hold_is_a_serialization_error() -> None:
    with pytest.raises(SerializationError, match="'n' of type int8 cannot hold"):
        normalise(batch_of(pa.array([1, 300])), pa.schema([("n", pa.int8())]))


WRITABLE_NS = [
    *(0, 1, 10**9 - 1, -(10**9), -(86400 * 10**9), 2**63 - 1, -9223372036 * 10**9),
    *(-999_000_001, -(10**9) + 1, -(10**9) - 1, -1_500_000_000),
]
UNWRITABLE_NS = [-1, -1_000_000, -999_000_000, -9223372036 * 10**9 - 1, -(2**63) + 1]


def test_timestamps_that_hive_cannot_read_are_those_of_the_last_milliseconds_before_1970() -> None:
    assert unwritable_values(pa.array([*WRITABLE_NS, None], pa.timestamp("ns"))) is None
    found = unwritable_values(pa.array([*UNWRITABLE_NS, None, 0], pa.timestamp("ns")))
    assert found is not None
    assert found.tolist() == [True] * len(UNWRITABLE_NS) + [False, False]


@pytest.mark.parametrize(("unit", "value"), [("ms", -999), ("us", -999_000), ("ns", -1)])
def test_every_unit_is_checked(unit: str, value: int) -> None:
    found = unwritable_values(pa.array([value, 0], pa.timestamp(unit)))
    assert found is not None
    assert found.tolist() == [True, False]
    assert unwritable_values(pa.array([-1, 0], pa.timestamp("s"))) is None
    assert unwritable_values(pa.array([-1, 0])) is None


def test_dates_that_hive_can_read_are_those_of_the_years_1_to_9999() -> None:
    days = [-719_163, -719_162, None, 0, 2_932_896, 2_932_897, 2**31 - 1, -(2**31)]
    found = unwritable_values(pa.array([[day] for day in days], pa.list_(pa.int32())).cast(pa.list_(pa.date32())))
    assert found is not None
    assert found.tolist() == [True, False, False, False, False, True, True, True]
    assert unwritable_values(pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)])) is None


def has_unwritable(value: Value) -> bool:
    """The same check for Python values."""
    if isinstance(value, dt.datetime):
        return dt.datetime(1969, 12, 31, 23, 59, 59, 1000) <= value < dt.datetime(1970, 1, 1)
    if isinstance(value, dict):
        return any(map(has_unwritable, value.values()))
    return isinstance(value, (list, tuple)) and any(map(has_unwritable, value))


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_unwritable_timestamps_are_found_at_every_depth(seed: int) -> None:
    array = Shapes(seed).array([pa.timestamp("us")], 12)
    found = unwritable_values(array)
    assert ([False] * 12 if found is None else found.tolist()) == [has_unwritable(v) for v in array.to_pylist()]


def test_a_file_never_holds_a_timestamp_that_hive_cannot_read() -> None:
    batch = batch_of(pa.array([[{"t": 0}], [{"t": -1}]], pa.list_(pa.struct([("t", pa.timestamp("ns"))]))))
    with pytest.raises(SerializationError, match=r"'c0' holds .* row 1 .*milliseconds before 1970"):
        round_trip(batch)
