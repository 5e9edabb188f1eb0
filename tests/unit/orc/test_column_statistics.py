"""Statistics of joined files are true for all rows together."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_ingest.orc.format.column_statistics import int_range, merge_column_statistics, with_short_texts
from hive_ingest.orc.format.protobuf import (
    WireError,
    bytes_field,
    double_field,
    int_field,
    read_fields,
    signed_field,
    varint,
)
from hive_ingest.orc.format.tail import read_tail

INT, DOUBLE, STRING, BUCKET, DECIMAL, DATE, BINARY, TIMESTAMP, COLLECTION = 2, 3, 4, 5, 6, 7, 8, 9, 12
NO_NULLS = int_field(10, 0)


def column(values: int, kind: int, typed: bytes | None, rest: bytes = NO_NULLS) -> bytes:
    return int_field(1, values) + (b"" if typed is None else bytes_field(kind, typed)) + rest


def typed_part(merged: bytes, kind: int) -> bytes | None:
    found = [field.as_bytes for field in read_fields(merged) if field.number == kind]
    return found[0] if found else None


def numbers(low: int, high: int, total: int | None) -> bytes:
    return signed_field(1, low) + signed_field(2, high) + (b"" if total is None else signed_field(3, total))


def texts(fields: dict[int, bytes], total: int) -> bytes:
    return b"".join(bytes_field(number, text) for number, text in fields.items()) + signed_field(3, total)


def doubles(*values: float) -> bytes:
    return b"".join(double_field(i, value) for i, value in enumerate(values, 1))


def decimals(*values: str) -> bytes:
    return b"".join(bytes_field(i, value.encode()) for i, value in enumerate(values, 1))


def times(fields: dict[int, int], nanos: dict[int, int]) -> bytes:
    signed = b"".join(signed_field(number, value) for number, value in fields.items())
    return signed + b"".join(int_field(number, value) for number, value in nanos.items())


def children(low: int, high: int, total: int) -> bytes:
    return int_field(1, low) + int_field(2, high) + int_field(3, total)


BIG = 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "parts", "merged"),
    [
        (INT, [numbers(-5, 7, 2), numbers(-9, 3, -6)], numbers(-9, 7, -4)),
        (INT, [numbers(1, BIG, BIG), numbers(1, 1, 1)], numbers(1, BIG, None)),
        (INT, [numbers(1, BIG, None), numbers(1, 1, 1)], numbers(1, BIG, None)),
        (INT, [signed_field(3, 5), numbers(1, 1, 1)], None),
        (DOUBLE, [doubles(-1.5, 2.0, 0.5), doubles(-3.0, 1.0, -2.0)], doubles(-3.0, 2.0, -1.5)),
        (DOUBLE, [doubles(-1.5, 2.0), doubles(-3.0, 1.0, -2.0)], doubles(-3.0, 2.0)),
        (DOUBLE, [doubles(float("nan"), float("nan"), 0.0), doubles(1.0, 1.0, 1.0)], None),
        (STRING, [texts({1: b"b", 2: b"c"}, 2), texts({1: b"a", 2: b"x"}, 3)], texts({1: b"a", 2: b"x"}, 5)),
        # Java cuts long bounds: 4 is a lower bound of the minimum, 5 an upper bound of the maximum.
        (STRING, [texts({4: b"a", 5: b"x"}, 2), texts({1: b"b", 2: b"c"}, 3)], texts({4: b"a", 5: b"x"}, 5)),
        (STRING, [texts({4: b"c", 5: b"d"}, 2), texts({1: b"b", 2: b"x"}, 3)], texts({1: b"b", 2: b"x"}, 5)),
        (STRING, [texts({4: b"a", 5: b"x"}, 2), texts({1: b"a", 2: b"x"}, 3)], texts({1: b"a", 2: b"x"}, 5)),
        (STRING, [texts({}, 2), texts({1: b"a", 2: b"x"}, 3)], None),
        (BUCKET, [bytes_field(1, b"\3"), bytes_field(1, varint(300))], bytes_field(1, varint(303))),
        (BUCKET, [bytes_field(1, b"\3"), int_field(1, 4)], bytes_field(1, b"\7")),
        (BUCKET, [bytes_field(1, b"\3\4"), bytes_field(1, b"\3")], None),
        (DECIMAL, [decimals("-1.5", "10", "8.5"), decimals("9", "9.25", "18.25")], decimals("-1.5", "10", "26.75")),
        (DECIMAL, [decimals("1", "1", "9" * 38), decimals("1", "1", "1")], decimals("1", "1")),
        (DECIMAL, [decimals("1", "1"), decimals("0.00", "1E+2", "1")], decimals("0.00", "100")),
        (
            DATE,
            [signed_field(1, -3) + signed_field(2, 4), signed_field(1, 0) + signed_field(2, 9)],
            numbers(-3, 9, None),
        ),
        (BINARY, [signed_field(1, 10), signed_field(1, 5)], signed_field(1, 15)),
        (TIMESTAMP, [times({3: 5, 4: 9}, {}), times({3: 2, 4: 7}, {5: 8, 6: 9})], times({3: 2, 4: 9}, {5: 8})),
        (
            TIMESTAMP,
            [times({3: 5, 4: 9}, {5: 3, 6: 4}), times({3: 5, 4: 9}, {5: 2, 6: 7})],
            times({3: 5, 4: 9}, {5: 2, 6: 7}),
        ),
        (TIMESTAMP, [times({3: 5, 4: 9}, {5: 3, 6: 4}), times({3: 5, 4: 9}, {})], times({3: 5, 4: 9}, {})),
        (TIMESTAMP, [times({1: 5, 2: 9}, {}), times({1: -2, 2: 7}, {})], times({1: -2, 2: 9}, {})),
        (TIMESTAMP, [times({1: 5, 2: 9}, {}), times({3: 2, 4: 7}, {})], None),
        (COLLECTION, [children(1, 5, 9), children(0, 7, 8)], children(0, 7, 17)),
        (INT, [None, numbers(1, 1, 1)], None),
    ],
)
def test_typed_statistics_merge(kind: int, parts: list[bytes | None], merged: bytes | None) -> None:
    result = merge_column_statistics([column(2, kind, part) for part in parts])
    assert typed_part(result, kind) == merged
    assert [field.as_int for field in read_fields(result) if field.number in (1, 10)] == [4, 0]


def test_a_file_of_nulls_only_leaves_the_merged_bounds_unchanged() -> None:
    nulls = column(0, INT, signed_field(3, 0), int_field(10, 1))
    merged = merge_column_statistics([nulls, column(2, INT, numbers(1, 2, 3)), nulls])
    assert typed_part(merged, INT) == numbers(1, 2, 3)
    assert merge_column_statistics([nulls, nulls]) == nulls


def test_an_unknown_has_null_stays_unknown() -> None:
    merged = merge_column_statistics([column(1, INT, numbers(1, 1, 1), b""), column(1, INT, numbers(1, 1, 1))])
    assert not [field for field in read_fields(merged) if field.number == 10]


def test_bytes_on_disk_add_up() -> None:
    parts = [column(1, BINARY, signed_field(1, 1), int_field(11, size)) for size in (10, 20)]
    assert [field.as_int for field in read_fields(merge_column_statistics(parts)) if field.number == 11] == [30]


@pytest.mark.parametrize(
    "garbage", [decimals("x", "y"), decimals("NaN", "1"), bytes_field(1, b"\xff"), int_field(1, 3)]
)
def test_statistics_that_cannot_be_read_are_an_error(garbage: bytes) -> None:
    with pytest.raises(WireError):
        merge_column_statistics([column(1, DECIMAL, garbage), column(1, DECIMAL, decimals("1", "1"))])


def test_the_range_of_an_integer_column() -> None:
    assert int_range(column(3, INT, numbers(-4, 9, 0))) == (-4, 9)
    assert int_range(column(0, INT, signed_field(3, 0))) is None
    assert int_range(column(3, STRING, texts({}, 0))) is None


GENERATORS: dict[pa.DataType, Callable[[Random], object]] = {
    pa.int32(): lambda r: r.randint(-1000, 1000),
    pa.bool_(): lambda r: r.random() < 0.5,
    pa.float32(): lambda r: struct.unpack("<f", struct.pack("<f", r.uniform(-9, 9)))[0],
    pa.string(): lambda r: "".join(r.choices("aäz日", k=r.randint(0, 4))),
    pa.binary(): lambda r: r.randbytes(r.randint(0, 4)),
    pa.date32(): lambda r: r.randint(-100_000, 100_000),
    pa.timestamp("ns"): lambda r: r.choice([r.randint(0, 10**18), r.randint(0, 5), 10**9 * r.randint(-5, 5)]),
    pa.list_(pa.int64()): lambda r: [r.randint(0, 5) for _ in range(r.randint(0, 4))],
    pa.map_(pa.string(), pa.int64()): lambda r: [("k", None)] * r.randint(0, 1),
}
SCHEMA = pa.schema([(f"c{i}", type_) for i, type_ in enumerate(GENERATORS)])


def statistics_of(batches: list[pa.RecordBatch]) -> tuple[bytes, ...]:
    sink = io.BytesIO()
    orc.write_table(pa.Table.from_batches(batches), sink)
    return read_tail(pa.BufferReader(sink.getvalue()), "a.orc").footer.statistics


def random_batch(random: Random) -> pa.RecordBatch:
    rows = random.randint(1, 8)
    columns = []
    for type_, generate in GENERATORS.items():
        nulls = random.choice([0.0, 0.3, 1.0])
        columns.append(pa.array([None if random.random() < nulls else generate(random) for _ in range(rows)], type_))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_merged_statistics_are_those_of_one_file_with_all_rows(seed: int) -> None:
    random = Random(seed)
    batches = [random_batch(random) for _ in range(random.randint(1, 4))]
    parts = zip(*(statistics_of([batch]) for batch in batches), strict=True)
    for merged, whole in zip(map(merge_column_statistics, parts), statistics_of(batches), strict=True):
        found, expected = ({field.number: field.value for field in read_fields(m)} for m in (merged, whole))
        for fields in (found, expected):
            fields.pop(COLLECTION, None)  # pyarrow's writer counts children only in batches that hold a null
            if DOUBLE in fields:  # the order of an addition of doubles shows in its last bits
                fields[DOUBLE] = fields[DOUBLE][:18]  # type: ignore[index]
        assert found == expected


@settings(deadline=None)
@given(st.lists(st.text(max_size=3).map(lambda text: text * 400), min_size=1), st.text(max_size=1))
def test_long_texts_become_short_bounds_of_all_of_them(values: list[str], last: str) -> None:
    found = sorted((value + last).encode() for value in values)
    total = sum(map(len, found))
    short = with_short_texts(column(len(found), STRING, texts({1: found[0], 2: found[-1]}, total)))
    typed = {field.number: field for field in read_fields(typed_part(short, STRING) or b"")}
    low, high = typed[1].as_bytes, typed[2].as_bytes
    assert low <= found[0]
    assert found[-1] <= high
    assert max(len(low), len(high)) <= 1027
    assert low.decode() <= high.decode()  # whole characters
    assert typed[3].as_signed == total
    assert [field.raw for field in read_fields(short) if field.number != STRING] == [int_field(1, len(found)), NO_NULLS]


@pytest.mark.parametrize("character", ["\ud7ff", "\U0010ffff"])
def test_the_last_characters_of_a_plane_are_raised_too(character: str) -> None:
    longest = ("a" + character * 600).encode()
    short = with_short_texts(column(1, STRING, texts({1: longest, 2: longest}, len(longest))))
    typed = {
        field.number: field.as_bytes for field in read_fields(typed_part(short, STRING) or b"") if field.number < 3
    }
    assert longest < typed[2]
    assert len(typed[2]) <= 1024
    typed[2].decode()


def test_a_text_of_which_nothing_can_be_raised_stays_whole() -> None:
    highest = ("\U0010ffff" * 600).encode()
    short = with_short_texts(column(1, STRING, texts({1: b"a", 2: highest}, len(highest) + 1)))
    assert typed_part(short, STRING) == texts({1: b"a", 2: highest}, len(highest) + 1)
