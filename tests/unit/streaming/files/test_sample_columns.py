"""Columns that are inferred from a file hold its records."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from hive_ingest.errors import ConfigurationError, StreamingIOFailure, UnsupportedFeature
from hive_ingest.streaming import infer_columns

CSV = """id,code,price,at,day,ok,note,none,"last, first"
1,007,9.5,2026-11-23 08:30:00,2026-11-23,true,"x
y",,"a, b"
-9223372036854775808,08,1e3,2026-11-23 08:30:00.123456789,0001-01-01,FALSE,,,c
"""
CSV_COLUMNS = {
    "id": "bigint",
    "code": "string",
    "price": "double",
    "at": "timestamp",
    "day": "date",
    "ok": "boolean",
    "note": "string",
    "none": "string",
    "last, first": "string",
}


def test_columns_of_csv_are_those_of_its_header(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    plain.write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    packed.write_bytes(gzip.compress(CSV.encode()))
    assert infer_columns(plain) == infer_columns(packed) == CSV_COLUMNS
    assert list(infer_columns(plain)) == list(CSV_COLUMNS)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "2.5"], "double"),
        (["1", "x"], "string"),
        (["9223372036854775808"], "string"),
        (["+1"], "string"),
        ([" 1"], "string"),
        (["2026-02-30"], "string"),
        (["2026-11-23T08:30:00"], "string"),
        (["2026-11-23 08:30"], "string"),
        (["2600-01-01 00:00:00"], "string"),
        (["t"], "string"),
        (["1", ""], "bigint"),
        (["nan"], "string"),
        (["1e400"], "string"),
        (["True", "false"], "boolean"),
        (["0000-01-01"], "string"),
        (["1", "1.5"], "double"),
    ],
)
def test_a_type_is_inferred_only_if_every_text_is_one_of_it(tmp_path: Path, values: list[str], type_: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{line}\n" for line in ["a,b", *(f"{value},x" for value in values)]))
    assert infer_columns(path)["a"] == type_


def test_the_options_of_csv_are_those_of_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a;b\n1;NULL\n2;'x;y'\n")
    found = infer_columns(path, format="csv", field_delimiter=";", quote="'", null_values=["NULL"])
    assert found == {"a": "bigint", "b": "string"}


GERMAN = """id;preis;anteil;menge;tag;um;notiz
1;12,50;0,5;1.234,5;01.02.2026;01.02.2026 08:30;1,5
2;;1e3;2;31.12.2025;;1.5
"""


def test_columns_have_the_forms_of_the_options(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(GERMAN)
    found = infer_columns(
        path,
        field_delimiter=";",
        decimal_point=",",
        date_formats=["yyyy-MM-dd", "dd.MM.yyyy"],
        timestamp_formats=["dd.MM.yyyy HH:mm"],
    )
    assert found == {
        "id": "bigint",
        "preis": "double",
        "anteil": "double",
        "menge": "string",
        "tag": "date",
        "um": "timestamp",
        "notiz": "string",
    }
    assert set(infer_columns(path, field_delimiter=";").values()) == {"bigint", "string"}


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["01.02.2026", "31.04.2026"], "string"),
        (["2026-02-01"], "string"),
        (["0956-02-01 x"], "string"),
        (["20260201"], "bigint"),
    ],
)
def test_with_patterns_a_date_has_one_of_them(tmp_path: Path, texts: list[str], type_: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{line}\n" for line in ["a,b", *(f"{text},x" for text in texts)]))
    assert infer_columns(path, date_formats=["dd.MM.yyyy", "yyyyMMdd"])["a"] == type_


def test_strings_of_json_have_these_forms_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"day":"01.02.2026","at":"2026-02-01T08:30:00Z","n":1}\n')
    found = infer_columns(path, date_formats=["dd.MM.yyyy"], timestamp_formats=["iso8601", "millis"], timezone="UTC")
    assert found == {"day": "date", "at": "timestamp", "n": "bigint"}


def test_columns_of_json_are_the_keys_of_its_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"Id": 1, "price": 2, "at": "2026-11-23 08:30:00", "iso": "2026-11-23T08:30:00Z", "none": null}\n'
        '{"id2": "7", "price": 2.5, "o": {"a": 1, "when": "2026-11-23 08:30:00", "l": ["2026-11-23 08:30:00"]}}\n'
        '{"day": "2026-11-23", "empty": []}\n'
    )
    assert infer_columns(path) == {
        "id": "bigint",
        "price": "double",
        "at": "timestamp",
        "iso": "string",
        "none": "string",
        "id2": "string",
        "o": "struct<a:bigint,when:string,l:array<string>>",
        "day": "date",
        "empty": "array<string>",
    }


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["12345678901234567890", "-1"], "decimal(38,0)"),
        (["12345678901234567890", "1.5"], "double"),
        (["1e40"], "double"),
        (["9223372036854775807"], "bigint"),
    ],
)
def test_whole_numbers_of_json_keep_their_digits(tmp_path: Path, values: list[str], type_: str) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join(f'{{"x": 1.5, "id": {value}, "s": "a"}}\n' for value in values))
    assert infer_columns(path) == {"x": "double", "id": type_, "s": "string"}


def test_names_in_a_header_match_without_the_blanks_around_them(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id, name ,last name\n1,a,b\n")
    assert list(infer_columns(path)) == ["id", "name", "last name"]


def test_another_delimiter_is_suspected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id;name\n1;a\n")
    assert infer_columns(path) == {"id;name": "string"}
    assert "is ';' the delimiter of its fields, not ','?" in caplog.text


def test_a_text_that_makes_a_column_of_other_values_a_string_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{i},50;{i % 28 + 1:02}.11.2026;x{i};{i:03}" for i in range(30)]
    lines[20] = "n/a;31.02.2026;x;020"
    path.write_text("amount;day;name;code\n" + "".join(f"{line}\n" for line in lines))
    options: dict[str, Any] = {"field_delimiter": ";", "decimal_point": ",", "date_formats": ["dd.MM.yyyy"]}
    assert set(infer_columns(path, **options).values()) == {"string"}
    assert [record.getMessage().partition(": ")[2].partition(", while")[0] for record in caplog.records] == [
        "column 'amount' is a string because of 'n/a'",
        "column 'day' is a string because of '31.02.2026'",
    ]
    caplog.clear()
    infer_columns(path, types={"amount": "decimal(5,2)", "DAY": "date"}, **options)
    assert not caplog.records


def test_an_index_of_pandas_without_a_name_is_no_column_and_nulls_alone_are_strings(tmp_path: Path) -> None:
    table = pa.table({"a": [1], "n": pa.nulls(1), "__index_level_0__": [7]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert infer_columns(tmp_path / "a.parquet") == {"a": "bigint", "n": "string"}


def test_only_the_sample_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n2\nx\n")
    assert infer_columns(path, sample_records=2) == {"a": "bigint"}
    assert infer_columns(path) == {"a": "string"}


def test_parquet_and_orc_have_types(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([1], pa.int32()), "price": pa.array([None], pa.decimal128(10, 2))})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    pyarrow.orc.write_table(table, tmp_path / "a.orc")
    expected = {"id": "int", "price": "decimal(10,2)"}
    assert infer_columns(tmp_path / "a.parquet") == infer_columns(tmp_path / "a.orc") == expected


def test_types_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"at": pa.array([0], pa.timestamp("us", "UTC")), "n": pa.array([1])}), path)
    with pytest.raises(UnsupportedFeature, match="column 'at'"):
        infer_columns(path)
    assert infer_columns(path, types={"at": "timestamp", "N": "int"}) == {"at": "timestamp", "n": "int"}


@pytest.mark.parametrize(
    ("name", "content", "options", "error", "why"),
    [
        ("a.txt", "a\n", {}, ConfigurationError, "does not say what it is"),
        ("a.csv", "", {}, ConfigurationError, "is empty"),
        ("a.csv", "a,b\n1\n", {}, ConfigurationError, "as csv"),
        ("a.csv", "a,b\n", {}, ConfigurationError, "a header, but no records"),
        ("a.csv", "a,b,a\n1,2,3\n", {}, ConfigurationError, "2 columns named 'a'"),
        ("a.csv", "a,b, A\n1,2,3\n", {}, ConfigurationError, "2 columns named 'a'"),
        ("a.json", '{"a": 1}\n{"A": "x"}\n', {}, ConfigurationError, "2 columns named 'a'"),
        ("a.json", '{\n"a": 1}\n', {}, ConfigurationError, "one object with its keys on each line"),
        ("a.json", "{}\n", {}, ConfigurationError, "one object with its keys on each line"),
        ("a.json", "", {}, ConfigurationError, "no records"),
        ("a.json", '{"a": 1}\n{"a": "x"}\n', {}, ConfigurationError, "as json: .*changed from"),
        ("a.json", "[1]\n", {}, ConfigurationError, "is a JSON array: write each of its objects on a line"),
        ("a.json", "1\n", {}, ConfigurationError, "as json"),
        ("a.parquet", "no", {}, StreamingIOFailure, "cannot read"),
        ("a.orc", "no", {}, StreamingIOFailure, "cannot read"),
        ("a.csv", "a\n1\n", {"types": {"b": "int"}}, ConfigurationError, "'b', which the data does not have"),
        ("a.csv", "a\n", {"format": "xml"}, ConfigurationError, "format='xml' is unknown"),
        ("a.csv", "a\n1\n", {"date_formats": ["dd.MM.yy"]}, ConfigurationError, "date_formats: the pattern"),
        ("a.csv", "a\n1\n", {"timezone": "UTC"}, ConfigurationError, "no effect without timestamp_formats"),
        ("a.csv", "a\n1\n", {"decimal_point": ";"}, ConfigurationError, "decimal_point=';' is not valid"),
        ("a.json", "{}\n", {"decimal_point": ","}, ConfigurationError, "decimal_point=',' has no effect with format"),
        ("a.orc", "no", {"date_formats": ["d.M.yyyy"]}, ConfigurationError, "has no effect with format='orc'"),
        ("a.csv", "a\n", {"sample_records": 0}, ConfigurationError, "1 or more"),
        ("a.csv", None, {}, StreamingIOFailure, r"a\.csv"),
    ],
)
def test_a_file_without_columns_is_an_error_that_says_why(
    tmp_path: Path, name: str, content: str | None, options: dict[str, Any], error: type[Exception], why: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(error, match=why):
        infer_columns(tmp_path / name, **options)
