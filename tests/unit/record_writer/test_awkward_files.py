"""Files in the forms that programs write (tests/data/records), and the options with which they can be read."""

from __future__ import annotations

import datetime as dt
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


POSTGRESQL = {
    "id": "bigint",
    "active": "boolean",
    "name": "string",
    "note": "string",
    "created_at": "timestamp",
    "ratio": "double",
    "tags": "string",
    "price": "decimal(10,2)",
    "data": "string",
    "doc": "string",
}
POSTGRESQL_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "active": True,
        "name": "Alice",
        "note": None,
        "created_at": "2024-02-29 11:34:56.789000",
        "ratio": "0.1",
        "tags": "{a,b}",
        "price": Decimal("1234.50"),
        "data": "\\x00ff",
        "doc": '{"a": "x, \\"y\\""}',
    },
    {
        "id": 2,
        "active": False,
        "name": 'O\'Brien, "Bob"',
        "note": "",
        "created_at": "1999-12-31 23:59:59",
        "ratio": "nan",
        "tags": "{}",
        "price": Decimal("-0.05"),
        "data": "\\x",
        "doc": "[1, null]",
    },
    {
        "id": 3,
        "active": None,
        "name": "line 1\nline 2",
        "note": "\\N",
        "created_at": "2024-07-01 00:00:00.000001",
        "ratio": "inf",
        "tags": '{"x y",NULL}',
        "price": None,
        "data": None,
        "doc": None,
    },
]


def test_a_copy_of_postgresql():
    options: dict[str, Any] = {"coerce": "lossless", "timestamp_formats": ["iso8601"], "timezone": "UTC"}
    text = StrictDelimitedInputWriter(field_delimiter="\t", escape="\\", **options)
    for writer, file in ((CsvWriter(**options), "postgresql_copy.csv"), (text, "postgresql_copy.txt")):
        found = rows(writer, file, **POSTGRESQL)
        shown = [row | {"created_at": str(row["created_at"]), "ratio": str(row["ratio"])} for row in found]
        assert shown == POSTGRESQL_ROWS, file
    with pytest.raises(SerializationError, match="column 'active': 't' is neither true nor false"):
        rows(CsvWriter(missing_columns="null"), "postgresql_copy.csv", id="bigint", active="boolean")


@pytest.mark.parametrize("file", ["mariadb_outfile.csv", "mariadb_outfile.tsv"])
def test_an_outfile_of_mariadb(file):
    layout: dict[str, Any] = {"field_delimiter": "\t", "quote": None} if file.endswith("tsv") else {}
    writer = CsvWriter(header=False, escape="\\", null_values=["\\N"], coerce="lossless", **layout)
    columns = {"id": "int", "name": "string", "note": "string", "price": "decimal(10,2)", "at": "timestamp"}
    first, second, third = rows(writer, file, **columns, flag="boolean")
    assert str(first.pop("at")) == "2024-02-29 23:59:59.123456"
    assert first == {"id": 1, "name": 'Zoë, "Z"', "note": None, "price": Decimal("12.50"), "flag": True}
    assert (second["name"], second["note"], second["flag"]) == ("back\\slash", "two\nlines\tand a tab", False)
    assert list(third.values()) == [3, "", "NULL", None, None, None]


def test_open_data_whose_texts_look_like_nulls():
    columns = {"id": "int", "code": "string", "name": "string", "continent": "string", "keywords": "string"}
    found = {row["code"]: row for row in rows(CsvWriter(), "ourairports_countries.csv", **columns)}
    assert (found["NA"]["name"], found["CW"]["continent"]) == ("Namibia", "NA")
    assert (found["NA"]["keywords"], found["JP"]["keywords"]) == (None, "Nippon, 日本の空港")
    assert found["CI"]["name"] == "Côte d'Ivoire"
    assert found["AE"]["keywords"].startswith("UAE,مطارات")


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
    assert [row["status"] for row in found] == [200, 200, 400, 499, 404, 404]
    assert [row["login"] for row in found] == [None, "alice", None, None, None, None]
    assert [str(row["at"]) for row in found[2:4]] == ["2026-11-24 07:52:51", "2026-11-24 07:52:52"]
    assert found[1]["host"] == "2001:db8::1"
    assert found[2]["request"] == r"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03"
    assert found[3]["agent"] == r"Mozilla/5.0 (compatible; \xE2\x80\x9Cbot\xE2\x80\x9D/1.0)"
    assert found[4]["agent"] == r"sqlmap/1.8 \x22x\x5Cy\x22"


def test_the_log_of_dpkg_with_lines_of_several_forms():
    writer = StrictRegexWriter(
        regex=r"(?<at>\S+ \S+) (?<action>status|\w+)(?: (?<state>(?<=status )\S+))? (?<package>\S+)"
        r"(?: (?<version>\S+))?(?: (?<new>\S+))?",
        null_values=["<none>"],
    )
    columns = {"at": "timestamp", "action": "string", "state": "string", "package": "string", "version": "string"}
    found = rows(writer, "dpkg.log", **columns, new="string")
    assert (found[0]["action"], found[0]["package"], found[0]["version"]) == ("startup", "archives", "unpack")
    upgrade = found[1]
    assert (upgrade["package"], upgrade["new"]) == ("libsystemd0:amd64", "252.38-1~deb12u1")
    assert {row["state"] for row in found if row["action"] == "status"} >= {"half-configured", "unpacked", "installed"}
    assert [row["new"] for row in found if row["action"] == "configure"] == [None]


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
        "column 'id': '9007199254740993' is a string, bigint requires a JSON number; "
        "to accept it, set coerce='lossless'"
    ]


SPARK = {"id": "int", "name": "string", "price": "decimal(5,2)", "day": "date", "at": "timestamp", "ratio": "double"}


def test_json_of_spark():
    writer = StrictJsonWriter(timestamp_formats=["iso8601"], timezone="UTC", coerce="lossless")
    found = rows(writer, "spark_json.jsonl", **SPARK, map="map<string,int>", nested="struct<list:array<int>>")
    assert [row["price"] for row in found] == [Decimal("1.50"), None, Decimal("100.00")]
    assert [row["name"] for row in found] == ["a", None, ""]
    assert [row["map"] for row in found] == [[("k", 1)], [], None]
    assert [row["nested"] for row in found] == [{"list": [1, 2]}, None, {"list": None}]
    assert [str(row["ratio"]) for row in found] == ["nan", "1e-07", "-inf"]
    with pytest.raises(SerializationError, match="column 'ratio': 'NaN' is a string"):
        rows(StrictJsonWriter(), "spark_json.jsonl", id="int", ratio="double")


def test_csv_of_spark():
    writer = CsvWriter(timestamp_formats=["iso8601"], timezone="UTC")
    found = rows(writer, "spark_csv.csv", **SPARK)
    assert [str(row["at"]) for row in found] == ["2024-02-29 11:34:56.789000", "None", "2024-06-30 22:00:00"]
    assert [row["name"] for row in found] == ["a", None, ""]
    assert [str(row["ratio"]) for row in found] == ["nan", "1e-07", "-inf"]


def test_text_that_hive_exported():
    writer = StrictDelimitedInputWriter(field_delimiter="\x01", coerce="lossless")
    types = {
        "id": "int",
        "name": "string",
        "tags": "array<string>",
        "counts": "map<string,int>",
        "price": "decimal(5,2)",
        "place": "struct<x:int,y:array<string>>",
        "at": "timestamp",
        "data": "binary",
    }
    first, second, third = rows(writer, "hive_text_export.txt", **types)
    assert str(first.pop("at")) == "2024-02-29 23:59:59.500000"
    assert first == {
        "id": 1,
        "name": "Alice",
        "tags": ["a", "b"],
        "counts": [("k", 1), ("l", None)],
        "price": Decimal("1.50"),
        "place": {"x": 1, "y": ["p", "q"]},
        "data": b"\x00\xff",
    }
    assert set(second.values()) == {2, None}
    assert (third["name"], third["tags"], third["counts"]) == ("", [], [("x", -5)])
    assert (third["price"], third["place"]) == (Decimal("-999.99"), {"x": None, "y": ["ü"]})
    assert third["data"] == b""
    with pytest.raises(SerializationError, match="'AP8' is not base64, as binary requires; to accept it, set coerce="):
        rows(StrictDelimitedInputWriter(field_delimiter="\x01"), "hive_text_export.txt", **types)


def test_every_file_is_described():
    text = (FILES / "README.md").read_text()
    assert [name for name in sorted(path.name for path in FILES.iterdir()) if f"`{name}`" not in text] == ["README.md"]
