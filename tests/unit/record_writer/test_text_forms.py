"""Numbers with a decimal comma in text, and dates by patterns in text and JSON."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.model import Column
from hive_ingest.record_writer import (
    CsvWriter,
    MappingWriter,
    RecordSchema,
    RecordWriter,
    StrictDelimitedInputWriter,
    StrictJsonWriter,
    StrictRegexWriter,
)
from hive_ingest.record_writer.csv.fields import CsvRows
from hive_ingest.record_writer.json.records import JsonRecords
from tests.unit.record_writer.writing import rows_of, schema_of

#: So many records are parsed in one call.
MANY = 50
NUMBERS = schema_of(id="int", price="decimal(10,2)", share="double", ratio="float")


def outcome(type_: str, text: str, count: int, **options: Any) -> Any:
    """The value of a field, or its error, when `count` records have it."""
    writer = CsvWriter(field_delimiter=";", **options)
    try:
        rows = rows_of(writer, schema_of(id="int", value=type_), "id;value\n" + f"1;{text}\n" * count)
    except SerializationError as error:
        return "bad: " + str(error).partition("'value': ")[2]
    assert len(rows) == count
    return rows[0]["value"]


@pytest.mark.parametrize("count", [1, MANY])
def test_numbers_may_have_a_decimal_comma(count: int) -> None:
    text = "id;price;share;ratio\n" + '1;12,50;-0,25;"1,5e3"\r\n2;;7;,5\n' * count
    rows = rows_of(CsvWriter(field_delimiter=";", decimal_point=","), NUMBERS, text)
    assert (
        rows
        == [
            {"id": 1, "price": Decimal("12.50"), "share": -0.25, "ratio": 1500.0},
            {"id": 2, "price": None, "share": 7.0, "ratio": 0.5},
        ]
        * count
    )


@pytest.mark.parametrize("count", [1, MANY])
def test_a_decimal_comma_in_quotes_may_be_the_delimiter_too(count: int) -> None:
    rows = rows_of(
        CsvWriter(decimal_point=","), schema_of(id="int", price="double"), "id,price\n" + '1,"2,5"\n' * count
    )
    assert rows == [{"id": 1, "price": 2.5}] * count


@pytest.mark.parametrize("coerce", ["strict", "lossless"])
@pytest.mark.parametrize("type_", ["decimal(10,2)", "double", "float", "int", "bigint"])
@pytest.mark.parametrize(
    "text",
    ["1.5", "1.234,50", "1,2,3", "1,", ",5", "+1,5", " 1,5 ", "1,0", "12", "0x1,8", "1 234,5", "1,234", "NaN", "x"],
)
def test_many_records_have_the_values_of_one(type_: str, text: str, coerce: str) -> None:
    one, many = (outcome(type_, text, count, decimal_point=",", coerce=coerce) for count in (1, MANY))
    assert repr(one) == repr(many)
    # A number with a decimal comma is the number that a point makes, and nothing else is one.
    swapped = outcome(type_, text.translate(str.maketrans(",.", ".,")), 1, coerce=coerce)
    assert repr(one) == repr(swapped) or (str(one).startswith("bad: ") and str(swapped).startswith("bad: "))


@pytest.mark.parametrize("count", [1, MANY])
def test_separators_of_thousands_are_bad_and_the_error_says_why(count: int) -> None:
    thousands = outcome("decimal(10,2)", "1.234,50", count, decimal_point=",")
    assert "'1.234,50' has a '.', and decimal_point is ','" in thousands
    digits = outcome("decimal(10,2)", "1,505", count, decimal_point=",")
    assert "'1,505' with decimal_point=',': '1.505' does not fit decimal(10,2) without rounding" in digits


@pytest.mark.parametrize("count", [1, MANY])
def test_dates_may_have_the_named_patterns(count: int) -> None:
    schema = schema_of({"day": "date"}, id="int", born="date")
    text = "id;born;day\n" + '1;01.02.0956;31.12.2025\n2;;"1. 2. 2026"\n' * count
    writer = CsvWriter(field_delimiter=";", date_formats=["dd.MM.yyyy", "d. M. yyyy"])
    assert (
        rows_of(writer, schema, text)
        == [
            {"id": 1, "born": dt.date(956, 2, 1), "day": dt.date(2025, 12, 31)},
            {"id": 2, "born": None, "day": dt.date(2026, 2, 1)},
        ]
        * count
    )


def json_outcome(text: str, count: int, **options: Any) -> Any:
    """The value of a date in JSON, or its error, when `count` records have it."""
    line = json.dumps({"value": text, "id": 1}) + "\n"
    try:
        rows = rows_of(StrictJsonWriter(**options), schema_of(id="int", value="date"), line * count)
    except SerializationError as error:
        return "bad: " + str(error).partition("'value': ")[2]
    assert len(rows) == count
    return rows[0]["value"]


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize(
    ("text", "strict", "lossless", "hive"),
    [
        ("29.02.2024", dt.date(2024, 2, 29), dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
        ("29.02.2023", "day is out of range", "day is out of range", None),
        (" 29.02.2024 ", "none of the forms", dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
        ("2024-02-29", "none of the forms", "none of the forms", None),
        ("9.2.2024", "none of the forms", "none of the forms", None),
    ],
)
def test_only_the_named_patterns_are_accepted(text: str, strict: Any, lossless: Any, hive: Any, count: int) -> None:
    for coerce, expected in (("strict", strict), ("lossless", lossless), ("hive", hive)):
        found = outcome("date", text, count, date_formats=["dd.MM.yyyy"], coerce=coerce)
        if isinstance(expected, str):
            assert found.startswith("bad: ")
            assert expected in found
        else:
            assert found == expected
        in_json = json_outcome(text, count, date_formats=["dd.MM.yyyy"], coerce=coerce)
        if found is not None:
            assert in_json == found
        else:  # Hive's SerDe for JSON fails where that for text has null
            assert in_json.startswith("bad: ")


@pytest.mark.parametrize("count", [1, MANY])
def test_dates_anywhere_in_json_may_have_the_named_patterns(count: int) -> None:
    schema = schema_of({"day": "date"}, days="array<date>", stay="struct<since:date>")
    writer = StrictJsonWriter(date_formats=["dd.MM.yyyy", "yyyy-MM-dd"])
    line = '{"day":"31.12.2025","days":["01.02.2026",null,"2026-02-02"],"stay":{"since":"03.02.2026"}}\n'
    days = [dt.date(2026, 2, 1), None, dt.date(2026, 2, 2)]
    expected = {"days": days, "stay": {"since": dt.date(2026, 2, 3)}, "day": dt.date(2025, 12, 31)}
    assert rows_of(writer, schema, line * count) == [expected] * count
    with pytest.raises(SerializationError, match=r"has none of the forms in date_formats="):
        rows_of(writer, schema, line.replace("03.02.2026", "3.2.2026") * count)


@pytest.mark.parametrize("coerce", ["strict", "lossless", "hive"])
def test_keys_of_maps_may_have_the_named_patterns(coerce: Any) -> None:
    schema = schema_of(seen="map<date,int>")
    writer = StrictJsonWriter(date_formats=["dd.MM.yyyy"], coerce=coerce)
    assert rows_of(writer, schema, '{"seen":{"01.02.2026":1}}\n') == [{"seen": [(dt.date(2026, 2, 1), 1)]}]
    with pytest.raises(SerializationError, match="none of the forms"):
        rows_of(writer, schema, '{"seen":{"2026-02-01":1}}\n')


def test_json_with_such_dates_is_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: JsonRecords, record: bytes) -> None:
        raise AssertionError(f"read by itself: {record!r}")

    monkeypatch.setattr(JsonRecords, "row", refuse)
    line = '{"id":1,"day":"01.02.2026"}\n{"id":2}\n'
    rows = rows_of(StrictJsonWriter(date_formats=["dd.MM.yyyy"]), schema_of(id="int", day="date"), line * MANY)
    assert rows == [{"id": 1, "day": dt.date(2026, 2, 1)}, {"id": 2, "day": None}] * MANY


def test_mappings_may_have_the_named_patterns() -> None:
    writer = MappingWriter(lambda day: {"day": day}, date_formats=["dd.MM.yyyy", "yyyy-MM-dd"])
    days = ["01.02.2026", dt.date(2026, 2, 1)]
    assert rows_of(writer, schema_of(day="date"), days) == [{"day": dt.date(2026, 2, 1)}] * 2


def test_a_number_of_json_is_no_date() -> None:
    with pytest.raises(SerializationError, match="is a number, date requires a JSON string"):
        rows_of(StrictJsonWriter(date_formats=["yyyyMMdd"]), schema_of(day="date"), '{"day":20260201}\n')


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize(
    "writer",
    [
        StrictDelimitedInputWriter(field_delimiter=";", decimal_point=",", date_formats=["dd.MM.yyyy"]),
        StrictRegexWriter(regex="([^;]*);([^;]*);([^;]*)", decimal_point=",", date_formats=["dd.MM.yyyy"]),
    ],
)
def test_lines_may_have_these_forms_too(writer: RecordWriter, count: int) -> None:
    schema = schema_of(price="decimal(10,2)", share="double", day="date")
    assert (
        rows_of(writer, schema, "12,50;0,5;01.02.2026\n" * count)
        == [{"price": Decimal("12.50"), "share": 0.5, "day": dt.date(2026, 2, 1)}] * count
    )
    for bad in ("12.50;0,5;01.02.2026\n", "12,50;0.5;01.02.2026\n", "12,50;0,5;2026-02-01\n"):
        with pytest.raises(SerializationError, match=r"decimal_point|date_formats"):
            rows_of(writer, schema, bad * count)


def test_nested_values_of_delimited_text_have_these_forms_too() -> None:
    schema = schema_of(prices="array<double>", days="array<date>")
    writer = StrictDelimitedInputWriter(
        field_delimiter=";", collection_delimiter="|", decimal_point=",", date_formats=["dd.MM.yyyy"]
    )
    assert rows_of(writer, schema, "1,5|2;01.02.2026\n") == [{"prices": [1.5, 2.0], "days": [dt.date(2026, 2, 1)]}]


def test_the_delimiter_of_text_without_quotes_is_no_decimal_point() -> None:
    with pytest.raises(ConfigurationError, match="decimal_point=',' is the field_delimiter too"):
        StrictDelimitedInputWriter(decimal_point=",")
    dotted = StrictDelimitedInputWriter(field_delimiter=".")
    assert rows_of(dotted, schema_of(id="int", day="date"), "1.2026-02-01\n") == [{"id": 1, "day": dt.date(2026, 2, 1)}]


def test_records_are_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: CsvRows, record: bytes) -> None:
        raise AssertionError(f"read by itself: {record!r}")

    monkeypatch.setattr(CsvRows, "row", refuse)
    schema = schema_of(id="int", price="decimal(10,2)", share="double", day="date")
    text = "id;price;share;day\n" + "1;12,50;0,5;01.02.2026\n" * MANY
    writer = CsvWriter(field_delimiter=";", decimal_point=",", date_formats=["dd.MM.yyyy"])
    assert len(rows_of(writer, schema, text)) == MANY
    # Numbers are read as text where a blank is at the edge of a field.
    notes = schema_of(price="decimal(10,2)", share="double", note="string")
    spaced = "price;share;note\n" + "12,50;0,5; a\n" * MANY
    assert rows_of(CsvWriter(field_delimiter=";", decimal_point=",", escape="\\"), notes, spaced)[0]["share"] == 0.5


def test_a_static_date_is_compared_by_its_value() -> None:
    schema = RecordSchema((Column("id", "int"),), static_values=((Column("day", "date"), "2026-02-01"),))
    writer = CsvWriter(date_formats=["dd.MM.yyyy"])
    assert rows_of(writer, schema, "day,id\n01.02.2026,1\n") == [{"id": 1}]
    with pytest.raises(SerializationError, match="contradicts the static partition value"):
        rows_of(CsvWriter(date_formats=["dd.MM.yyyy"]), schema, "day,id\n02.01.2026,1\n")
    json_writer = StrictJsonWriter(date_formats=["dd.MM.yyyy"])
    assert rows_of(json_writer, schema, '{"day":"01.02.2026","id":1}\n') == [{"id": 1}]
    with pytest.raises(SerializationError, match="contradicts the static partition value"):
        rows_of(json_writer, schema, '{"day":"02.01.2026","id":1}\n')


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"decimal_point": ";"}, "decimal_point=';' is not valid: use '.' or ','"),
        (
            {"decimal_point": ",", "quote": ",", "field_delimiter": ";"},
            "decimal_point=',' is the quote too: choose another quote",
        ),
        ({"decimal_point": ",", "coerce": "hive"}, "cannot be combined with coerce='hive'"),
        ({"date_formats": "dd.MM.yyyy"}, "give a list"),
        ({"date_formats": []}, "give a list"),
        ({"date_formats": ["dd.MM.yy"]}, "date_formats: the pattern 'dd.MM.yy' is not valid: a year of two digits"),
        ({"date_formats": ["%d.%m.%Y"]}, "patterns are those of Java, such as yyyy-MM-dd for %Y-%m-%d"),
        ({"date_formats": ["dd.MM.yyyy HH:mm"]}, "a date has no hour"),
        ({"date_formats": ["dd/MM/yyyy", "MM/dd/yyyy"]}, "date_formats: every text that has the form 'MM/dd/yyyy'"),
    ],
)
def test_an_option_without_a_meaning_is_refused_at_once(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        CsvWriter(**options)
    if "date_formats" in options:
        with pytest.raises(ConfigurationError, match=re.escape(why)):
            StrictJsonWriter(**options)
