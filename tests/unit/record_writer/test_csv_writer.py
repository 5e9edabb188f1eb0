"""CSV records become rows by their header or by order; a bad one is named, and so is a header."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from hive_ingest.errors import (
    ConfigurationError,
    InvalidTransactionState,
    SerializationError,
    StreamingConnectionError,
    UnsupportedFeature,
)
from hive_ingest.model import Column
from hive_ingest.record_writer import CsvWriter, RecordSchema, RecordWriter
from hive_ingest.record_writer.csv.fields import CsvRows
from tests.unit.record_writer.writing import blocks_of, parse_all, rows_of, schema_of

SCHEMA = schema_of(id="int", user="string", value="double")
ROW = {"id": 1, "user": "a", "value": 0.5}


@pytest.fixture
def no_slow_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that goes the slow way fails the test."""

    def refuse(self: CsvRows, record: bytes) -> None:
        raise AssertionError(f"read by itself: {record!r}")

    monkeypatch.setattr(CsvRows, "row", refuse)


def test_it_is_a_record_writer() -> None:
    assert isinstance(CsvWriter(), RecordWriter)


@pytest.mark.parametrize("count", [1, 50])
def test_fields_follow_the_header_whatever_its_order_and_case(count: int, tmp_path: Path) -> None:
    text = 'VALUE, User ,"Id"\n' + '0.5,"a",1\r\n' * count
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    for given in (text, text.encode(), path, io.BytesIO(text.encode()), io.StringIO(text, newline=""), "\ufeff" + text):
        assert rows_of(CsvWriter(), SCHEMA, given) == [ROW] * count


def test_each_argument_has_its_own_header() -> None:
    arguments = ["id,user,value\n1,a,0.5\n", "value,id,user\n0.5,1,a", "id,user,value\n"]
    assert rows_of(CsvWriter(), SCHEMA, *arguments) == [ROW, ROW]


def test_a_header_may_leave_out_columns_and_name_others_by_option(caplog: pytest.LogCaptureFixture) -> None:
    text = "ID,colour,,\n1,red,,\n"
    with pytest.raises(SerializationError, match=r"lacks 'user', 'value'.*missing_columns='null'"):
        rows_of(CsvWriter(), SCHEMA, text)
    with caplog.at_level(logging.WARNING):
        (parsed,) = parse_all(CsvWriter(missing_columns="null"), SCHEMA, text)
    assert parsed.batch.to_pylist() == [{"id": 1, "user": None, "value": None}]
    assert (parsed.matched_columns, parsed.unknown_fields) == ({"id"}, {"colour", ""})
    assert "field 'colour' of the header matches no column" in caplog.text
    with pytest.raises(SerializationError, match=r"'colour'.*unknown_fields='ignore'"):
        rows_of(CsvWriter(missing_columns="null", unknown_fields="fail"), SCHEMA, text)


def test_a_header_lacks_a_partition_key_only_by_option() -> None:
    schema = schema_of({"country": "string"}, id="int")
    with pytest.raises(SerializationError, match=r"lacks 'country'.*missing_partition_keys='null'"):
        rows_of(CsvWriter(missing_columns="null"), schema, "id\n1\n")
    assert rows_of(CsvWriter(missing_partition_keys="null"), schema, "id\n1\n") == [{"id": 1, "country": None}]


@pytest.mark.parametrize("count", [1, 50])
def test_a_static_partition_key_in_the_header_must_have_the_partitions_value(count: int) -> None:
    schema = RecordSchema((Column("id", "int"),), static_values=((Column("day", "date"), "2024-01-01"),))
    assert rows_of(CsvWriter(), schema, "day,id\n" + "2024-01-01,1\n" * count) == [{"id": 1}] * count
    with pytest.raises(SerializationError, match="contradicts the static partition value"):
        rows_of(CsvWriter(), schema, "day,id\n" + "2024-01-01,1\n" * (count - 1) + "2024-01-02,1\n")


def test_without_a_header_fields_have_the_order_of_the_table_or_of_columns() -> None:
    schema = schema_of({"country": "string"}, id="int", user="string")
    expected = [{"id": 1, "user": "a\nb", "country": "India"}]
    assert rows_of(CsvWriter(header=False), schema, '1,"a\nb",India\n') == expected
    assert rows_of(CsvWriter(header=False), schema, ['1,"a\nb",India']) == expected
    reordered = CsvWriter(header=False, columns=["Country", "id"])
    assert rows_of(reordered, schema, "India,1\n") == [{"id": 1, "user": None, "country": "India"}]
    with pytest.raises(StreamingConnectionError, match="leaves out the partition key 'country'"):
        CsvWriter(header=False, columns=["id"]).bind(schema)
    with pytest.raises(StreamingConnectionError, match="no column colour"):
        CsvWriter(header=False, columns=["colour"]).bind(schema)


@pytest.mark.parametrize("count", [1, 50])
def test_an_empty_field_is_null_and_a_quoted_one_is_not(count: int) -> None:
    schema = schema_of(id="int", user="string")
    text = "id,user\n" + ',\n1,""\n' * count
    assert rows_of(CsvWriter(), schema, text)[-2:] == [{"id": None, "user": None}, {"id": 1, "user": ""}]
    named = CsvWriter(null_values=["NA", "-"])
    assert rows_of(named, schema, "id,user\n" + 'NA,\n-,"NA"\n' * count)[-2:] == [
        {"id": None, "user": ""},
        {"id": None, "user": "NA"},
    ]
    with pytest.raises(SerializationError, match="column 'id': '' is not a whole number"):
        rows_of(CsvWriter(null_values=[]), schema, "id,user\n,a\n")


@pytest.mark.usefixtures("no_slow_path")
@pytest.mark.parametrize(
    "record",
    [b'1,"a ""b"", c\nd",0.5\n', b'1,"a",0.5\r\n', b'1,5" pipe,0.5\n', b'"1","","2"\n'],
    ids=repr,
)
def test_quotes_newlines_and_carriage_returns_are_read_in_one_call(record: bytes) -> None:
    rows = rows_of(CsvWriter(), SCHEMA, b"id,user,value\n" + record * 100)
    assert len(rows) == 100
    assert rows[0]["id"] == 1


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ("1,a", r"2 field\(s\), 3 are required"),
        ("1,a,1,", r"4 field\(s\)"),
        ("", "an empty line"),
        ('1,"a"b,1', "field 2 has text after its closing quote"),
        ('1,"a,1', "field 2 begins with a quote at byte 2, which is never closed"),
        ('"x",a,1', "column 'id': 'x' is not a whole number"),
    ],
)
def test_a_bad_record_is_named_with_its_place_and_others_are_kept(record: str, why: str) -> None:
    lines = [b"1,a,0.5"] * 40
    with pytest.raises(SerializationError, match=rf"record 40 \(at byte 320\): .*{why}"):
        rows_of(CsvWriter(header=False), SCHEMA, [*lines, record, *lines])
    (parsed,) = parse_all(CsvWriter(header=False, on_error="skip"), SCHEMA, [*lines, record, *lines])
    assert [(bad.record, bad.data) for bad in parsed.bad_records] == [(40, record.encode())]
    assert parsed.batch.num_rows == 80


def test_missing_fields_are_null_by_option() -> None:
    writer = CsvWriter(missing_fields="null", on_error="fail")
    assert rows_of(writer, SCHEMA, "id,user,value\n1\n2,b,1.5,more\n" + "3,c\n" * 40)[:2] == [
        {"id": 1, "user": None, "value": None},
        {"id": 2, "user": "b", "value": 1.5},
    ]


def test_an_item_with_a_newline_outside_quotes_is_bad() -> None:
    writer = CsvWriter(header=False)
    with pytest.raises(SerializationError, match=r"record 1 .*a newline outside quotes"):
        rows_of(writer, SCHEMA, ["1,a,1", "2,b\n3,c"])
    assert rows_of(writer, SCHEMA, ["1,a,0.5\n", "1,a,0.5\r\n"]) == [ROW, ROW]


def test_single_records_need_a_writer_without_header() -> None:
    with pytest.raises(ConfigurationError, match="set header=False"):
        rows_of(CsvWriter(), SCHEMA, ["1,a,1"])


def test_blocks_are_cut_between_records_and_number_them() -> None:
    writer = CsvWriter(header=False, block_bytes=1000)
    writer.bind(SCHEMA)
    writer.discard()
    record = b'1,"a\nb",0.5\n'
    blocks = blocks_of(writer, record * 500, *[record] * 500)
    assert len(blocks) > 10
    assert [block.first_record for block in blocks[:2]] == [0, blocks[0].records]
    assert blocks[1].first_offset == blocks[0].records * len(record)
    assert sum(writer.parse(block).batch.num_rows for block in blocks) == 1000


@pytest.mark.parametrize("text", [b'1,"' + b"x" * 200, b"1," + b"x" * 200 + b",1\n"])
def test_a_record_that_is_too_long_is_an_error(text: bytes) -> None:
    writer = CsvWriter(header=False, max_record_bytes=100, on_error="skip")
    for given in (text, io.BytesIO(text)):
        with pytest.raises(SerializationError, match=r"record 1 .*max_record_bytes=100.*quotes"):
            rows_of(writer, SCHEMA, b"1,a,1\n", given)


def test_a_block_that_is_clean_but_for_one_record_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    row = CsvRows.row
    monkeypatch.setattr(CsvRows, "row", lambda self, record: seen.append(record) or row(self, record))
    text = b"1,a,0.5\n" * 20_000 + b'1,"a"b,0.5\n' + b"1,a,0.5\n" * 20_000
    (parsed,) = parse_all(CsvWriter(header=False, on_error="skip"), SCHEMA, text)
    assert (parsed.batch.num_rows, parsed.skipped) == (40_000, 1)
    assert len(seen) < 5_000


def test_a_nested_column_and_a_writer_without_schema_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match=r"column 'a'.*CSV"):
        CsvWriter().bind(schema_of(a="array<int>"))
    CsvWriter(header=False, columns=["id"]).bind(schema_of(id="int", a="array<int>"))
    writer = CsvWriter(header=False)
    with pytest.raises(InvalidTransactionState, match="no schema yet"):
        writer.parse(blocks_of(writer, b"1\n")[0])


@pytest.mark.parametrize(
    "options",
    [
        {"field_delimiter": ""},
        {"field_delimiter": "\n"},
        {"field_delimiter": '"'},
        {"quote": "ab"},
        {"columns": ["id"]},
        {"null_values": "NA"},
        {"null_values": ["\n"]},
        {"missing_columns": "x"},
        {"missing_fields": "x"},
        {"unknown_fields": "x"},
        {"on_error": "x"},
        {"block_bytes": 0},
        {"max_record_bytes": 0},
        {"timezone": "Mars"},
    ],
    ids=str,
)
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        CsvWriter(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("count", [3, 100])
def test_blank_lines_are_left_out_on_request(end, count):
    schema = schema_of(id="int", text="string")
    lines = [b"id,text", *(b'%d,"a\n\nb"' % number for number in range(count)), b"", b"", b"7,x", b""]
    [parsed] = parse_all(CsvWriter(blank_lines="skip"), schema, end.join(lines) + end)
    assert (parsed.records, parsed.skipped, parsed.batch.num_rows) == (count + 1, 0, count + 1)
    assert parsed.batch["text"].to_pylist() == ["a\n\nb"] * count + ["x"]
    with pytest.raises(SerializationError, match=f"record {count} .*an empty line"):
        parse_all(CsvWriter(), schema, end.join(lines) + end)


@pytest.mark.parametrize("count", [3, 100])
def test_a_bad_record_after_blank_lines_keeps_its_number_and_offset(count):
    text = b"1,a\n" * count + b"\n\r\n" + b"x,b\n"
    writer = CsvWriter(header=False, blank_lines="skip", on_error="skip")
    [parsed] = parse_all(writer, schema_of(id="int", text="string"), text)
    assert (parsed.records, parsed.batch.num_rows) == (count + 1, count)
    assert [(bad.record, bad.byte_offset, bad.data) for bad in parsed.bad_records] == [
        (count + 2, 4 * count + 3, b"x,b")
    ]


def test_blank_lines_are_left_out_of_a_table_with_one_column():
    text = b"a\n\n" * 50 + b"b"
    assert len(rows_of(CsvWriter(header=False, blank_lines="skip"), schema_of(v="string"), text)) == 51
    assert len(rows_of(CsvWriter(header=False), schema_of(v="string"), text)) == 101
