"""What a DataFrame's rows are when a record writer has taken them from Spark's Arrow batches."""

from __future__ import annotations

import datetime as dt
import pickle
import textwrap
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from hive_ingest.errors import SerializationError, StreamingConnectionError
from hive_ingest.model import Column, Table, TableName
from hive_ingest.record_writer import ArrowWriter, RecordSchema
from hive_ingest.streaming.spark.types import columns_of, plan_columns
from tests.spark.numbers import FAILED_IN_JAVA

#: Which has neither collations nor variants; its pyspark cannot name the type of an interval.
IS_SPARK_3 = pyspark.__version__.startswith("3.")
ZONES = ["UTC", "America/Los_Angeles", "Asia/Kolkata"]


def table_of(columns: dict[str, str], keys: dict[str, str] | None = None) -> Table:
    own, of_keys = (tuple(Column(name, type_) for name, type_ in given.items()) for given in (columns, keys or {}))
    return Table(TableName("web", "t"), own, of_keys)


def sent(df: DataFrame) -> list[pa.RecordBatch]:
    """The batches that a function inside mapInArrow is given."""

    def pickled(batches):
        for batch in batches:
            yield pa.record_batch({"batch": [pickle.dumps(batch)]})

    return [pickle.loads(row.batch) for row in df.mapInArrow(pickled, "batch binary").collect()]


def written(df: DataFrame, table: Table, **options: Any) -> pa.Table:
    """The rows of `df` in the shape of `table`, as its record writer makes them of Spark's batches."""
    schema = RecordSchema(table.columns, table.partition_keys)
    writer = ArrowWriter(unknown_fields="fail")
    writer.bind(schema)
    batches = sent(plan_columns(df.schema, table, **options).select(df))
    assert all(batch.schema.names == schema.arrow.names for batch in batches)
    blocks = [*writer.write(batches), *writer.drain()]
    return pa.Table.from_batches([writer.parse(block).batch for block in blocks], schema.arrow)


def rows(df: DataFrame, columns: dict[str, str], **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in written(df, table_of(columns), **options).to_pylist()]


def exploded(spark: SparkSession, kind: str, texts: list[str]) -> DataFrame:
    """One row for each text, as a literal of that kind, in the column x."""
    literals = ", ".join(f"{kind}'{text}'" for text in texts)
    return spark.sql(f"select explode(array({literals})) x")


# -- every type ------------------------------------------------------------------------------------

#: Hive type, a Spark expression of it, the value that must arrive.
VALUES = {
    "boolean": ("true", True),
    "tinyint": ("-128y", -128),
    "smallint": ("32767s", 32767),
    "int": ("-2147483648", -(2**31)),
    "bigint": ("9223372036854775807L", 2**63 - 1),
    "float": ("cast(0.1 as float)", 0.10000000149011612),
    "double": ("0.1d", 0.1),
    "decimal(38,18)": ("12345678901234567890.123456789012345678bd", Decimal("12345678901234567890.123456789012345678")),
    "string": ("'äöü😀\\n'", "äöü😀\n"),
    "char(5)": ("'ab   '", "ab"),
    "varchar(5)": ("'ab   '", "ab   "),
    "binary": ("X'00FF'", b"\x00\xff"),
    "date": ("date'0001-01-01'", dt.date(1, 1, 1)),
    "timestamp": ("timestamp_ntz'2024-03-10 02:30:00.123456'", dt.datetime(2024, 3, 10, 2, 30, 0, 123456)),
    "array<int>": ("array(1, null, 3)", [1, None, 3]),
    "map<string,bigint>": ("map('a', 1L, 'b', null)", [("a", 1), ("b", None)]),
    "struct<a:int,b:string>": ("named_struct('a', 1, 'b', cast(null as string))", {"a": 1, "b": None}),
    "array<struct<m:map<int,array<timestamp>>>>": (
        "array(named_struct('m', map(1, array(timestamp_ntz'1969-12-31 23:59:59', null))), null)",
        [{"m": [(1, [dt.datetime(1969, 12, 31, 23, 59, 59), None])]}, None],
    ),
}


@pytest.mark.parametrize("large", ["false", "true"])
@pytest.mark.parametrize("zone", ZONES)
def test_a_value_of_every_type_arrives_as_it_is_and_so_does_its_null(spark_in, zone, large):
    spark = spark_in(zone)
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    columns = {f"c{i}": type_ for i, type_ in enumerate(VALUES)}
    chosen = [f"if(id = 0, {expression}, null) c{i}" for i, (expression, _) in enumerate(VALUES.values())]
    found = rows(spark.range(0, 2, 1, 1).selectExpr(*chosen), columns)
    assert found == [tuple(value for _, value in VALUES.values()), (None,) * len(VALUES)]


def test_a_table_created_from_a_dataframe_takes_its_rows_unchanged(spark):
    chosen = [f"{expression} c{i}" for i, (expression, _) in enumerate(VALUES.values())]
    df = spark.range(1).selectExpr(*chosen)
    [row] = rows(df, columns_of(df.schema))
    expected = [value for _, value in VALUES.values()]
    expected[list(VALUES).index("char(5)")] = "ab   "
    assert row == tuple(expected)


DATES = ["0001-01-01", "0004-02-29", "1500-02-28", "1582-10-10", "1582-10-15", "1969-12-31", "2024-02-29", "9999-12-31"]


def test_dates_are_the_same_days_back_to_the_year_1(spark):
    found = rows(exploded(spark, "date", DATES), {"x": "date"})
    assert [day for (day,) in found] == [dt.date.fromisoformat(text) for text in DATES]


@pytest.mark.parametrize(
    ("type_", "expression"),
    [
        ("date", "date_add(date'9999-12-31', 1)"),
        ("date", "date_add(date'0001-01-01', -1)"),
        ("timestamp", "timestamp_ntz'1969-12-31 23:59:59.5'"),
        ("timestamp", "timestamp_ntz'2263-01-01 00:00:00'"),
        ("timestamp", "timestamp_ntz'1677-09-21 00:00:00'"),
        ("array<timestamp>", "array(timestamp_ntz'1969-12-31 23:59:59.001')"),
        ("char(3)", "'abcd'"),
        ("varchar(3)", "'ab  '"),
    ],
)
def test_a_value_that_hive_would_not_read_as_it_is_is_a_bad_record(spark, type_, expression):
    with pytest.raises(SerializationError, match="record 0: column 'c'"):
        rows(spark.sql(f"select {expression} c"), {"c": type_})


# -- instants --------------------------------------------------------------------------------------

#: Around the daylight-saving changes of 2024 in Los Angeles, before standard time, before 1970, and at its second.
INSTANTS = [
    "2024-03-10T09:59:59.999999+00:00",
    "2024-03-10T10:00:00+00:00",
    "2024-11-03T08:30:00+00:00",
    "2024-11-03T09:30:00+00:00",
    "1883-11-18T19:52:57+00:00",
    "1883-11-18T20:00:00+00:00",
    "1700-01-01T00:00:00+00:00",
    "1969-12-31T18:29:59+00:00",
    "1900-01-01T00:00:00.000001+00:00",
    "1970-01-01T08:00:00.000001+00:00",
    "2262-01-01T00:00:00.999999+00:00",
]


def wall_clock(instant: str, zone: str) -> dt.datetime:
    return dt.datetime.fromisoformat(instant).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@pytest.mark.parametrize("zone", ZONES)
def test_an_instant_becomes_the_wall_clock_of_the_sessions_time_zone_at_any_depth(spark_in, zone):
    nested = ("x t", "array(x, null) a", "map(x, x) m", "named_struct('T', x) s")
    columns = {
        "t": "timestamp",
        "a": "array<timestamp>",
        "m": "map<timestamp,timestamp>",
        "s": "struct<t:timestamp>",
    }
    found = rows(exploded(spark_in(zone), "timestamp", INSTANTS).selectExpr(*nested), columns)
    clocks = [wall_clock(text, zone) for text in INSTANTS]
    assert found == [(t, [t, None], [(t, t)], {"t": t}) for t in clocks]


@pytest.mark.parametrize("zone", ZONES)
def test_a_timestamp_without_a_zone_is_unchanged_also_where_the_clock_was_put_forward(spark_in, zone):
    texts = ["2024-03-10 02:30:00", "2024-11-03 01:30:00.000001", "1883-11-18 12:05:00", "1941-10-01 00:20:00"]
    found = rows(exploded(spark_in(zone), "timestamp_ntz", texts), {"x": "timestamp"})
    assert [t for (t,) in found] == [dt.datetime.fromisoformat(text) for text in texts]


def test_an_instant_of_the_last_milliseconds_before_1970_on_the_wall_clock_is_a_bad_record(spark_in):
    query = "select timestamp'1970-01-01T07:59:59.5+00:00' t"
    in_utc = rows(spark_in("UTC").sql(query), {"t": "timestamp"})
    assert in_utc == [(dt.datetime(1970, 1, 1, 7, 59, 59, 500000),)]
    with pytest.raises(SerializationError, match=r"record 0: column 't': a timestamp .*milliseconds before 1970"):
        rows(spark_in("America/Los_Angeles").sql(query), {"t": "timestamp"})


def test_two_keys_of_a_map_that_are_one_wall_clock_fail_the_query(spark_in):
    query = "select map(timestamp'2024-11-03T08:30:00+00:00', 1, timestamp'2024-11-03T09:30:00+00:00', 2) m"
    [(keys_and_values,)] = rows(spark_in("UTC").sql(query), {"m": "map<timestamp,int>"})
    assert [value for _, value in keys_and_values] == [1, 2]
    with pytest.raises(FAILED_IN_JAVA, match="DUPLICATED_MAP_KEY"):
        rows(spark_in("America/Los_Angeles").sql(query), {"m": "map<timestamp,int>"})


# -- casts -----------------------------------------------------------------------------------------

WIDENED = {
    "smallint": "-128y",
    "bigint": "2147483647",
    "float": "-32768s",
    "double": "2147483647",
    "decimal(19,0)": "-9223372036854775808L",
    "decimal(38,5)": "999.99bd",
    "array<double>": "array(cast('NaN' as float), cast('-Infinity' as float), cast(0.1 as float), null)",
    "map<bigint,decimal(12,2)>": "map(1, 1, 2, null)",
}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_cast_keeps_every_value_with_and_without_ansi_mode(spark, ansi):
    columns = {f"c{i}": type_ for i, type_ in enumerate(WIDENED)}
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    df = spark.range(1).selectExpr(*(f"{expression} c{i}" for i, expression in enumerate(WIDENED.values())))
    *plain, doubles, decimals = rows(df, columns)[0]
    assert plain == [-128, 2147483647, -32768.0, 2147483647.0, Decimal(-(2**63)), Decimal("999.99000")]
    assert str(doubles) == "[nan, -inf, 0.10000000149011612, None]"
    assert decimals == [(1, Decimal("1.00")), (2, None)]


def test_void_becomes_null_of_any_type(spark):
    columns = {f"c{i}": type_ for i, type_ in enumerate(VALUES)}
    df = spark.range(1).selectExpr(*(f"null c{i}" for i in range(len(VALUES))))
    assert rows(df, columns) == [(None,) * len(VALUES)]
    nested = spark.sql("select array(null) a, array() e, map('k', null) m, map() n, named_struct('x', null) s")
    types = {
        "a": "array<int>",
        "e": "array<date>",
        "m": "map<string,binary>",
        "n": "map<int,int>",
        "s": "struct<x:int>",
    }
    assert rows(nested, types) == [([None], [], [("k", None)], [], {"x": None})]


def test_text_of_any_kind_is_text_in_arrow(spark):
    spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    collation = "" if IS_SPARK_3 else "collate UNICODE_CI"
    df = spark.sql(f"select cast('a' as char(2)) c, cast('b' as varchar(2)) v, 'c' {collation} t")
    types = ("string", "string") if IS_SPARK_3 else ("char(2)", "varchar(2)")  # of casts
    assert columns_of(df.schema) == {"c": types[0], "v": types[1], "t": "string"}
    assert rows(df, {"c": "char(2)", "v": "string", "t": "varchar(1)"}) == [("a", "b", "c")]


# -- columns and fields ----------------------------------------------------------------------------


@pytest.mark.parametrize("case_sensitive", ["false", "true"])
def test_columns_and_fields_are_found_by_name_in_any_order_and_case(spark, case_sensitive):
    spark.conf.set("spark.sql.caseSensitive", case_sensitive)
    df = spark.sql(
        "select * from values (1, named_struct('B', named_struct('D', 1, 'c', 2), 'A', array(named_struct('Y', 1, "
        "'X', 2), null))), (2, null), (3, named_struct('B', null, 'A', null)) as t(`My Name`, S)"
    )
    columns = {"s": "struct<a:array<struct<x:bigint,y:int>>,b:struct<c:int,d:int>>", "my name": "int"}
    assert rows(df, columns) == [
        ({"a": [{"x": 2, "y": 1}, None], "b": {"c": 2, "d": 1}}, 1),
        (None, 2),
        ({"a": None, "b": None}, 3),
    ]


def test_fields_are_found_when_their_names_contain_dots(spark):
    df = spark.sql("select named_struct('b.c', 1, 'b', named_struct('c', 2), 'A b-c', 3) s")
    assert rows(df, {"s": "struct<a b-c:int,b:struct<c:int>,b.c:bigint>"}) == [({"a b-c": 3, "b": {"c": 2}, "b.c": 1},)]


def test_columns_missing_in_the_dataframe_are_null_on_request(spark):
    df = spark.sql("select map('k', named_struct('x', 1)) m")
    columns = {"n": "array<int>", "m": "map<string,struct<y:date,x:int>>"}
    assert rows(df, columns, missing_columns="null") == [(None, [("k", {"y": None, "x": 1})])]


def test_partition_columns_come_last(spark_in):
    table = table_of({"a": "int", "b": "timestamp"}, {"day": "date"})
    df = spark_in("Asia/Kolkata").sql("select date'2024-01-01' Day, 1 a, timestamp'2024-01-01T18:30:00+00:00' b")
    assert written(df, table).to_pylist() == [{"a": 1, "b": dt.datetime(2024, 1, 2), "day": dt.date(2024, 1, 1)}]


def test_a_dataframe_that_already_fits_is_unchanged(spark):
    df = spark.sql("select 1 a, array(named_struct('x', timestamp_ntz'2024-01-01')) n, map('k', 1.5bd) m")
    selected = plan_columns(df.schema, table_of(columns_of(df.schema))).select(df)
    assert selected.schema == df.schema
    assert "cast" not in selected._jdf.queryExecution().analyzed().toString()


def test_the_selected_schema_is_the_plans_but_for_nullability(spark):
    df = spark.sql("select 1y a, named_struct('X', current_timestamp()) s")
    plan = plan_columns(df.schema, table_of({"s": "struct<x:timestamp>", "a": "bigint"}))
    assert plan.select(df).schema.simpleString() == plan.schema.simpleString()


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("interval '1' day", "DayTimeIntervalType"),
        ("interval '1' month", "YearMonthIntervalType"),
        *(
            []
            if IS_SPARK_3
            else [("make_interval(1, 2, 3)", "CalendarIntervalType"), ("parse_json('1')", "VariantType")]
        ),
    ],
)
def test_unsupported_types_are_refused_by_name_before_any_job(spark, expression, name):
    df = spark.sql(f"select {expression} x, array({expression}) a")
    with pytest.raises(StreamingConnectionError, match=f"'x': .*{name}.*'a.element': .*{name}"):
        plan_columns(df.schema, table_of({"x": "string", "a": "array<string>"}))


# -- Spark Connect ---------------------------------------------------------------------------------

ON_CONNECT = """
    from pyspark.sql import SparkSession
    from hive_ingest.model import Column, Table, TableName
    from hive_ingest.streaming.spark.types import plan_columns

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    df = spark.sql(
        "select map(timestamp'2024-03-10T10:00:00Z', array(named_struct('B', timestamp'1970-01-01T00:00:00Z', "
        "'a.x', 1y))) M, null v, 1 i"
    )
    types = {"i": "decimal(12,1)", "v": "date", "m": "map<timestamp,array<struct<a.x:int,b:timestamp>>>"}
    columns = tuple(Column(name, type_) for name, type_ in types.items())
    selected = plan_columns(df.schema, Table(TableName("web", "t"), columns)).select(df)
    def shown(batches):
        import pyarrow as pa
        for batch in batches:
            yield pa.record_batch({"text": [str(batch.to_pylist())]})
    [row] = selected.mapInArrow(shown, "text string").collect()
    print(type(df).__module__, row.text)
"""


def test_a_spark_connect_dataframe_is_converted_too(install_spark, start_driver, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(ON_CONNECT))
    done = start_driver(install_spark(), script, environ={"SPARK_TESTING": "1"}).wait(300)  # a port of its own
    expected = {
        "i": Decimal("1.0"),
        "v": None,
        "m": [(dt.datetime(2024, 3, 10, 3), [{"a.x": 1, "b": dt.datetime(1969, 12, 31, 16)}])],
    }
    assert (done.returncode, done.out) == (0, f"pyspark.sql.connect.dataframe {[expected]}\n"), done.err
