"""Delimited lines become rows by Hive's text format; a bad one is named."""

from __future__ import annotations

import pytest

from hive_ingest.errors import (
    ConfigurationError,
    InvalidTransactionState,
    SerializationError,
    StreamingConnectionError,
    UnsupportedFeature,
)
from hive_ingest.record_writer import (
    RecordWriter,
    StrictDelimitedInputWriter,
)
from hive_ingest.record_writer.delimited.records import DelimitedRecords
from hive_ingest.record_writer.text import blocks as text_blocks
from hive_ingest.record_writer.text import columns as text_columns
from tests.unit.record_writer.writing import blocks_of, parse_all, rows_of, schema_of

SCHEMA = schema_of(id="int", user="string", value="double")


@pytest.fixture
def no_slow_path(monkeypatch):
    """A record that goes the slow way fails the test."""

    def refuse(self, record):
        raise AssertionError(f"read by itself: {record!r}")

    monkeypatch.setattr(DelimitedRecords, "row", refuse)


def lines(count, form="%d,u,0.5"):
    return [form.replace("%d", str(i)).encode() for i in range(count)]


def test_it_is_a_record_writer():
    assert isinstance(StrictDelimitedInputWriter(), RecordWriter)


def test_fields_follow_the_data_columns_then_the_partition_columns():
    schema = schema_of({"country": "string"}, id="int", user="string")
    assert rows_of(StrictDelimitedInputWriter(), schema, "1,a,India\n2,\\N,\n") == [
        {"id": 1, "user": "a", "country": "India"},
        {"id": 2, "user": None, "country": ""},
    ]


@pytest.mark.parametrize("count", [1, 50])
def test_columns_define_the_order_and_omitted_ones_are_null(count):
    writer = StrictDelimitedInputWriter(columns=["Value", "id"])
    (parsed,) = parse_all(writer, SCHEMA, b"0.5,7\n" * count)
    assert parsed.batch.to_pylist()[-1] == {"id": 7, "user": None, "value": 0.5}
    assert parsed.matched_columns == {"id", "value"}


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (b"1,a", r"the line has 2 field\(s\), the table's columns require 3"),
        (b"1,a,1,", r"the line has 4 field\(s\)"),
        (b"", r"the line has 1 field\(s\)"),
        (b",a,1", "column 'id': '' is not a whole number"),
        (b" 1,a,1", "column 'id': ' 1' is not a whole number"),
        (b"1,a,1e", "column 'value': '1e' is not a number"),
        (b"1,\xff,1", "column 'user': not UTF-8"),
        (b"99999999999,a,1", "out of range for int"),
    ],
)
@pytest.mark.parametrize("others", [1, 100])
def test_a_bad_record_is_named_with_place_column_value_and_remedy(record, why, others):
    good = lines(others)
    with pytest.raises(SerializationError, match=why) as caught:
        rows_of(StrictDelimitedInputWriter(), SCHEMA, b"\n".join([*good, record, *good]))
    assert (caught.value.record, caught.value.byte_offset) == (others, sum(len(line) + 1 for line in good))
    assert "on_error='skip'" in str(caught.value)


def test_skipped_records_are_counted():
    (parsed,) = parse_all(StrictDelimitedInputWriter(on_error="skip"), SCHEMA, [*lines(40), b"x", *lines(2)])
    assert (parsed.records, parsed.skipped, parsed.batch.num_rows) == (43, 1, 42)


@pytest.mark.parametrize("count", [1, 50])
def test_hives_rule_for_missing_and_further_fields(count):
    writer = StrictDelimitedInputWriter(missing_fields="null")
    assert rows_of(writer, SCHEMA, b"1,a\n" * count)[-1] == {"id": 1, "user": "a", "value": None}
    assert rows_of(writer, SCHEMA, b"1,a,2,x,\xff\n" * count)[-1] == {"id": 1, "user": "a", "value": 2.0}
    assert rows_of(writer, schema_of(v="string", w="int"), b"\n" * count)[-1] == {"v": "", "w": None}


@pytest.mark.parametrize("text", [b"1,a,0.5\n", b"1,a,0.5\r\n", b"\\N,0x1, 5\n".replace(b" ", b""), b"1, a ,+.5\n"])
def test_a_block_of_clean_lines_is_parsed_in_bulk(no_slow_path, text):
    assert len(rows_of(StrictDelimitedInputWriter(), SCHEMA, text * 50)) == 50


def test_lines_without_the_last_columns_are_parsed_in_bulk(no_slow_path):
    writer = StrictDelimitedInputWriter(missing_fields="null")
    assert rows_of(writer, SCHEMA, b"1,a\n" * 50)[49]["value"] is None


def test_nulls_that_hold_the_escape_do_not_slow_a_block_down(no_slow_path):
    writer = StrictDelimitedInputWriter(escape="\\")
    assert rows_of(writer, SCHEMA, b"1,\\N,\\N\n" * 50)[49] == {"id": 1, "user": None, "value": None}


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        (rb"a\,b", "a,b"),
        (rb"a\nb\rc", "a\nb\rc"),
        (rb"\\N", "\\N"),
        (rb"\N", None),
        (rb"\t\\", "t\\"),
        (b"a\\\\", "a\\"),
        ("\\é".encode(), "é"),
    ],
)
def test_escapes_are_undone_as_lazy_utils_does(count, field, value):
    schema = schema_of(user="string", id="int")
    writer = StrictDelimitedInputWriter(escape="\\")
    assert rows_of(writer, schema, (field + b",1\n") * count)[-1] == {"user": value, "id": 1}


def test_an_escape_at_the_end_of_a_record_stands_for_itself_and_no_number_is_unescaped():
    writer = StrictDelimitedInputWriter(escape="\\")
    assert rows_of(writer, schema_of(user="string"), b"a\\\nb") == [{"user": "a\\"}, {"user": "b"}]
    with pytest.raises(SerializationError, match="is not a whole number"):
        rows_of(writer, schema_of(id="int"), b"\\1")


def test_quotes_are_ordinary_characters():
    assert rows_of(StrictDelimitedInputWriter(), SCHEMA, b'1,"a",1\n' * 40)[39]["user"] == '"a"'
    with pytest.raises(SerializationError, match="4 field"):
        rows_of(StrictDelimitedInputWriter(), SCHEMA, b'1,"a,b",1\n' * 40)


def test_an_item_keeps_its_newlines():
    schema = schema_of(id="int", user="string")
    rows = rows_of(StrictDelimitedInputWriter(), schema, [b"1,a\nb\n", b"2,c\r"], b"3,d\r\n")
    assert [row["user"] for row in rows] == ["a\nb\n", "c\r", "d"]


@pytest.mark.parametrize("delimiter", ["\t", "|", "\x01", " ", ";"])
def test_any_ascii_character_may_delimit(delimiter):
    text = delimiter.join(["1", "a", "0.5"]) + "\n"
    writer = StrictDelimitedInputWriter(field_delimiter=delimiter, null_format="a")
    assert rows_of(writer, SCHEMA, text * 40)[39] == {"id": 1, "user": None, "value": 0.5}


def test_a_column_added_between_transactions_is_read():
    writer = StrictDelimitedInputWriter()
    assert rows_of(writer, schema_of(id="int"), b"1") == [{"id": 1}]
    assert rows_of(writer, schema_of(id="int", user="string"), b"1,a") == [{"id": 1, "user": "a"}]


def test_schemas_that_delimited_text_cannot_fill_are_refused():
    deep = f"{'array<' * 8}int{'>' * 8}"
    with pytest.raises(UnsupportedFeature, match=r"column 'a': .* is nested deeper than there are delimiters"):
        StrictDelimitedInputWriter().bind(schema_of(a=deep))
    with pytest.raises(UnsupportedFeature, match="map keys of type array<int>"):
        StrictDelimitedInputWriter().bind(schema_of(a="map<array<int>,int>"))
    with pytest.raises(StreamingConnectionError, match="no column nope"):
        StrictDelimitedInputWriter(columns=["id", "nope"]).bind(SCHEMA)
    with pytest.raises(StreamingConnectionError, match="none twice"):
        StrictDelimitedInputWriter(columns=["id", "ID"]).bind(SCHEMA)
    with pytest.raises(InvalidTransactionState, match="no schema yet"):
        StrictDelimitedInputWriter().parse(blocks_of(StrictDelimitedInputWriter(), b"1")[0])


@pytest.mark.parametrize(
    "options",
    [
        {"field_delimiter": ",,"},
        {"field_delimiter": "\n"},
        {"field_delimiter": "é"},
        {"escape": ","},
        {"escape": ""},
        {"null_format": "a,b"},
        {"missing_fields": "ignore"},
        {"on_error": "log"},
    ],
)
def test_invalid_options_are_refused(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        StrictDelimitedInputWriter(**options)


LOOSE_NUMBERS = [b"5 ,u,0.5", b" 5,u,0.5", b"0x5,u,0.5", b"-0X5,u,0.5", b"5,u,\t0.5"]


@pytest.mark.parametrize("loose", LOOSE_NUMBERS)
def test_a_number_with_blanks_or_in_hexadecimal_is_bad_beside_texts_that_are_alike(loose):
    with pytest.raises(SerializationError, match="record 49 "):
        rows_of(StrictDelimitedInputWriter(), SCHEMA, b"1, 0x1\t,0.5\n" * 49 + loose + b"\n")


def test_texts_that_are_like_numbers_with_blanks_need_no_second_look(no_slow_path, monkeypatch):
    def refuse(text, delimiters):
        raise AssertionError("the text is searched for numbers with blanks")

    monkeypatch.setattr(text_columns, "has_loose_numbers", refuse)
    rows = rows_of(StrictDelimitedInputWriter(), SCHEMA, b"1, 0x1\t,0.5\n" * 50)
    assert rows[49] == {"id": 1, "user": " 0x1\t", "value": 0.5}


@pytest.mark.parametrize("null_format", ["\\N", "", "u"])
@pytest.mark.parametrize(
    ("type_", "text"),
    [("string", "u"), ("boolean", "true"), ("int", "5"), ("double", "0.5"), ("decimal(5,2)", "1.25")],
)
def test_an_empty_line_is_a_record_with_too_few_fields(null_format, type_, text):
    good = f"{text},u".encode()
    writer = StrictDelimitedInputWriter(null_format=null_format)
    with pytest.raises(SerializationError, match="record 40 "):
        rows_of(writer, schema_of(a=type_, b="string"), b"\n".join([good] * 40 + [b""] + [good] * 9) + b"\n")


@pytest.mark.parametrize("loose", [*LOOSE_NUMBERS, b""])
def test_a_loose_record_is_found_wherever_the_scan_of_a_block_is_divided(loose, monkeypatch):
    monkeypatch.setattr(text_columns, "SCAN_BYTES", 16)
    monkeypatch.setattr(text_blocks, "SCAN_BYTES", 16)
    for place in range(16):
        text = b"\n".join([b"1,u,0.5", b"1," + b"u" * place + b",0.5", loose, b"1,u,0.5"]) + b"\n"
        is_loose = text_columns.has_loose_numbers(text, b",")
        assert (is_loose, text_blocks.has_empty_line(text)) == (loose != b"", loose == b"")
    assert loose == b"" or text_columns.has_loose_numbers(loose + b"\n", b",")
