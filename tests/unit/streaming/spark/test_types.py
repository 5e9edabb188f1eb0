"""Spark types and Hive types, and a DataFrame's schema against its table, without a JVM."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from pyspark.sql import types as T

from hive_ingest.errors import ConfigurationError, StreamingConnectionError, UnsupportedFeature
from hive_ingest.model import Column, Table, TableName
from hive_ingest.schema import arrow_type
from hive_ingest.streaming.spark.types import columns_of, hive_type, plan_columns, spark_type


def schema_of(**fields):
    return T.StructType([T.StructField(name, type_) for name, type_ in fields.items()])


PAIRS = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "decimal(38,18)": T.DecimalType(38, 18),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampNTZType(),
    "array<int>": T.ArrayType(T.IntegerType()),
    "map<string,array<date>>": T.MapType(T.StringType(), T.ArrayType(T.DateType())),
    "struct<a:int,b:struct<c:string>>": schema_of(a=T.IntegerType(), b=schema_of(c=T.StringType())),
}


class PointUDT(T.UserDefinedType):
    @classmethod
    def sqlType(cls):
        return T.ArrayType(T.DoubleType())


UNSUPPORTED = [
    T.NullType(),
    T.CalendarIntervalType(),
    T.DayTimeIntervalType(),
    T.YearMonthIntervalType(),
    T.VariantType(),
    PointUDT(),
    *(T.__dict__[name](*args) for name, *args in [("TimeType",), ("GeometryType", 4326), ("GeographyType", 4326)]
      if name in T.__dict__),
]  # fmt: skip


def table_of(keys=None, **columns):
    own, of_keys = (tuple(Column(name, type_) for name, type_ in (given or {}).items()) for given in (columns, keys))
    return Table(TableName("web", "t"), own, of_keys)


def plan_of(source, target):
    return plan_columns(schema_of(x=source), table_of(x=target))


# -- types -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hive", "spark"), PAIRS.items())
def test_a_hive_type_is_read_as_the_spark_type_that_creates_it(hive, spark):
    assert spark_type(hive) == spark
    assert hive_type(spark) == hive


@pytest.mark.parametrize(
    ("spark", "hive"),
    [
        (T.TimestampType(), "timestamp"),
        (T.CharType(255), "char(255)"),
        (T.CharType(256), "string"),
        (T.VarcharType(65535), "varchar(65535)"),
        (T.VarcharType(65536), "string"),
        (T.StringType("UNICODE_CI"), "string"),
        (schema_of(Aa=T.IntegerType()), "struct<aa:int>"),
    ],
)
def test_a_spark_type_without_an_equal_hive_type_becomes_one_that_holds_its_values(spark, hive):
    assert hive_type(spark) == hive


def test_char_and_varchar_are_read_as_strings():
    assert spark_type("char(3)") == spark_type("varchar(3)") == T.StringType()


@pytest.mark.parametrize("spark", UNSUPPORTED, ids=lambda t: type(t).__name__)
def test_a_type_that_hive_lacks_is_refused_by_name(spark):
    for nested in (spark, T.ArrayType(spark), schema_of(a=spark)):
        with pytest.raises(UnsupportedFeature, match=type(spark).__name__):
            hive_type(nested)


@pytest.mark.parametrize("names", [["a", "A"], ["a:b"], ["a,b"], [""], []])
def test_a_struct_whose_names_hive_cannot_read_is_refused(names):
    with pytest.raises(UnsupportedFeature, match="ename its fields"):
        hive_type(T.StructType([T.StructField(name, T.IntegerType()) for name in names]))


def test_a_decimal_of_negative_scale_is_refused():
    with pytest.raises(UnsupportedFeature, match="DecimalType"):
        hive_type(T.DecimalType(3, -2))


def test_the_columns_of_a_table_are_those_of_the_dataframe_in_lower_case():
    schema = schema_of(Id=T.LongType(), at=T.TimestampType(), tags=T.ArrayType(T.StringType()))
    assert columns_of(schema) == {"id": "bigint", "at": "timestamp", "tags": "array<string>"}


def test_every_impossible_column_is_named_in_one_error():
    schema = schema_of(a=T.IntegerType(), A=T.IntegerType(), v=T.VariantType(), n=T.NullType())
    with pytest.raises(UnsupportedFeature) as error:
        columns_of(schema)
    for word in ("'a' is there twice", "'v'", "VariantType", "'n'", "NullType"):
        assert word in str(error.value)


# -- a DataFrame and its table ---------------------------------------------------------------------


def test_columns_come_in_table_order_then_the_dynamic_partition_columns():
    table = table_of(keys={"day": "date", "hour": "int"}, a="int", b="string")
    schema = schema_of(hour=T.IntegerType(), B=T.StringType(), A=T.IntegerType())
    plan = plan_columns(schema, table, static_partition_values=["2024-01-01"])
    assert plan.schema.names == ["a", "b", "hour"]
    assert [column.source and column.source.name for column in plan.columns] == ["A", "B", "hour"]


def test_every_mismatch_is_named_in_one_error():
    table = table_of(keys={"day": "date", "hour": "int"}, a="int", b="string", s="struct<x:int,y:int>", n="int")
    fields = schema_of(x=T.StringType(), z=T.IntegerType())
    schema = schema_of(a=T.LongType(), c=T.IntegerType(), day=T.DateType(), s=fields, n=T.IntegerType(), N=T.ByteType())
    with pytest.raises(StreamingConnectionError) as error:
        plan_columns(schema, table, static_partition_values=["2024-01-01"])
    assert str(error.value) == (
        "the DataFrame does not fit web.t: 'n' is there twice, case aside: drop or rename one; "
        "'a' is bigint, which int does not hold: cast it; "
        "'b' (string) is missing: add it, or let it be null by missing_columns='null'; "
        "'s.x' is string, which int does not hold: cast it; "
        "'s.y' (int) is missing: add it, or let it be null by missing_columns='null'; "
        "'s.z' is not in the table: drop it, or add it to the table; "
        "'hour' (int) is missing: add it, or let it be null by missing_columns='null'; "
        "'c' is not in the table: drop it, or add it to the table; "
        "'day' is a static partition key, its value is given already: drop it"
    )


def test_missing_columns_and_fields_are_null_on_request():
    table = table_of(a="int", s="struct<x:int,y:int>")
    plan = plan_columns(schema_of(s=schema_of(y=T.IntegerType())), table, missing_columns="null")
    assert plan.columns[0].source is None
    assert plan.schema == T.StructType([T.StructField(c.name, spark_type(c.type)) for c in table.columns])


def test_an_unknown_rule_for_missing_columns_is_refused():
    with pytest.raises(ConfigurationError, match="missing_columns='ignore'"):
        plan_columns(schema_of(), table_of(a="int"), missing_columns="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("spark", UNSUPPORTED[1:], ids=lambda t: type(t).__name__)
def test_an_unsupported_type_is_refused_by_name_at_any_depth(spark):
    name = type(spark).__name__
    for source, target, path in [
        (spark, "string", "'x'"),
        (T.ArrayType(spark), "array<int>", "'x.element'"),
        (T.MapType(T.StringType(), spark), "map<string,int>", "'x.value'"),
        (schema_of(F=spark), "struct<f:int>", "'x.F'"),
    ]:
        with pytest.raises(StreamingConnectionError, match=f"{path}.*{name}"):
            plan_of(source, target)


@pytest.mark.parametrize("target", sorted(PAIRS))
def test_void_fits_every_type(target):
    assert plan_of(T.NullType(), target).schema["x"].dataType == spark_type(target)
    assert plan_of(T.ArrayType(T.NullType()), f"array<{target}>").schema["x"].dataType.elementType == spark_type(target)


def test_nullability_does_not_matter():
    strict = T.StructType([T.StructField("x", T.ArrayType(T.IntegerType(), False), False)])
    assert plan_columns(strict, table_of(x="array<int>")).schema["x"].nullable


#: For each type of a table, what may be cast to it besides itself.
TAKEN = {
    "boolean": [],
    "tinyint": [],
    "smallint": ["tinyint"],
    "int": ["tinyint", "smallint"],
    "bigint": ["tinyint", "smallint", "int"],
    "float": ["tinyint", "smallint"],
    "double": ["tinyint", "smallint", "int", "float"],
    "decimal(2,0)": [],
    "decimal(10,2)": ["tinyint", "smallint", "decimal(2,0)"],
    "decimal(10,0)": ["tinyint", "smallint", "int", "decimal(2,0)"],
    "decimal(38,18)": ["tinyint", "smallint", "int", "bigint", "decimal(2,0)", "decimal(10,0)", "decimal(10,2)"],
    "string": [],
    "char(3)": ["string"],
    "varchar(3)": ["string"],
    "binary": [],
    "date": [],
    "timestamp": [],
}


@pytest.mark.parametrize("target", TAKEN)
def test_a_column_is_cast_only_where_every_value_is_kept(target):
    for source in TAKEN:
        if spark_type(source) == spark_type(target) or source in TAKEN[target]:
            assert plan_of(spark_type(source), target).schema["x"].dataType == spark_type(target)
        else:
            with pytest.raises(StreamingConnectionError, match=r"'x' is .* does not hold"):
                plan_of(spark_type(source), target)


@pytest.mark.parametrize("target", ["string", "char(1)", "varchar(1)"])
@pytest.mark.parametrize("source", [T.CharType(300), T.VarcharType(9), T.StringType("UNICODE_CI")])
def test_text_of_any_kind_goes_into_text_of_any_kind(source, target):
    assert plan_of(source, target).schema["x"].dataType == T.StringType()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (T.ArrayType(T.IntegerType()), "int"),
        (T.IntegerType(), "array<int>"),
        (T.MapType(T.StringType(), T.IntegerType()), "struct<a:int>"),
        (schema_of(a=T.IntegerType()), "map<string,int>"),
        (T.StringType(), "array<string>"),
    ],
)
def test_a_nested_type_is_written_only_to_the_same_kind_of_type(source, target):
    with pytest.raises(StreamingConnectionError, match="does not hold"):
        plan_of(source, target)


def test_types_of_the_table_that_are_not_supported_say_so():
    with pytest.raises(UnsupportedFeature, match="uniontype"):
        plan_of(T.IntegerType(), "uniontype<int,string>")


@pytest.mark.parametrize("name", ["a.b", "a`b", "*"])
def test_columns_of_the_table_that_spark_cannot_name_are_refused(name):
    with pytest.raises(UnsupportedFeature, match="cannot pass on"):
        plan_columns(schema_of(**{name: T.IntegerType()}), table_of(**{name: "int"}))


def test_columns_of_the_table_that_differ_only_by_case_are_refused():
    table = dataclasses.replace(table_of(), columns=(Column("a", "int"), Column("A", "int")))
    with pytest.raises(StreamingConnectionError, match="ignoring case"):
        plan_columns(schema_of(a=T.IntegerType()), table)


def test_an_instant_fits_a_timestamp_at_any_depth():
    instant = T.TimestampType()
    source = schema_of(m=T.MapType(instant, T.ArrayType(instant)))
    assert plan_of(source, "struct<m:map<timestamp,array<timestamp>>>").schema["x"].dataType == spark_type(
        "struct<m:map<timestamp,array<timestamp>>>"
    )


@pytest.mark.parametrize("hive", PAIRS)
def test_arrow_carries_what_spark_sends_for_the_type(hive):
    from pyspark.sql.pandas.types import to_arrow_type

    sent, wanted = to_arrow_type(spark_type(hive)), arrow_type(hive)
    if hive == "timestamp":
        assert (sent.unit, sent.tz, wanted.unit) == ("us", None, "ns")
    else:
        assert sent == wanted


# -- the documentation -----------------------------------------------------------------------------

PAGE = Path(__file__).parents[4] / "docs" / "spark.md"
CELL = r" *(.*?) *\|"
DOCUMENTED = re.findall(r"^\|" + CELL * 5 + "$", PAGE.read_text("utf-8"), re.MULTILINE)[2:]


def shown(spark):
    """The type as the documentation writes it."""
    name = type(spark).__name__
    match spark:
        case T.DecimalType():
            return f"{name}({spark.precision},{spark.scale})"
        case T.CharType() | T.VarcharType():
            return f"{name}({spark.length})"
        case T.ArrayType():
            return f"{name}({shown(spark.elementType)})"
        case T.MapType():
            return f"{name}({shown(spark.keyType)},{shown(spark.valueType)})"
        case T.StructType():
            return f"{name}({','.join(f'{field.name}:{shown(field.dataType)}' for field in spark)})"
    return name


def made_of(hive):
    """The Spark type that becomes it, also a char or varchar."""
    text = re.fullmatch(r"(char|varchar)\((\d+)\)", hive)
    return {"char": T.CharType, "varchar": T.VarcharType}[text[1]](int(text[2])) if text else spark_type(hive)


@pytest.mark.parametrize(("spark", "hive", "arrow", "taken", "read_as"), DOCUMENTED)
def test_the_table_of_types_is_what_happens(spark, hive, arrow, taken, read_as):
    hive = hive.strip("`")
    source = T.TimestampType() if spark == "`TimestampType`" else made_of(hive)
    assert spark == f"`{shown(source)}`"
    assert hive_type(source) == hive
    assert arrow == f"`{arrow_type(hive)}`"
    assert read_as == f"`{shown(spark_type(hive))}`"
    for other in re.findall("`(.+?)`", taken):
        assert plan_of(made_of(other), hive).schema["x"].dataType == spark_type(hive)


def test_the_table_of_types_has_every_type_and_the_page_names_every_refused_one():
    assert {re.findall(r"^`(\w+)", row[0])[0] for row in DOCUMENTED} >= {
        type(spark).__name__ for spark in PAIRS.values()
    }
    page = PAGE.read_text("utf-8")
    assert [name for name in ("VariantType", "TimeType", "GeometryType", "GeographyType") if name not in page] == []
