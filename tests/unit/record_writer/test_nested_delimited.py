"""Nested values in delimited text, with Hive's delimiters."""

from __future__ import annotations

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.record_writer import StrictDelimitedInputWriter
from tests.unit.record_writer.writing import rows_of, schema_of


def read(type_, text, **options):
    writer = StrictDelimitedInputWriter(**{"collection_delimiter": "|", "map_key_delimiter": ":"} | options)
    [row] = rows_of(writer, schema_of(v=type_), [text])
    return row["v"]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("array<int>", "1|2", [1, 2]),
        ("array<int>", "1|\\N|3", [1, None, 3]),
        ("array<int>", "", []),
        ("array<string>", "a||", ["a", "", ""]),
        ("map<string,int>", "a:1|b:\\N", [("a", 1), ("b", None)]),
        ("map<string,int>", "", []),
        ("struct<a:int,b:string>", "1|x", {"a": 1, "b": "x"}),
        ("struct<a:int,b:string>", "\\N|", {"a": None, "b": ""}),
        ("array<array<int>>", "1:2|3", [[1, 2], [3]]),
        ("array<struct<a:int,b:array<string>>>", "1:x\x04y|2:z", [{"a": 1, "b": ["x", "y"]}, {"a": 2, "b": ["z"]}]),
        ("map<string,array<int>>", "a:1\x042|b:3", [("a", [1, 2]), ("b", [3])]),
        ("struct<a:map<string,int>>", "x\x041:y\x042", {"a": [("x", 1), ("y", 2)]}),
        ("array<int>", "\\N", None),
    ],
)
def test_nested_values_have_the_delimiters_of_their_level(type_, text, value):
    assert read(type_, text) == value


@pytest.mark.parametrize(
    ("type_", "text", "why"),
    [
        ("array<int>", "1|x", "column 'v': 'x' is not a whole number"),
        ("map<string,int>", "a", "not one key and one value"),
        ("map<string,int>", "a:1|a:2", "occurs twice"),
        ("map<string,int>", "\\N:1", "is null, which no map can have as a key"),
        ("struct<a:int,b:string>", "1", "the struct has 1 field"),
        ("struct<a:int,b:string>", "1|x|y", "the struct has 3 field"),
    ],
)
def test_a_nested_value_of_another_form_is_bad(type_, text, why):
    with pytest.raises(SerializationError, match=why):
        read(type_, text)


def test_missing_fields_of_a_struct_are_null_where_those_of_a_line_are():
    assert read("struct<a:int,b:string>", "1", missing_fields="null") == {"a": 1, "b": None}


def test_an_escaped_delimiter_is_data_at_every_level():
    assert read("array<string>", "a\\|b|c\\,d", escape="\\") == ["a|b", "c,d"]
    assert read("map<string,string>", "a\\:b:c", escape="\\") == [("a:b", "c")]


def test_the_first_of_two_equal_keys_counts_for_hive():
    assert read("map<string,int>", "a:1|a:2", coerce="hive") == [("a", 1)]


def test_hives_own_delimiters_are_the_default():
    writer = StrictDelimitedInputWriter(field_delimiter="\x01")
    rows = rows_of(writer, schema_of(a="array<int>", m="map<string,int>"), [b"1\x022\x01x\x035\x02y\x036"])
    assert rows == [{"a": [1, 2], "m": [("x", 5), ("y", 6)]}]


def test_a_block_with_a_nested_column_has_the_rows_of_its_lines():
    lines = b"".join(b"%d,%d|%d\n" % (k, k, k + 1) for k in range(100))
    writer = StrictDelimitedInputWriter(collection_delimiter="|")
    assert rows_of(writer, schema_of(id="int", a="array<int>"), lines) == [
        {"id": k, "a": [k, k + 1]} for k in range(100)
    ]


@pytest.mark.parametrize("options", [{"collection_delimiter": ","}, {"map_key_delimiter": "||"}, {"escape": "\x02"}])
def test_delimiters_are_single_characters_and_differ(options):
    with pytest.raises(ConfigurationError):
        StrictDelimitedInputWriter(**options)
