"""Forms of timestamps beyond the strict one: each gives one value, one by one and in blocks, or says what it lacks."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.model import Table, TableName
from hive_ingest.record_writer import MappingWriter, RecordSchema, StrictDelimitedInputWriter, StrictJsonWriter
from hive_ingest.record_writer.values.timestamp_formats import TimestampFormats
from tests.unit.record_writer.test_records_table import table_with
from tests.unit.record_writer.writing import parse_all, rows_of, schema_of

SCHEMA = schema_of(at="timestamp", id="int")
#: Enough for the reader of whole blocks.
MANY = 100


def json_rows(values: list[Any], **options: Any) -> list[str]:
    lines = b"".join(json.dumps({"at": value, "id": 1}).encode() + b"\n" for value in values)
    return [str(row["at"]) for row in rows_of(StrictJsonWriter(**options), SCHEMA, lines)]


def delimited_rows(values: list[str], **options: Any) -> list[str]:
    lines = "".join(f"{value}|1\n" for value in values)
    writer = StrictDelimitedInputWriter(field_delimiter="|", **options)
    return [str(row["at"]) for row in rows_of(writer, SCHEMA, lines)]


def examples() -> list[tuple[str, str, str]]:
    """(format, text, timestamp) of the table in docs/types.md."""
    found = []
    for row in table_with("Example of a format"):
        names = re.findall(r"`([^`]*)`", row["Format"])
        text, result = re.findall(r"`([^`]*)`", row["Example of a format"] + row["Timestamp"])
        found.append((names[0], text, result))
    return found


def zone_of(example: str) -> dict[str, Any]:
    return {"timestamp_formats": [example], "timezone": "Europe/Berlin"}


@pytest.mark.parametrize(("name", "text", "result"), examples())
@pytest.mark.parametrize("count", [1, MANY])
def test_each_example_of_the_page_is_read(name: str, text: str, result: str, count: int) -> None:
    assert json_rows([text] * count, **zone_of(name)) == [result] * count
    assert delimited_rows([text] * count, **zone_of(name)) == [result] * count


@pytest.mark.parametrize("count", [1, MANY])
def test_json_numbers_are_times_since_1970_in_the_named_unit(count: int) -> None:
    rows = json_rows([1709251199, 1709251199.25] * count, timestamp_formats=["seconds"])
    assert rows == ["2024-02-29 23:59:59", "2024-02-29 23:59:59.250000"] * count
    for formats in (["millis"], ["iso8601", "millis"]):
        assert json_rows([1709251199000] * count, timestamp_formats=formats) == ["2024-02-29 23:59:59"] * count


def test_numbers_and_strings_are_read_whichever_came_before() -> None:
    """The reader of blocks learns from the last block which columns are numbers."""
    writer = StrictJsonWriter(timestamp_formats=["iso8601", "millis"])
    numbers = b'{"at":1709251199000,"id":1}\n' * MANY
    strings = b'{"at":"2024-02-29T23:59:59Z","id":1}\n' * MANY
    mixed = (b'{"at":1709251199000}\n{"at":"2024-02-29T23:59:59Z"}\n{"at":null}\n') * MANY
    parsed = [parse_all(writer, SCHEMA, text)[0].batch for text in (numbers, strings, numbers, mixed)]
    assert [{str(at) for at in batch["at"].to_pylist()} for batch in parsed] == [
        {"2024-02-29 23:59:59"},
        {"2024-02-29 23:59:59"},
        {"2024-02-29 23:59:59"},
        {"2024-02-29 23:59:59", "None"},
    ]


def test_nested_timestamps_have_the_same_forms() -> None:
    schema = schema_of(a="array<timestamp>", s="struct<at:timestamp>", m="map<timestamp,int>")
    line = b'{"a":[1,"2024-02-29T00:00:00Z"],"s":{"at":2},"m":{"3":4}}\n'
    row = rows_of(StrictJsonWriter(timestamp_formats=["iso8601", "seconds"]), schema, line)[0]
    assert [str(at) for at in row["a"]] == ["1970-01-01 00:00:01", "2024-02-29 00:00:00"]
    assert str(row["s"]["at"]) == "1970-01-01 00:00:02"
    assert [(str(key), value) for key, value in row["m"]] == [("1970-01-01 00:00:03", 4)]
    no_map = schema_of(a="array<timestamp>", s="struct<at:timestamp>")
    many = rows_of(
        StrictJsonWriter(timestamp_formats=["seconds"]), no_map, b'{"a":[1,null,2],"s":{"at":2}}\n{"a":[]}\n' * MANY
    )
    assert [str(at) for at in many[0]["a"]] == ["1970-01-01 00:00:01", "None", "1970-01-01 00:00:02"]
    assert str(many[0]["s"]["at"]) == "1970-01-01 00:00:02"


@pytest.mark.parametrize("count", [1, MANY])
def test_nulls_stay_null(count: int) -> None:
    formats = ["yyyyMMdd", "millis"]
    assert json_rows([None, "20240229"] * count, timestamp_formats=formats) == ["None", "2024-02-29 00:00:00"] * count
    assert delimited_rows(["\\N", "20240229"] * count, timestamp_formats=formats)[:2] == ["None", "2024-02-29 00:00:00"]
    assert json_rows([None, 0] * count, timestamp_formats=formats) == ["None", "1970-01-01 00:00:00"] * count


def test_the_wall_clock_is_that_of_the_zone_at_that_time() -> None:
    options = {"timestamp_formats": ["iso8601", "date"], "timezone": "Europe/Berlin"}
    texts = ["2024-01-15T12:00:00Z", "2024-07-15T12:00:00Z", "2024-07-15T12:00:00+02:00", "2024-07-15T12:00:00"]
    texts += ["2024-07-15", "2024-03-31T00:59:59Z", "2024-03-31T01:00:00Z", "2050-07-15T12:00:00Z"]
    walls = ["2024-01-15 13:00:00", "2024-07-15 14:00:00", "2024-07-15 12:00:00", "2024-07-15 12:00:00"]
    walls += ["2024-07-15 00:00:00", "2024-03-31 01:59:59", "2024-03-31 03:00:00", "2050-07-15 14:00:00"]
    assert json_rows(texts, **options) == walls
    assert json_rows(texts * MANY, **options) == walls * MANY


def refusal(value: Any, **options: Any) -> str:
    with pytest.raises(SerializationError) as single:
        json_rows([value], **options)
    with pytest.raises(SerializationError) as many:
        json_rows([value] * MANY, **options)
    assert str(many.value).startswith("record 0 ")
    return str(single.value)


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("2024-02-29T23:59:59Z", "add 'iso8601' to timestamp_formats"),
        ("2024-02-29 23:59", "add 'iso8601' to timestamp_formats"),
        ("2024-02-29", "add 'date' to timestamp_formats"),
        ("Thu, 29 Feb 2024 23:59:59 GMT", "add 'rfc1123' to timestamp_formats"),
        ("1709251199", "add their unit, such as 'millis', to timestamp_formats"),
        (1709251199, "add their unit, such as 'millis', to timestamp_formats"),
        ("29/02/2024", "add its pattern to timestamp_formats"),
    ],
)
def test_a_refused_timestamp_names_the_option_that_accepts_it(value: Any, remedy: str) -> None:
    assert remedy in refusal(value)


def test_only_the_named_forms_are_accepted() -> None:
    message = refusal("2024-02-29 00:00:00", timestamp_formats=["date", "dd/MM/yyyy"])
    assert "has none of the forms in timestamp_formats=['date', 'dd/MM/yyyy']" in message


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("iso8601", "2024-02-30T00:00:00Z", "is not a timestamp"),
        ("iso8601", "2024-02-29T24:00:00Z", "is not a timestamp"),
        ("iso8601", "2024-02-29T00:00:00+19:00", "has none of the forms"),
        ("iso8601", "2262-04-11T23:47:17Z", "is out of range"),
        ("iso8601", "1969-12-31T23:59:59.5Z", "milliseconds before 1970"),
        ("iso8601", "1677-09-21T00:12:43.9Z", "is out of range"),
        ("date", "2263-01-01", "is out of range"),
        ("millis", "-999", "milliseconds before 1970"),
        ("millis", "1e30", "out of range"),
        ("nanos", "0.5", "finer than a nanosecond"),
        ("dd/MM/yyyy", "30/02/2024", "day is out of range"),
        ("dd/MM/yyyy", "2/2/2024", "has none of the forms"),
        ("d/M/yyyy h:mm a", "2/2/2024 13:00 PM", "hour must be in 1..12"),
        ("EEE dd/MM/yyyy", "Fri 29/02/2024", "another day of the week"),
        ("yyyyMMddHHmmss", "20240229236000", "minute must be in 0..59"),
    ],
)
def test_what_no_timestamp_can_be_is_refused(name: str, text: str, why: str) -> None:
    assert why in refusal(text, timestamp_formats=[name])


def test_the_first_form_that_a_text_has_decides() -> None:
    """Were the second one tried for a month of 13, it would be guessed which of two forms a file has."""
    assert "month must be in 1..12" in refusal("2/13/2024", timestamp_formats=["d/M/yyyy", "MM/dd/yyyy"])


@pytest.mark.parametrize(
    ("formats", "why"),
    [
        ([], "give a list"),
        ("iso8601", "give a list"),
        (["seconds", "millis"], "a number cannot be in two units"),
        (["dd/MM/yyyy", "MM/dd/yyyy"], "name only one of them"),
        (["yy-MM-dd"], "two digits is ambiguous"),
        (["%Y-%m-%d"], "patterns are those of Java"),
        (["yyyy-MM"], "it has no day"),
        (["yyyy-MM-dd MM"], "the month occurs twice"),
        (["yyyy-MM-dd hh"], "h needs a"),
        (["yyyyMd"], "their number must be fixed"),
        (["yyyy-MM-dd'T"], "a quote is not closed"),
        (["yyyy-MM-dd[ HH]"], r"\[ is not supported"),
        (["YYYY-MM-dd"], "YYYY is not supported"),
        (["ISO8601"], "is not supported"),
    ],
)
def test_a_format_that_cannot_be_meant_is_refused_at_once(formats: Any, why: str) -> None:
    for writer in (StrictJsonWriter, StrictDelimitedInputWriter):
        with pytest.raises(ConfigurationError, match=why):
            writer(timestamp_formats=formats)


@pytest.mark.parametrize("timezone", ["Nowhere/City", "", "../etc/passwd", "+01:00"])
def test_an_unknown_time_zone_is_refused(timezone: str) -> None:
    with pytest.raises(ConfigurationError, match=r"timezone=.* is not known"):
        StrictJsonWriter(timestamp_formats=["iso8601"], timezone=timezone)


def test_a_time_zone_without_a_format_that_needs_one_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no effect without timestamp_formats"):
        rows_of(StrictJsonWriter(timezone="Europe/Berlin"), SCHEMA, b"{}")


def table_of(formats: str, **changes: Any) -> RecordSchema:
    table = Table(TableName("web", "t"), SCHEMA.columns, properties={"timestamp.formats": formats}, **changes)
    return RecordSchema.of(table)


def test_the_tables_property_names_formats_beside_hives_own() -> None:
    schema = table_of("iso8601,millis,EEE\\, d MMM yyyy")
    assert schema.timestamp_formats == ("iso8601", "millis", "EEE, d MMM yyyy")
    lines = b'{"at":"2024-02-29T23:59:59Z"}\n{"at":"2024-02-29 23:59:59"}\n{"at":"Thu, 29 Feb 2024"}\n{"at":0}\n'
    rows = rows_of(StrictJsonWriter(), schema, lines)
    assert [str(row["at"])[:10] for row in rows] == ["2024-02-29", "2024-02-29", "2024-02-29", "1970-01-01"]
    assert rows_of(StrictDelimitedInputWriter(), schema, "2024-02-29T23:59:59Z,1")[0]["at"] == dt.datetime(
        2024, 2, 29, 23, 59, 59
    )


def test_a_property_of_the_table_takes_precedence_over_one_of_its_serde() -> None:
    serde = {"timestamp.formats": "date"}
    assert table_of("millis", serde_properties=serde).timestamp_formats == ("millis",)
    table = Table(TableName("web", "t"), SCHEMA.columns, serde_properties=serde)
    assert RecordSchema.of(table).timestamp_formats == ("date",)


def test_the_writers_option_takes_precedence_over_the_property() -> None:
    with pytest.raises(SerializationError, match=r"none of the forms in timestamp_formats=\['date'\]"):
        rows_of(StrictJsonWriter(timestamp_formats=["date"]), table_of("iso8601"), b'{"at":"2024-02-29T23:59:59Z"}')


def test_a_property_that_is_not_supported_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"property 'timestamp.formats' cannot be used: .*yy-MM-dd"):
        StrictJsonWriter().bind(table_of("yy-MM-dd"))
    StrictJsonWriter(timestamp_formats=["date"]).bind(table_of("yy-MM-dd"))


def test_mappings_may_have_these_forms_too() -> None:
    writer = MappingWriter(lambda at: {"at": at}, timestamp_formats=["iso8601", "seconds"])
    assert [str(row["at"]) for row in rows_of(writer, SCHEMA, ["2024-02-29T23:59:59Z", 1709251199])] == [
        "2024-02-29 23:59:59"
    ] * 2


def test_hives_own_form_is_the_default() -> None:
    assert TimestampFormats().is_strict
    assert not TimestampFormats(["hive"]).is_strict
    assert json_rows(["2024-02-29T23:59:59.5"], timestamp_formats=["hive"]) == ["2024-02-29 23:59:59.500000"]
