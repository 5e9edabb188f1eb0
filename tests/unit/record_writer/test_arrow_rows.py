"""Rows of Python objects, and types that `coerce="lossless"` accepts for Arrow data."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.record_writer import ArrowWriter
from tests.unit.record_writer.writing import parse_all, rows_of, schema_of


@dataclass
class Place:
    street: str
    number: int


@dataclass
class Person:
    id: int
    name: str | None
    place: Place | None = None


def test_mappings_and_dataclasses_are_rows():
    schema = schema_of(id="int", name="string", place="struct<street:string,number:int>")
    records = [Person(1, "a", Place("x", 2)), {"ID": 2, "name": None, "place": {"street": "y", "number": 3}}]
    expected = [
        {"id": 1, "name": "a", "place": {"street": "x", "number": 2}},
        {"id": 2, "name": None, "place": {"street": "y", "number": 3}},
    ]
    assert rows_of(ArrowWriter(), schema, records) == expected
    assert rows_of(ArrowWriter(), schema, *records) == expected


def test_dataclasses_inside_of_values_are_structs_however_deep_they_are():
    place = {"street": "x", "number": 2}
    schema = schema_of(id="int", places="array<struct<street:string,number:int>>", by="map<string,struct<number:int>>")
    records = [
        {"id": 1, "places": [Place("x", 2), place], "by": {"a": Place("x", 2)}},
        {"id": 2, "places": (Place("x", 2),), "by": [("a", Place("x", 2))]},
    ]
    assert rows_of(ArrowWriter(), schema, records) == [
        {"id": 1, "places": [place, place], "by": [("a", {"number": 2})]},
        {"id": 2, "places": [place], "by": [("a", {"number": 2})]},
    ]


def test_values_of_rows_follow_the_rules_of_arrow_data():
    schema = schema_of(d="decimal(5,2)", t="timestamp", day="date", b="binary", m="map<string,int>", a="array<int>")
    record = {
        "d": Decimal("1.50"),
        "t": dt.datetime(2020, 1, 1, 12),
        "day": dt.date(2020, 1, 1),
        "b": b"\x00",
        "m": {"x": 1},
        "a": [1, None],
    }
    assert rows_of(ArrowWriter(), schema, [record]) == [record | {"m": [("x", 1)]}]
    with pytest.raises(SerializationError, match=r"column 'a': Arrow's string cannot be converted"):
        rows_of(ArrowWriter(), schema_of(a="int"), [{"a": "1"}])
    with pytest.raises(SerializationError, match="has a time zone"):
        rows_of(ArrowWriter(), schema_of(t="timestamp"), [{"t": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}])


def test_a_row_without_a_field_is_data_without_the_column():
    rows = [{"a": 1, "b": 2}, {"a": 3}]
    assert rows_of(ArrowWriter(missing_columns="null"), schema_of(a="int", b="int"), rows) == [
        {"a": 1, "b": 2},
        {"a": 3, "b": None},
    ]
    with pytest.raises(SerializationError, match="'b' is missing"):
        rows_of(ArrowWriter(), schema_of(a="int", b="int"), rows)


def test_values_that_do_not_fit_make_their_rows_bad():
    rows = [{"a": 1}, {"a": 300}, {"a": 2}]
    [parsed] = parse_all(ArrowWriter(on_error="skip"), schema_of(a="tinyint"), rows)
    assert (parsed.records, [bad.record for bad in parsed.bad_records]) == (3, [1])


@pytest.mark.parametrize(
    ("value", "why"), [("x", "Arrow's string"), (2**70, "no Arrow type"), (object(), "no Arrow type")]
)
def test_a_value_of_another_type_is_an_error_that_names_its_row(value, why):
    rows = [*({"a": number} for number in range(20)), {"a": value}, {"a": 5}]
    with pytest.raises(SerializationError, match=why) as raised:
        parse_all(ArrowWriter(), schema_of(a="bigint"), rows)
    assert raised.value.record == 20


def test_a_naive_datetime_among_zoned_ones_is_not_taken_for_utc():
    rows = [{"t": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}, {"t": dt.datetime(2020, 1, 1)}]
    with pytest.raises(SerializationError, match="has a time zone"):
        rows_of(ArrowWriter(), schema_of(t="timestamp"), rows)


def test_data_without_any_column_of_the_table_is_refused():
    with pytest.raises(SerializationError, match=r"none of its columns \(x\)"):
        rows_of(ArrowWriter(missing_columns="null"), schema_of(a="int"), pa.table({"x": [1]}))


def test_nullable_columns_of_pandas_keep_their_nulls_and_their_digits():
    frame = pd.DataFrame(
        {
            "id": pd.array([2**53 + 1, None], "Int64"),
            "ok": pd.array([True, None], "boolean"),
            "name": pd.array(["a", None], "string"),
            "x": [0.5, float("nan")],
        }
    )
    assert rows_of(ArrowWriter(), schema_of(id="bigint", ok="boolean", name="string", x="double"), frame) == [
        {"id": 2**53 + 1, "ok": True, "name": "a", "x": 0.5},
        {"id": None, "ok": None, "name": None, "x": None},
    ]
    floats = pd.DataFrame({"id": [1.0, None]})
    with pytest.raises(SerializationError, match="Arrow's double cannot be converted"):
        rows_of(ArrowWriter(), schema_of(id="int"), floats)
    assert rows_of(ArrowWriter(coerce="lossless"), schema_of(id="int"), floats) == [{"id": 1}, {"id": None}]


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("int", pa.array(["7", " 8.0 ", None]), [7, 8, None]),
        ("int", pa.array([7.0, None]), [7, None]),
        ("int", pa.array([Decimal("7.00")]), [7]),
        ("boolean", pa.array(["t", "FALSE"]), [True, False]),
        ("boolean", pa.array([1, 0, None], pa.int8()), [True, False, None]),
        ("double", pa.array(["1.5"]), [1.5]),
        ("decimal(5,2)", pa.array(["1.5"]), [Decimal("1.50")]),
        ("string", pa.array([7, None]), ["7", None]),
        ("string", pa.array([True]), ["true"]),
        ("string", pa.array([Decimal("1.50")]), ["1.50"]),
        ("string", pa.array([dt.date(2024, 2, 29)]), ["2024-02-29"]),
        ("varchar(3)", pa.array([123]), ["123"]),
        ("date", pa.array(["2024-2-9"]), [dt.date(2024, 2, 9)]),
        ("date", pa.array([dt.datetime(1960, 2, 9)]), [dt.date(1960, 2, 9)]),
        ("timestamp", pa.array(["2024-02-29"]), [dt.datetime(2024, 2, 29)]),
        ("timestamp", pa.array([dt.date(2024, 2, 29)]), [dt.datetime(2024, 2, 29)]),
        ("array<int>", pa.array([["1", None]]), [[1, None]]),
        ("struct<a:int>", pa.array([{"a": "1"}]), [{"a": 1}]),
    ],
)
def test_lossless_casts_keep_the_value(type_, values, expected):
    assert rows_of(ArrowWriter(coerce="lossless"), schema_of(v=type_), pa.table({"v": values})) == [
        {"v": value} for value in expected
    ]


@pytest.mark.parametrize(
    ("type_", "array", "is_possible"),
    [
        ("date", pa.array(["2024-02-29"]), True),
        ("array<int>", pa.array([["1"]]), True),
        ("date", pa.array([19782]), False),
        ("string", pa.array([b"x"]), False),
    ],
)
def test_the_error_for_a_type_names_the_option_that_accepts_it_if_there_is_one(type_, array, is_possible):
    with pytest.raises(SerializationError, match="unambiguously: cast it first") as error:
        rows_of(ArrowWriter(), schema_of(v=type_), pa.table({"v": array}))
    assert ("or set coerce='lossless'" in str(error.value)) == is_possible


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("int", "7", "7.5"),
        ("int", "7", "x"),
        ("tinyint", "7", "128"),
        ("int", 7.0, 7.5),
        ("tinyint", 7.0, 128.0),
        ("int", 1.0, float("inf")),
        ("int", Decimal("7.0"), Decimal("7.5")),
        ("boolean", 1, 2),
        ("varchar(3)", 123, 1234),
        ("date", dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 0, 0, 1)),
        ("date", dt.datetime(1960, 2, 29), dt.datetime(1960, 2, 28, 23, 59, 59)),
        ("decimal(5,2)", "1.5", "1.555"),
    ],
)
def test_a_value_that_would_change_makes_its_row_bad(type_, good, bad):
    data: Any = pa.table({"v": [good, bad, good]})
    [parsed] = parse_all(ArrowWriter(coerce="lossless", on_error="skip"), schema_of(v=type_), data)
    assert [each.record for each in parsed.bad_records] == [1]


@pytest.mark.parametrize(
    "source",
    [
        pa.array([0, -(2**62), None, 0], pa.timestamp("s")),
        pa.array([0, 2**31 - 1, None, 0], pa.date32()),
        pa.array([0, 5, None, 0], pa.int64()).view(pa.date64()),
    ],
    ids=lambda array: str(array.type),
)
def test_a_time_without_a_text_is_not_stored_as_another_text(source):
    writer = ArrowWriter(coerce="lossless", on_error="skip")
    [parsed] = parse_all(writer, schema_of(v="string"), pa.table({"v": source}))
    assert [each.record for each in parsed.bad_records] == [1]
    assert parsed.batch.num_rows == 3


def test_floats_that_are_not_finite_have_hives_names():
    values = pa.array([float("nan"), float("inf"), -float("inf"), 1.5, None])
    rows = rows_of(ArrowWriter(coerce="lossless"), schema_of(v="string"), pa.table({"v": values}))
    assert [row["v"] for row in rows] == ["NaN", "Infinity", "-Infinity", "1.5", None]


def test_hives_rules_are_not_for_arrow_data():
    with pytest.raises(ConfigurationError, match="coerce='hive'"):
        ArrowWriter(coerce="hive")  # type: ignore[arg-type]


# -- dates and timestamps, which Arrow would change ----------------------------------------------------

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
NOON = dt.datetime(2024, 1, 1, 12)


@pytest.mark.parametrize(
    ("type_", "first", "second"),
    [
        ("date", NOON.date(), NOON),
        ("array<date>", [NOON.date()], [NOON]),
        ("struct<d:date>", {"d": NOON.date()}, {"d": NOON}),
        ("map<string,date>", {"a": NOON.date()}, {"a": NOON}),
    ],
)
def test_a_datetime_among_dates_is_not_cut_to_its_day(type_, first, second):
    rows = [{"v": first}, {"v": second}]
    with pytest.raises(SerializationError, match=r"dates and timestamps|cannot be converted to date") as raised:
        rows_of(ArrowWriter(), schema_of(v=type_), rows)
    assert raised.value.record == 1
    with pytest.raises(SerializationError, match="dates and timestamps"):
        rows_of(ArrowWriter(), schema_of(v="array<date>"), [{"v": [NOON.date(), NOON]}])


def test_each_datetime_has_the_local_time_of_its_own_zone_whatever_its_neighbours_are():
    values = [NOON.replace(tzinfo=zone) for zone in (BERLIN, NEW_YORK, dt.timezone(dt.timedelta(hours=5)), BERLIN)]
    writer = ArrowWriter(zoned_timestamps="local")
    assert rows_of(writer, schema_of(v="timestamp"), [{"v": value} for value in values]) == [{"v": NOON}] * 4
    for mixed in (values, [NOON, *values], [*values, NOON]):
        with pytest.raises(SerializationError, match="time zone"):
            rows_of(ArrowWriter(zoned_timestamps="local"), schema_of(v="array<timestamp>"), [{"v": mixed}])


def test_a_datetime_with_a_time_zone_in_a_map_is_not_taken_for_utc():
    schema, rows = schema_of(v="map<string,timestamp>"), [{"v": {"a": NOON.replace(tzinfo=BERLIN)}}]
    with pytest.raises(SerializationError, match="has a time zone"):
        rows_of(ArrowWriter(), schema, rows)
    assert rows_of(ArrowWriter(zoned_timestamps="local"), schema, rows) == [{"v": [("a", NOON)]}]


def test_timestamps_of_pandas_keep_their_nanoseconds_and_their_nulls():
    exact = pd.Timestamp("2024-01-01 00:00:00.123456789")
    schema = schema_of(t="timestamp", n="int", a="array<timestamp>", s="struct<t:timestamp>")
    rows = [
        {"t": exact, "n": 1, "a": [exact], "s": {"t": exact}},
        {"t": pd.NaT, "n": pd.NA, "a": None, "s": None},
        {"t": NOON, "n": 2, "a": [NOON], "s": {"t": NOON}},
    ]
    [parsed] = parse_all(ArrowWriter(), schema, rows)
    assert parsed.batch.to_pylist() == [rows[0], dict.fromkeys("tnas"), rows[2]]


# -- values that Arrow changes because of a type that it is given, or because of the values around them -----


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("map<string,int>", {"k": 1.5}),
        ("map<string,int>", {"k": 1.0}),
        ("map<int,int>", {1.5: 1}),
        ("map<string,boolean>", {"k": 1}),
        ("map<string,timestamp>", {"k": 5}),
        ("map<date,int>", {5: 1}),
        ("map<string,double>", {"k": True}),
        ("map<string,string>", {"k": b"x"}),
        ("map<string,binary>", {"k": "x"}),
        ("map<string,array<int>>", {"k": np.array([1.5])}),
        ("map<string,array<int>>", {"k": b"ab"}),
        ("array<map<string,int>>", [{"k": 1.5}]),
        ("struct<m:map<string,int>,t:timestamp>", {"m": {}, "t": 5}),
        ("map<string,struct<x:int>>", {"k": {"x": 1.5}}),
        ("map<string,struct<x:int>>", {"k": {"y": 1}}),
        ("map<string,struct<x:int>>", {"k": {"x": 1, "X": 2}}),
    ],
)
def test_values_inside_of_maps_follow_the_rules_of_arrow_data(type_, value):
    with pytest.raises(SerializationError, match=r"column 'v"):
        rows_of(ArrowWriter(), schema_of(v=type_), [{"v": value}])


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("map<string,float>", {"k": 1e300}),
        ("map<string,float>", {"k": 2**24 + 1}),
        ("map<string,tinyint>", {"k": 300}),
        ("map<string,decimal(5,2)>", {"k": Decimal("1.234")}),
        ("map<string,varchar(3)>", {"k": "abcd"}),
    ],
)
def test_a_value_inside_of_a_map_that_does_not_fit_makes_its_row_bad(type_, value):
    rows = [{"v": {}}, {"v": value}, {"v": None}]
    [parsed] = parse_all(ArrowWriter(on_error="skip"), schema_of(v=type_), rows)
    assert [bad.record for bad in parsed.bad_records] == [1]


def test_maps_and_what_is_around_them_are_kept():
    schema = schema_of(
        m="map<string,struct<x:int>>",
        a="array<map<int,string>>",
        s="struct<m:map<string,bigint>,x:double>",
        z="map<int,int>",
    )
    rows = [
        {"m": {"k": {"X": 1}, "n": None}, "a": [{1: "a"}, None, {}], "s": {"M": {"k": 1}, "x": 1}, "z": {}},
        {"m": {}, "a": [], "s": {"M": {}, "x": 0.5}, "z": None},
        {"m": None, "a": None, "s": None, "z": None},
    ]
    expected = [
        {"m": [("k", {"x": 1}), ("n", None)], "a": [[(1, "a")], None, []], "s": {"m": [("k", 1)], "x": 1.0}, "z": []},
        {"m": [], "a": [], "s": {"m": [], "x": 0.5}, "z": None},
        {"m": None, "a": None, "s": None, "z": None},
    ]
    assert rows_of(ArrowWriter(), schema, rows) == expected
    assert [row for each in rows for row in rows_of(ArrowWriter(), schema, [each])] == expected


@pytest.mark.parametrize("value", [{None: 1}, "ab", ["ab"], 5, [("a", 1, 2)]])
def test_what_is_no_map_is_an_error(value):
    with pytest.raises(SerializationError, match="no Arrow type"):
        rows_of(ArrowWriter(), schema_of(v="map<string,int>"), [{"v": value}])


@pytest.mark.parametrize(
    ("type_", "good", "other", "wrong"),
    [
        ("double", 5.5, True, "Arrow's bool"),
        ("double", 5.5, np.bool_(True), "Arrow's bool"),
        ("array<double>", [5.5], [True], "Arrow's bool"),
        ("struct<x:double>", {"x": 5.5}, {"x": False}, "Arrow's bool"),
        ("map<string,double>", {"a": 5.5}, {"a": False}, "Arrow's bool"),
        ("binary", b"x", "y", "Arrow's string"),
    ],
)
def test_a_value_of_another_type_is_refused_whatever_its_neighbours_are(type_, good, other, wrong):
    with pytest.raises(SerializationError, match=wrong) as error:
        rows_of(ArrowWriter(), schema_of(v=type_), [{"v": good}, {"v": other}])
    assert error.value.record == 1


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.5, 10**15], ["0.5", "1000000000000000"]),
        ([Decimal("1.5"), 7, Decimal("1.500")], ["1.5", "7", "1.500"]),
        ([np.float32(0.1), 0.5], ["0.1", "0.5"]),
        ([pd.Timestamp(1), NOON], ["1970-01-01 00:00:00.000000001", "2024-01-01 12:00:00.000000"]),
        ([1, 0.5], ["1", "0.5"]),
    ],
)
def test_the_text_of_a_value_does_not_depend_on_its_neighbours(values, texts):
    writer = ArrowWriter(coerce="lossless")
    rows = rows_of(writer, schema_of(v="string"), [{"v": value} for value in values])
    assert [row["v"] for row in rows] == texts


def test_the_text_of_an_item_does_not_depend_on_the_other_items():
    writer = ArrowWriter(coerce="lossless")
    assert rows_of(writer, schema_of(v="array<string>"), [{"v": [1, 0.5]}]) == [{"v": ["1", "0.5"]}]
    with pytest.raises(SerializationError, match="which would change its text"):
        rows_of(writer, schema_of(v="array<string>"), [{"v": [0.5, 10**15]}])


# -- data frames of pandas with columns of objects --------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "values", "why"),
    [
        ("date", [NOON.date(), NOON], "dates and timestamps"),
        ("array<date>", [[NOON.date(), NOON]], "dates and timestamps"),
        ("timestamp", [NOON, NOON.replace(tzinfo=BERLIN)], "a time zone"),
        ("timestamp", [NOON.replace(tzinfo=NEW_YORK), NOON.replace(tzinfo=BERLIN)], "different time zones"),
        ("timestamp", [pd.Timestamp(1), NOON], "nanoseconds"),
        ("double", [0.5, True], "booleans and numbers"),
        ("struct<x:double>", [{"x": 0.5}, {"x": True}], "booleans and numbers"),
        ("binary", [b"x", "y"], "text and bytes"),
    ],
)
@pytest.mark.parametrize("with_null", [False, True])
def test_an_object_in_a_frame_that_arrow_would_change_is_an_error(type_, values, why, with_null):
    column = pd.Series([*values, None] if with_null else values, dtype=object)
    frame = pd.DataFrame({"n": range(len(column)), "v": column})
    with pytest.raises(SerializationError, match=rf"column 'v' has .*{why}"):
        rows_of(ArrowWriter(zoned_timestamps="local"), schema_of(n="int", v=type_), frame)


def test_objects_in_a_frame_that_arrow_keeps_are_rows():
    columns = {
        "s": ["a", None],
        "d": [NOON.date(), pd.NaT],
        "t": [NOON, None],
        "f": [0.5, float("nan")],
        "a": [[1.5, None], None],
        "b": [b"x", None],
    }
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    schema = schema_of(s="string", d="date", t="timestamp", f="double", a="array<double>", b="binary")
    first = {name: values[0] for name, values in columns.items()}
    assert rows_of(ArrowWriter(), schema, frame) == [first, dict.fromkeys(columns)]


def test_the_number_of_a_period_is_no_whole_number():
    frame = pd.DataFrame({"v": pd.period_range("2024-01", periods=2, freq="M")})
    with pytest.raises(SerializationError, match=r"pandas\.period.*cast it first"):
        rows_of(ArrowWriter(), schema_of(v="bigint"), frame)
