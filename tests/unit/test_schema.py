"""Hive type strings and Arrow types, each made from the other."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.model import Column
from hive_ingest.schema import arrow_schema, arrow_type, hive_type, parse_type

PRIMITIVES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
    "decimal(10,2)": pa.decimal128(10, 2),
}


def nested(types):
    names = st.lists(st.sampled_from(["a", "b_1", "c"]), min_size=1, max_size=3, unique=True)
    structs = names.flatmap(lambda n: st.tuples(*[types] * len(n)).map(lambda t: list(zip(n, t, strict=True))))
    return st.one_of(
        types.map(lambda t: f"array<{t}>"),
        st.tuples(types, types).map(lambda t: f"map<{t[0]},{t[1]}>"),
        structs.map(lambda fields: f"struct<{','.join(f'{n}:{t}' for n, t in fields)}>"),
    )


def type_strings():
    return st.recursive(st.sampled_from(sorted(PRIMITIVES)), nested, max_leaves=8)


@given(type_strings())
def test_a_type_string_survives_parsing_and_a_trip_through_arrow(text):
    assert str(parse_type(text)) == text
    assert hive_type(arrow_type(text)) == text


@pytest.mark.parametrize(("text", "arrow"), PRIMITIVES.items())
def test_each_primitive_has_its_arrow_type(text, arrow):
    assert arrow_type(text) == arrow


def test_char_and_varchar_are_strings_to_arrow():
    assert arrow_type("char(5)") == arrow_type("varchar(65535)") == pa.string()
    assert str(parse_type("VARCHAR(10)")) == "varchar(10)"


def test_aliases_and_defaults_are_hives():
    assert str(parse_type("Integer")) == "int"
    assert str(parse_type("double precision")) == "double"
    assert str(parse_type("numeric(5)")) == "decimal(5,0)"
    assert str(parse_type("decimal")) == "decimal(10,0)"


def test_nested_types_carry_names_and_order():
    found = arrow_type("struct<b:int,a:map<string,array<decimal(3,1)>>>")
    assert [field.name for field in found] == ["b", "a"]
    assert found.field("a").type == pa.map_(pa.string(), pa.list_(pa.decimal128(3, 1)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integer64",
        "array<int",
        "array<>",
        "map<int>",
        "struct<a>",
        "struct<a:int,a:int>",
        "struct<>",
        "int>",
        "decimal(39,0)",
        "decimal(3,4)",
        "decimal(1,2,3)",
        "decimal(x)",
        "char",
        "char(256)",
        "varchar(0)",
        "varchar(65536)",
    ],
)
def test_a_text_that_is_not_a_type_is_refused_with_the_text_named(text):
    with pytest.raises(ConfigurationError) as error:
        parse_type(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("text", ["timestamp with local time zone", "map<int,timestamp with local time zone('UTC')>"])
def test_a_refused_timestamp_with_local_time_zone_names_the_reason_and_the_way_out(text):
    with pytest.raises(UnsupportedFeature, match=r"cannot read it from ORC files: use timestamp.*timezone"):
        parse_type(text)


@pytest.mark.parametrize("text", ["uniontype<int,string>", "timestamp with local time zone", "array<void>"])
def test_a_type_of_hive_that_is_not_supported_says_so(text):
    with pytest.raises(UnsupportedFeature):
        parse_type(text)


@pytest.mark.parametrize(
    ("arrow", "hive"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.binary(4), "binary"),
        (pa.timestamp("us"), "timestamp"),
        (pa.date64(), "date"),
        (pa.large_list(pa.int32()), "array<int>"),
        (pa.struct([("A", pa.int32())]), "struct<a:int>"),
    ],
)
def test_the_hive_type_holds_every_value_of_the_arrow_type(arrow, hive):
    assert hive_type(arrow) == hive


@pytest.mark.parametrize(
    "arrow", [pa.uint64(), pa.float16(), pa.time64("ns"), pa.timestamp("us", "UTC"), pa.decimal256(76, 0), pa.null()]
)
def test_an_arrow_type_that_no_hive_type_holds_is_refused(arrow):
    with pytest.raises(UnsupportedFeature, match="cast the column"):
        hive_type(arrow)


def test_a_schema_has_one_nullable_field_a_column():
    schema = arrow_schema([Column("id", "int"), Column("tags", "array<string>")])
    assert schema == pa.schema([("id", pa.int32()), ("tags", pa.list_(pa.string()))])
    assert all(field.nullable for field in schema)
