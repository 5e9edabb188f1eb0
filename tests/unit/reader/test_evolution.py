"""Files of an older schema give the columns that the table has now, or a clear refusal."""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.errors import UnsupportedFeature
from hive_ingest.model import columns_of
from hive_ingest.orc.format.columns import OrcColumn, OrcKind, check_timestamps, column_tree
from hive_ingest.orc.format.protobuf import bytes_field, int_field, signed_field
from hive_ingest.orc.format.tail import read_tail
from hive_ingest.reader.evolution import JULIAN_GREGORIAN, ColumnSource, column_sources
from hive_ingest.schema import arrow_type, is_widening, parse_type


def write(tmp_path, table):
    path = str(tmp_path / "file.orc")
    orc.write_table(table, path)
    return path


def tree_of(path):
    with pa.OSFile(path) as source:
        return column_tree(read_tail(source, path), path)


def sources(tmp_path, file, table_columns, calendar=None):
    path = write(tmp_path, file)
    columns = columns_of(table_columns)
    row_type = pa.struct(list(orc.ORCFile(path).schema))
    wanted = frozenset(c.name for c in columns)
    return column_sources(columns, wanted, tree_of(path), row_type, calendar=calendar, path="f")


WIDER = [
    ("tinyint", "smallint"),
    ("tinyint", "bigint"),
    ("int", "bigint"),
    ("smallint", "float"),
    ("int", "double"),
    ("float", "double"),
    ("int", "decimal(10,0)"),
    ("bigint", "decimal(21,2)"),
    ("decimal(5,2)", "decimal(7,3)"),
    ("string", "varchar(3)"),
    ("varchar(5)", "char(2)"),
    ("array<int>", "array<bigint>"),
    ("map<string,int>", "map<string,double>"),
    ("struct<x:int>", "struct<x:bigint,y:string>"),
    ("struct<x:int,y:date>", "struct<y:date>"),
]


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_a_type_may_grow(old, new):
    assert is_widening(arrow_type(old), parse_type(new))
    assert is_widening(arrow_type(old), parse_type(old))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *[(new, old) for old, new in WIDER if "char" not in new and "struct" not in new],
        ("struct<x:bigint,y:string>", "struct<x:int>"),
        ("bigint", "double"),
        ("int", "float"),
        ("int", "decimal(9,0)"),
        ("decimal(5,2)", "decimal(5,3)"),
        ("int", "string"),
        ("string", "binary"),
        ("date", "timestamp"),
        ("boolean", "int"),
        ("array<int>", "map<int,int>"),
        ("int", "array<int>"),
        ("array<int>", "struct<x:int>"),
    ],
)
def test_a_type_whose_values_may_not_fit_is_not_a_widening(old, new):
    assert not is_widening(arrow_type(old), parse_type(new))


def test_a_struct_field_that_differs_by_case_is_not_lost_as_null():
    assert not is_widening(pa.struct([("X", pa.int32())]), parse_type("struct<x:int>"))


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_values_and_nulls_survive_widening(old, new):
    first = {
        "string": "abc",
        "varchar(5)": "abc",
        "float": 1.5,
        "decimal(5,2)": decimal.Decimal("1.25"),
        "array<int>": [1, None],
        "map<string,int>": [("k", 1)],
        "struct<x:int>": {"x": 1},
        "struct<x:int,y:date>": {"x": 1, "y": dt.date(2020, 1, 1)},
    }.get(old, 1)
    array = pa.array([first, None], arrow_type(old))
    found = ColumnSource("c", parse_type(new)).read(array, 2)
    assert found.type == arrow_type(new)
    assert found.is_null().to_pylist() == [False, True]


def test_a_column_that_the_file_lacks_is_null(tmp_path):
    file = pa.table({"id": pa.array([1, 2], pa.int32())})
    found = sources(tmp_path, file, {"id": "int", "added": "array<string>"})
    assert found["added"].read(None, 2).to_pylist() == [None, None]
    assert found["added"].read(None, 2).type == pa.list_(pa.string())


def test_a_renamed_column_is_matched_by_position(tmp_path):
    found = sources(tmp_path, pa.table({"id": [1], "old": ["x"]}), {"id": "bigint", "new": "string"})
    assert found["new"].name == "old"


@pytest.mark.parametrize("columns", [{"b": "bigint", "a": "bigint"}, {"b": "bigint"}, {"x": "bigint", "a": "bigint"}])
def test_columns_in_another_order_are_refused(tmp_path, columns):
    with pytest.raises(UnsupportedFeature, match="by position"):
        sources(tmp_path, pa.table({"a": [1], "b": [2]}), columns)


def test_a_dropped_last_column_is_ignored(tmp_path):
    assert list(sources(tmp_path, pa.table({"a": [1], "b": [2]}), {"a": "bigint"})) == ["a"]


def test_a_type_that_does_not_widen_is_refused_with_both_types(tmp_path):
    with pytest.raises(UnsupportedFeature, match=r"int64 in column 'a', the table int"):
        sources(tmp_path, pa.table({"a": [1]}), {"a": "int"})


def test_char_is_padded_and_cut_and_nulls_stay():
    text = pa.array(["ab", "abcdef", "éé", None, ""])
    assert ColumnSource("c", parse_type("char(4)")).read(text, 5).to_pylist() == ["ab  ", "abcd", "éé  ", None, "    "]
    assert ColumnSource("c", parse_type("varchar(4)")).read(text, 5).to_pylist() == ["ab", "abcd", "éé", None, ""]


def test_a_char_that_became_a_string_has_no_padding():
    source = ColumnSource("c", parse_type("string"), strip_char=True)
    assert source.read(pa.array(["ab  ", " c ", None]), 3).to_pylist() == ["ab", " c", None]


def test_no_rows_and_only_nulls_of_text():
    for type_ in ("char(4)", "varchar(4)", "string"):
        assert ColumnSource("c", parse_type(type_)).read(pa.array([], pa.string()), 0).to_pylist() == []
        assert ColumnSource("c", parse_type(type_)).read(pa.array([None], pa.string()), 1).to_pylist() == [None]


# -- dates and timestamps --------------------------------------------------------------------------


def days(*names):
    return [(dt.date.fromisoformat(name) - dt.date(1970, 1, 1)).days for name in names]


def test_julian_days_become_the_day_of_the_same_name(tmp_path):
    # 1582-10-04 was followed by 1582-10-15; a day before, Julian names are 10 days behind the Gregorian ones.
    julian = pa.array([-141_428, -141_427, -171_503, None, 0], pa.int32()).cast(pa.date32())
    source = sources(tmp_path, pa.table({"d": julian}), {"d": "date"}, calendar=JULIAN_GREGORIAN)["d"]
    expected = [*days("1582-10-04", "1582-10-15", "1500-06-01"), None, 0]
    assert source.read(julian, 5).cast(pa.int32()).to_pylist() == expected


def test_dates_of_a_file_without_a_calendar_are_gregorian(tmp_path):
    file = pa.table({"d": pa.array([dt.date(1500, 6, 1)])})
    source = sources(tmp_path, file, {"d": "date"})["d"]
    assert source.read(file["d"].chunk(0), 1).to_pylist() == [dt.date(1500, 6, 1)]


def test_julian_dates_inside_a_nested_type_are_refused(tmp_path):
    nested = pa.table({"a": pa.array([[dt.date(1500, 6, 1)]])})
    with pytest.raises(UnsupportedFeature, match="Julian"):
        sources(tmp_path, nested, {"a": "array<date>"}, calendar=JULIAN_GREGORIAN)
    recent = pa.table({"a": pa.array([[dt.date(1600, 6, 1)]])})
    assert not sources(tmp_path, recent, {"a": "array<date>"}, calendar=JULIAN_GREGORIAN)["a"].julian


def test_timestamps_that_nanoseconds_hold_are_read(tmp_path):
    file = pa.table(
        {"t": pa.array([[dt.datetime(1678, 1, 1)], [dt.datetime(2262, 1, 1)], None], pa.list_(pa.timestamp("ns")))}
    )
    assert list(sources(tmp_path, file, {"t": "array<timestamp>"})) == ["t"]


def test_the_first_and_the_last_timestamp_that_can_be_written_are_read(tmp_path):
    ticks = [-9_223_372_036 * 10**9, 2**63 - 1]  # whole seconds before 1970
    file = pa.table({"t": pa.array(ticks, pa.timestamp("ns"))})
    assert list(sources(tmp_path, file, {"t": "timestamp"})) == ["t"]


def test_bounds_are_widened_by_a_day_where_the_writers_time_zone_is_unknown():
    def column(milliseconds: int) -> OrcColumn:
        bounds = signed_field(1, 0) + signed_field(2, milliseconds)
        return OrcColumn("t", OrcKind.TIMESTAMP, int_field(1, 2) + bytes_field(9, bounds))

    largest, day = 2**63 // 1_000_000, 86_400_000
    check_timestamps(column(largest - day - 1), "f")
    with pytest.raises(UnsupportedFeature, match="1677 to 2262"):
        check_timestamps(column(largest - day + 1), "f")


@pytest.mark.parametrize("year", [1, 1600, 2300, 9999])
def test_timestamps_that_nanoseconds_cannot_hold_are_refused(tmp_path, year):
    file = pa.table({"t": pa.array([dt.datetime(year, 1, 1), None], pa.timestamp("us"))})
    with pytest.raises(UnsupportedFeature, match=r"column 't' of 'f'.*1677 to 2262"):
        sources(tmp_path, file, {"t": "timestamp"})
    as_struct = pa.table({"s": pa.StructArray.from_arrays([file["t"].chunk(0)], ["t"])})
    with pytest.raises(UnsupportedFeature, match="1677 to 2262"):
        sources(tmp_path, as_struct, {"s": "struct<t:timestamp>"})


def test_a_column_of_nulls_needs_no_statistics(tmp_path):
    file = pa.table({"t": pa.nulls(3, pa.timestamp("ns")), "d": pa.nulls(3, pa.date32())})
    assert list(sources(tmp_path, file, {"t": "timestamp", "d": "date"}, JULIAN_GREGORIAN)) == ["t", "d"]


def test_a_timestamp_without_statistics_is_refused():
    with pytest.raises(UnsupportedFeature, match="no statistics"):
        check_timestamps(OrcColumn("t", OrcKind.TIMESTAMP, b""), "f")


def test_the_tree_has_names_and_kinds(tmp_path):
    root = tree_of(write(tmp_path, pa.table({"a": [{"x": 1, "y": [dt.date(2020, 1, 2)]}], "b": ["s"]})))
    assert [child.name for child in root.children] == ["a", "b"]
    assert root.child("a").kind == OrcKind.STRUCT
    assert root.child("a").child("y").extremes(OrcKind.DATE) == (18263, 18263)
    assert root.child("c") is None
    assert len(list(root.walk())) == 6
