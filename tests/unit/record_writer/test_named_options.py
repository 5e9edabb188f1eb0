"""The error for a value names the option that would accept it, and no option where none would."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import CsvWriter, StrictDelimitedInputWriter, StrictJsonWriter
from tests.unit.record_writer.writing import rows_of, schema_of

LOSSLESS = {"coerce": "lossless"}


def error_of(writer: Any, type_: str, record: str) -> str:
    with pytest.raises(SerializationError) as caught:
        rows_of(writer, schema_of(v=type_), [record])
    return str(caught.value)


@pytest.mark.parametrize(
    ("type_", "text", "option"),
    [
        ("int", "7.0", LOSSLESS),
        ("boolean", "t", LOSSLESS),
        ("double", " 1.5", LOSSLESS),
        ("date", "2024-2-9", LOSSLESS),
        ("timestamp", "2024-02-29", {"timestamp_formats": ["date"]}),
        ("binary", "YWI", LOSSLESS),
        ("date", "29.02.2024", {"date_formats": ["dd.MM.yyyy"]}),
        ("date", "2/29/2024", {"date_formats": ["M/d/yyyy"]}),
        ("decimal(5,2)", "12,50", {"decimal_point": ","}),
        ("double", "-0,5", {"decimal_point": ","}),
    ],
)
def test_a_text_that_an_option_accepts(type_: str, text: str, option: dict[str, Any]) -> None:
    error = error_of(StrictDelimitedInputWriter(field_delimiter="|"), type_, text)
    assert "; to accept it, " in error
    [name] = option
    assert name in error
    csv: dict[str, Any] = {"header": False, "field_delimiter": "|"}
    assert error_of(CsvWriter(**csv), type_, text) == error
    assert rows_of(CsvWriter(**csv, **option), schema_of(v=type_), [text])


@pytest.mark.parametrize(
    ("type_", "value"), [("int", "7"), ("int", 7.0), ("boolean", "true"), ("string", 12), ("date", "2024-2-9")]
)
def test_a_json_value_that_coercion_accepts(type_: str, value: object) -> None:
    record = json.dumps({"v": value})
    assert "; to accept it, set coerce='lossless'. " in error_of(StrictJsonWriter(), type_, record)
    assert rows_of(StrictJsonWriter(coerce="lossless"), schema_of(v=type_), [record])


@pytest.mark.parametrize(
    ("type_", "text"), [("int", "1.5"), ("int", "x"), ("boolean", "yes"), ("date", "2024-02-30"), ("double", "1.234,5")]
)
def test_a_text_that_no_option_accepts(type_: str, text: str) -> None:
    assert "to accept it" not in error_of(StrictDelimitedInputWriter(field_delimiter="|"), type_, text)
    assert "to accept it" not in error_of(StrictJsonWriter(), type_, json.dumps({"v": text}))


def test_a_value_that_lossless_refuses_has_no_advice() -> None:
    assert "to accept it" not in error_of(StrictDelimitedInputWriter(coerce="lossless"), "int", "1.5")
