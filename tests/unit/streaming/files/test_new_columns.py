"""The columns of records that their table lacks: no value is rounded, and the error names what no column can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Column
from hive_ingest.record_writer import CsvWriter, RecordSchema, StrictJsonWriter
from hive_ingest.streaming.files.line_file import Lines
from hive_ingest.streaming.files.new_columns import NewColumns

SCHEMA = RecordSchema((Column("id", "bigint"), Column("m", "map<string,bigint>")))


def of_json(*lines: str, **options: Any) -> dict[str, str]:
    text = "".join(f"{line}\n" for line in lines).encode()
    return of_text(text, **options)


def of_text(text: bytes, **options: Any) -> dict[str, str]:
    found = NewColumns(StrictJsonWriter(**options)).of({"a.jsonl": [Lines(text, text.count(b"\n"))]}, SCHEMA)
    return {column.name: column.type for column in found}


def of_csv(header: str, text: bytes, **options: Any) -> dict[str, str]:
    writer = CsvWriter(missing_columns="null", **options)
    records = replace(writer.framing.whole_records(text, is_last=True), header=tuple(header.split(",")))
    return {column.name: column.type for column in NewColumns(writer).of({"a.csv": [records]}, SCHEMA)}


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-9223372036854775808"], "bigint"),
        (["1", "2.5"], "double"),
        (["12345678901234567890.5"], "double"),
        (["1", "9223372036854775808"], "decimal(38,0)"),
        (["1e999"], "double"),
        (["1e999", "1"], "bigint"),
        (["true", "null", "false"], "boolean"),
        (['"2026-11-23"'], "date"),
        (['"2026-11-23 08:30:00"'], "timestamp"),
        (['"2026-11-23"', '"x"'], "string"),
        (['"2026-11-23"', r'"\ud800"'], "date"),
        ([r'"\ud800"'], "string"),
        (["[1,2.5,null]", "[]"], "array<double>"),
        (['["2026-11-23"]'], "array<string>"),
        (["[null]"], "array<string>"),
        (['{"A":1}', '{"a":2.5,"b":{"c":[{"d":true}]}}'], "struct<a:double,b:struct<c:array<struct<d:boolean>>>>"),
        (['{"B":1,"b":"x"}'], "struct<b:bigint>"),
        (['{"a":null,"b":[],"c":{},"d":1}'], "struct<a:string,b:array<string>,d:bigint>"),
    ],
)
def test_a_type_holds_all_values(values: list[str], type_: str) -> None:
    assert of_json(*(f'{{"id":1,"New":{value}}}' for value in values)) == {"new": type_}


@pytest.mark.parametrize("value", ["null", "[]", "{}", "[{}]", '{"tags":{}}', '{"tags":[{"a":{}}]}'])
def test_a_column_without_values_is_not_added(value: str) -> None:
    assert of_json(f'{{"id":1,"new":{value}}}') == {}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (['{"u":18446744073709551615}'], "field 'u': it has whole numbers beyond bigint"),
        (["[9007199254740993,1.5]"], "whole numbers with more digits than a double keeps"),
        (["1.5", "9007199254740993"], "whole numbers with more digits than a double keeps"),
        (["1" * 5_000], "whole numbers with more digits than a double keeps"),
        (["1", '"x"'], "two kinds, number and string"),
        (['[{"a":1}]', '[{"a":[1]}]'], "field 'a': it has values of two kinds, number and array"),
        (['{"a.b":1}'], r"field 'a\.b': Hive reads no such name"),
        (['{"a-b":1}'], "field 'a-b': Hive reads no such name"),
        (['{"":1}'], "field '': Hive reads no such name"),
        (['{"a":' * 900 + "1" + "}" * 900], "nested more than 100 levels deep"),
    ],
)
def test_a_column_whose_values_no_type_holds_is_named(values: list[str], why: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"^'a.jsonl': no type holds all values of the new column 'new': .*{why}"
    ):
        of_json(*(f'{{"id":1,"new":{value}}}' for value in values))


@pytest.mark.parametrize("name", ["a.b", "a:b", "a,b", "a`b", "", " a", r"a\u0000b"])
def test_a_name_that_no_column_can_have_is_named(name: str) -> None:
    assert of_json(f'{{"id":1,"{name}":null}}') == {}
    with pytest.raises(ConfigurationError, match=r"'a\.jsonl' has values for a field named .*rename the field"):
        of_json(f'{{"id":1,"{name}":1}}')


def test_objects_whose_keys_are_data_are_no_structs() -> None:
    with pytest.raises(ConfigurationError, match=r"new column 'new': .*more than 1,000 new fields.*map<string,…>"):
        of_json(*(f'{{"id":1,"new":{{"k{i}":1}}}}' for i in range(1_001)))
    assert of_json(*(f'{{"id":1,"m":{{"k{i}":1}}}}' for i in range(20_000))) == {}


@pytest.mark.parametrize("levels", [30_000, 200_000])
@pytest.mark.parametrize("around", [("[", "]"), ('{"a":', "}")])
def test_a_record_that_is_nested_too_deeply_for_the_writer_counts_for_nothing(levels: int, around: Any) -> None:
    opening, closing = around
    assert of_json('{"id":1,"n":1}', f'{{"id":2,"x":{opening * levels}1{closing * levels}}}') == {"n": "bigint"}


@pytest.mark.parametrize("record", [b'{"id":2,"x":"\xe9"}', b'{"x":1', b"[1]", b'{"x":NaN}', b'x"', b'{"\\ud800":1}'])
def test_a_record_that_the_writer_cannot_read_counts_for_nothing(record: bytes) -> None:
    assert of_text(b'{"id":1,"n":1}\n' + record) == {"n": "bigint"}


def test_the_writer_chooses_among_equal_keys() -> None:
    line = '{"id":1,"n":1,"N":"x"}'
    assert of_json(line) == {"n": "bigint"}
    assert of_json(line, coerce="hive") == {"n": "string"}


@pytest.mark.parametrize(
    "line", [r'{"id":1,"\u006e":1}', r'{"id":1,"s":"\"","n":1}', '{"id":1, "n" :1}', '{"ID":1,"N":1}']
)
def test_keys_are_found_however_they_are_written(line: str) -> None:
    assert of_json('{"ID":1}', line)["n"] == "bigint"


@pytest.mark.parametrize(
    ("text", "options", "types"),
    [
        (b"1,5\n2,6\n", {"missing_fields": "null"}, {"new": "bigint"}),
        (b"1,5,,\n2,6,,\n", {"missing_fields": "null"}, {"new": "bigint"}),
        (b'1,5\n2,"x"y,\n3,6,\n', {"missing_fields": "null"}, {"new": "bigint"}),
        (b"1,5\n2,6,x\n", {}, {"new": "bigint", "opt": "string"}),
        (b"1,5\n", {}, {}),
        (b"1,5,2026-11-23", {}, {"new": "bigint", "opt": "date"}),
        (b'1,5,"x\ny"\r\n2,6,"2026"', {}, {"new": "bigint", "opt": "string"}),
        (b"1,\xe9,\n2,5,\n", {}, {"new": "bigint"}),
        (b"1,\xe9,\n", {}, {"new": "string"}),
        (b'1,"",\n', {}, {"new": "string"}),
        (b"1,5,\n\n2,6,\n", {"blank_lines": "skip"}, {"new": "bigint"}),
    ],
)
def test_records_of_csv_are_read_as_by_the_writer(text: bytes, options: Any, types: dict[str, str]) -> None:
    assert of_csv("id, New ,opt", text, **options) == types


def test_names_of_csv_that_no_column_can_have_are_named() -> None:
    assert of_csv("id,,new,NEW", b"1,,,\n") == {}
    with pytest.raises(ConfigurationError, match=r"'a\.csv' has values for a field named ''"):
        of_csv("id,", b"1,x\n")
    with pytest.raises(ConfigurationError, match=r"'a\.csv' names 'new' twice"):
        of_csv("id,new,NEW", b"1,x,\n")
