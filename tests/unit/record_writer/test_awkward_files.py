"""Files in the forms that programs write (tests/data/records), and the options with which they can be read."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import CsvWriter, StrictDelimitedInputWriter, StrictJsonWriter, StrictRegexWriter
from tests.unit.record_writer.writing import parse_all, rows_of, schema_of

FILES = Path(__file__).parents[2] / "data" / "records"
NGINX = (
    r'(?<host>\S+) - (?<login>\S+) \[(?<at>[^\]]+)\] "(?<request>[^"]*)" (?<status>\d+) (?<size>\d+) '
    r'"(?<referer>[^"]*)" "(?<agent>[^"]*)"'
)


def rows(writer: Any, file: str, /, **columns: str) -> list[dict[str, Any]]:
    return rows_of(writer, schema_of(None, **columns), FILES / file)


def test_a_csv_file_of_excel():
    types = {"order no": "string", "customer": "string", "note": "string", "amount": "decimal(10,2)"}
    found = rows(CsvWriter(), "excel_utf8.csv", **types, paid="boolean", date="date")
    assert found[0] == {
        "order no": "0001",
        "customer": "Müller, Söhne & Co.",
        "note": 'Deliver to "Dock 3"\nring twice',
        "amount": Decimal("1234.50"),
        "paid": True,
        "date": dt.date(2024, 2, 29),
    }
    assert [row["note"] for row in found[1:]] == [None, '5" pipe', '5" pipe']
    assert [row["customer"] for row in found[1:3]] == ["Ångström AB", "株式会社"]


def test_a_csv_file_with_semicolons_and_german_dates():
    writer = CsvWriter(field_delimiter=";", timestamp_formats=["d.M.yyyy H:mm"])
    schema = {"artikel": "string", "preis": "string", "bestand": "int", "geändert am": "timestamp"}
    assert rows(writer, "excel_semicolon.csv", **schema) == [
        {"artikel": "Schraube M4", "preis": "0,12", "bestand": 1500, "geändert am": dt.datetime(2024, 2, 29, 23, 59)},
        {
            "artikel": "Mutter; verzinkt",
            "preis": "1.234,50",
            "bestand": None,
            "geändert am": dt.datetime(2024, 3, 1, 8, 5),
        },
    ]


@pytest.mark.parametrize("coerce", ["strict", "lossless"])
def test_decimal_commas_are_not_guessed(coerce):
    writer = CsvWriter(field_delimiter=";", missing_columns="null", coerce=coerce)
    with pytest.raises(SerializationError, match="column 'preis': '0,12' is not a decimal number"):
        rows(writer, "excel_semicolon.csv", preis="decimal(10,2)")


def test_a_file_that_is_not_utf8_has_bad_records_and_no_wrong_letters():
    [parsed] = parse_all(
        CsvWriter(on_error="skip"), schema_of(id="int", name="string"), FILES / "excel_windows1252.csv"
    )
    assert parsed.batch.to_pylist() == [{"id": 1, "name": "Anna"}]
    assert [bad.data for bad in parsed.bad_records] == [b"2,J\xfcrgen", b"3,Zo\xeb"]
    assert "not UTF-8" in parsed.bad_records[0].reason


def test_a_copy_of_postgresql():
    writer = CsvWriter(coerce="lossless", timestamp_formats=["iso8601"], timezone="UTC")
    columns = {"id": "bigint", "active": "boolean", "name": "string", "note": "string", "created_at": "timestamp"}
    first, second, third = rows(writer, "postgresql_copy.csv", **columns, ratio="double", tags="string")
    assert str(first.pop("created_at")) == "2024-02-29 11:34:56.789000"
    assert first == {"id": 1, "active": True, "name": "Alice", "note": None, "ratio": 0.1, "tags": "{a,b}"}
    assert (second["name"], second["note"], math.isnan(second["ratio"])) == ('O\'Brien, "Bob"', "", True)
    assert (third["active"], third["name"], third["note"], third["ratio"]) == (None, "line 1\nline 2", "\\N", math.inf)
    with pytest.raises(SerializationError, match="column 'active': 't' is neither true nor false"):
        rows(CsvWriter(missing_columns="null"), "postgresql_copy.csv", id="bigint", active="boolean")


def test_a_csv_file_of_pandas():
    columns = {"user": "int", "score": "double", "ok": "boolean", "at": "timestamp", "text": "string"}
    found = rows(CsvWriter(coerce="lossless"), "pandas.csv", **columns)
    assert [row["user"] for row in found] == [1, None, 3]
    assert [row["score"] for row in found] == [0.1, None, 1e-7]
    assert [str(row["at"]) for row in found] == ["2024-02-29 12:00:00", "2024-02-29 12:00:00.500000", "None"]
    assert [row["text"] for row in found] == ["a,b", None, 'say "hi"']
    with pytest.raises(SerializationError, match=r"column 'user': '1\.0' is not a whole number"):
        rows(CsvWriter(), "pandas.csv", **columns)


def test_an_access_log_of_nginx():
    writer = StrictRegexWriter(
        regex=NGINX, null_values=["-"], timestamp_formats=["dd/MMM/yyyy:HH:mm:ss Z"], timezone="Europe/Berlin"
    )
    columns = {"host": "string", "login": "string", "at": "timestamp", "request": "string", "status": "int"}
    found = rows(writer, "nginx_combined.log", **columns, size="bigint", referer="string", agent="string")
    assert [row["status"] for row in found] == [200, 302, 400, 499]
    assert [row["login"] for row in found] == [None, "alice", None, None]
    assert [str(row["at"]) for row in found[:2]] == ["2024-02-29 23:59:59", "2024-03-01 00:00:00"]
    assert found[2]["request"] == "\\x16\\x03\\x01\\x02"
    assert found[3]["agent"] == "Mozilla/5.0 (compatible; “bot”/1.0)"


EVENTS = {"id": "bigint", "kind": "string", "user": "struct<name:string,age:int>", "tags": "array<string>"}


def test_json_lines_of_web_clients():
    writer = StrictJsonWriter(coerce="lossless", timestamp_formats=["iso8601", "millis"], timezone="Europe/Berlin")
    found = rows(writer, "events.jsonl", **EVENTS, at="timestamp")
    assert [row["id"] for row in found] == [9007199254740993, 9223372036854775807, -1]
    assert [row["user"] for row in found] == [{"name": "Zoë 😀", "age": 41}, None, {"name": "日本", "age": None}]
    assert found[2]["kind"] == 'tab\there "quoted" \\ back/slash\x00'
    assert [str(row["at"]) for row in found] == [
        "2024-02-29 23:59:59.123000",
        "2024-02-29 22:59:59",
        "2024-02-29 23:59:59.123000",
    ]


def test_json_lines_of_web_clients_are_refused_without_options():
    [parsed] = parse_all(StrictJsonWriter(on_error="skip"), schema_of(None, **EVENTS), FILES / "events.jsonl")
    assert [bad.reason for bad in parsed.bad_records] == [
        "column 'id': '9007199254740993' is a string, bigint requires a JSON number"
    ]


def test_json_of_spark():
    writer = StrictJsonWriter(timestamp_formats=["iso8601"], timezone="UTC")
    columns = {"id": "int", "name": "string", "price": "decimal(5,2)", "day": "date", "at": "timestamp"}
    found = rows(writer, "spark_json.jsonl", **columns, map="map<string,int>", nested="struct<list:array<int>>")
    assert [row["price"] for row in found] == [Decimal("1.50"), None, Decimal("100.00")]
    assert [row["name"] for row in found] == ["a", None, ""]
    assert [row["map"] for row in found] == [[("k", 1)], [], None]
    assert [row["nested"] for row in found] == [{"list": [1, 2]}, None, {"list": None}]


def test_text_that_hive_exported():
    writer = StrictDelimitedInputWriter(field_delimiter="\x01")
    types = {
        "id": "int",
        "name": "string",
        "tags": "array<string>",
        "counts": "map<string,int>",
        "price": "decimal(5,2)",
    }
    assert rows(writer, "hive_text_export.txt", **types) == [
        {"id": 1, "name": "Alice", "tags": ["a", "b"], "counts": [("k", 1), ("l", None)], "price": Decimal("1.50")},
        {"id": 2, "name": None, "tags": None, "counts": [], "price": None},
        {"id": 3, "name": "", "tags": [], "counts": [("x", -5)], "price": Decimal("-999.99")},
    ]


def test_every_file_is_described():
    text = (FILES / "README.md").read_text()
    assert [name for name in sorted(path.name for path in FILES.iterdir()) if f"`{name}`" not in text] == ["README.md"]
