"""JSON objects become rows; a bad one is named; the fast way is taken where it may be."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from hive_ingest.errors import (
    ConfigurationError,
    InvalidTransactionState,
    SerializationError,
    StreamingConnectionError,
    UnsupportedFeature,
)
from hive_ingest.record_writer import RecordWriter, StrictJsonWriter
from hive_ingest.record_writer.json import blocks as json_blocks
from hive_ingest.record_writer.json.records import JsonRecords
from tests.unit.record_writer.writing import blocks_of, parse_all, rows_of, schema_of

SCHEMA = schema_of(id="int", user="string", s="struct<a:int>")


def lines(count, form='{"id":%d,"user":"u","s":{"a":1}}', start=0):
    return [form.replace("%d", str(i)).encode() for i in range(start, start + count)]


@pytest.fixture
def no_slow_path(monkeypatch):
    """A record that goes the slow way fails the test."""

    def refuse(self, record):
        raise AssertionError(f"read by itself: {record!r}")

    monkeypatch.setattr(JsonRecords, "row", refuse)


def test_it_is_a_record_writer():
    assert isinstance(StrictJsonWriter(), RecordWriter)


def test_missing_keys_are_null_and_partition_columns_are_filled():
    schema = schema_of({"day": "date", "country": "string"}, id="int")
    writer = StrictJsonWriter(missing_partition_keys="null")
    assert rows_of(writer, schema, b'{"country":"India","id":1}\n{"day":"2024-01-02"}') == [
        {"id": 1, "day": None, "country": "India"},
        {"id": None, "day": dt.date(2024, 1, 2), "country": None},
    ]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (b"", "an empty line"),
        (b"null", "the value is null, a JSON object is required"),
        (b"[1]", "the value is an array"),
        (b"{}{}", "Extra data"),
        (b'{"id":1', "not a JSON object"),
        (b'{"id":"1"}', "column 'id': '1' is a string, int requires a JSON number"),
        (b'{"id":4000000000}', "column 'id': '4000000000' is out of range for int"),
        (b'{"id":1.5}', "'1.5' is not a whole number"),
        (b'{"id":true}', "the value is true, int requires a JSON number"),
        (b'{"id":NaN}', "NaN is not JSON"),
        (b'{"id":1,"ID":null}', "column 'id': 'ID' occurs a second time"),
        (b'{"s":{"a":1,"A":2}}', "column 's.a': 'A' occurs a second time"),
        (b'{"s":{"a":[]}}', "column 's.a': the value is an array"),
        (b'{"user":"\xff"}', "not UTF-8"),
        (b'{"user":"\\ud800"}', "half a surrogate pair"),
        (b'\xef\xbb\xbf{"id":1}', "not a JSON object"),
        (b'{"user":"' + b"x" * 500 + b'","id":"' + b"y" * 500 + b'"}', r"yyy\.\.\. is a string"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
@pytest.mark.parametrize("others", [1, 100])
def test_a_bad_record_is_named_with_place_column_value_and_remedy(record, why, others):
    good = lines(others)
    with pytest.raises(SerializationError, match=why) as caught:
        rows_of(StrictJsonWriter(), SCHEMA, b"\n".join([*good, record, *good]))
    offset = sum(len(line) + 1 for line in good)
    assert (caught.value.record, caught.value.byte_offset) == (others, offset)
    assert str(caught.value).startswith(f"record {others} (at byte {offset}): ")
    assert "on_error='skip'" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_skipped_records_are_counted_and_the_first_are_logged(caplog):
    with_bad_records = [b"x" if i % 2 else line for i, line in enumerate(lines(60))]
    (parsed,) = parse_all(StrictJsonWriter(on_error="skip"), SCHEMA, with_bad_records)
    assert (parsed.records, parsed.skipped, parsed.batch.num_rows) == (60, 30, 30)
    assert parsed.batch["id"].to_pylist() == list(range(0, 60, 2))
    messages = [r.getMessage() for r in caplog.records]
    assert len(messages) == 10
    assert messages[0].startswith("skipped record 1 (at byte 32): not a JSON object")
    assert messages[9].endswith("further ones are only counted")


def test_a_block_of_clean_lines_is_parsed_in_bulk(no_slow_path):
    schema = schema_of(
        id="bigint",
        f="float",
        d="decimal(9,2)",
        t="timestamp",
        day="date",
        b="binary",
        c="char(4)",
        s="struct<a:array<date>>",
    )
    record = (
        b'{"id":1,"f":0.5,"d":"1.25","t":"2020-01-01 00:00:00.5","day":"2020-01-01","b":"YQ==","c":"ab  ",'
        b'"s":{"a":["2020-01-01",null]}}'
    )
    rows = rows_of(StrictJsonWriter(), schema, [record] * 50)
    assert rows[49] == {
        "id": 1,
        "f": 0.5,
        "d": decimal.Decimal("1.25"),
        "t": dt.datetime(2020, 1, 1, 0, 0, 0, 500_000),
        "day": dt.date(2020, 1, 1),
        "b": b"a",
        "c": "ab",
        "s": {"a": [dt.date(2020, 1, 1), None]},
    }


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_other_spellings_and_unknown_fields_do_not_slow_a_block_down(no_slow_path, end):
    form = '{"ID":%d,"User":"u","S":{"A":1,"zz":[1,"x",{"ID":2}]},"yy":%d,"zz":"mixed"}'
    mixed = [line.replace(b'"mixed"', b"[1]") if i % 2 else line for i, line in enumerate(lines(100, form))]
    parsed = parse_all(StrictJsonWriter(), SCHEMA, end.join(mixed), end.join(mixed))
    rows = [row for p in parsed for row in p.batch.to_pylist()]
    assert [row["id"] for row in rows] == [*range(100), *range(100)]
    assert rows[7] == {"id": 7, "user": "u", "s": {"a": 1}}
    assert parsed[0].unknown_fields == {"yy", "zz", "s.zz"}
    assert parsed[0].matched_columns == {"id", "user", "s"}


def test_a_spelling_that_no_sample_contains_is_still_parsed():
    some = lines(20_000, '{"id":%d,"zz":1}')
    some[11_111] = b'{"Id":-5,"zz":2}'
    some[11_113] = b'{"\\u0049\\u0064":-6,"zz":2}'
    writer = StrictJsonWriter()
    ids = [row["id"] for row in rows_of(writer, schema_of(id="int"), some)]
    assert (ids[11_110], ids[11_111], ids[11_112], ids[11_113]) == (11_110, -5, 11_112, -6)
    assert None not in ids


def test_one_bad_record_does_not_slow_a_large_block_down(monkeypatch):
    slow = []
    row = JsonRecords.row
    monkeypatch.setattr(JsonRecords, "row", lambda self, record: slow.append(record) or row(self, record))
    some = lines(50_000)
    some[33_333] = b'{"id":"bad","zz":1}'
    (parsed,) = parse_all(StrictJsonWriter(on_error="skip"), SCHEMA, some)
    assert parsed.batch["id"].to_pylist() == [i for i in range(50_000) if i != 33_333]
    assert (parsed.records, parsed.skipped) == (50_000, 1)
    assert (parsed.unknown_fields, parsed.matched_columns) == ({"zz"}, {"id", "user", "s"})
    assert len(slow) < 4096
    with pytest.raises(SerializationError) as caught:
        parse_all(StrictJsonWriter(), SCHEMA, some)
    assert (caught.value.record, caught.value.byte_offset) == (33_333, sum(len(line) + 1 for line in some[:33_333]))


def test_spellings_learned_in_one_block_serve_the_next(monkeypatch):
    schema = schema_of(id="int", user="string")
    writer = StrictJsonWriter()
    parse_all(writer, schema, lines(50, '{"ID":%d,"USER":"u"}'))
    monkeypatch.setattr(json_blocks, "sample_shape", None)
    (block,) = blocks_of(writer, lines(50, '{"ID":%d,"USER":"u"}'))
    assert writer.parse(block).batch["id"].to_pylist() == list(range(50))


def test_unknown_fields_are_named_once_in_the_log(caplog):
    writer = StrictJsonWriter()
    for _ in range(2):
        parse_all(writer, SCHEMA, lines(50, '{"id":%d,"Zz":1,"s":{"y\\ud800":1}}'), b'{"zz":1,"id":2}')
    assert sorted(r.getMessage() for r in caplog.records) == [
        "field 's.y\\ud800' matches no column and is ignored",
        "field 'zz' matches no column and is ignored",
    ]
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize("count", [1, 100])
def test_unknown_fields_can_fail(count):
    good = lines(count)
    with pytest.raises(SerializationError, match=r"record \d+ .*column 's': field 'zz' is unknown") as caught:
        rows_of(StrictJsonWriter(unknown_fields="fail"), SCHEMA, [*good, b'{"s":{"zz":1}}'])
    assert caught.value.record == count
    assert len(rows_of(StrictJsonWriter(unknown_fields="fail"), SCHEMA, good)) == count


@pytest.mark.parametrize("count", [2, 100])
def test_a_column_that_no_key_ever_matched_is_reported(count):
    (parsed,) = parse_all(StrictJsonWriter(), SCHEMA, lines(count, '{"Id":%d,"User":null}'))
    assert parsed.matched_columns == {"id", "user"}


def test_an_item_is_one_record_including_its_newlines():
    pretty = json.dumps({"id": 1, "user": "a"}, indent=2).encode()
    assert rows_of(StrictJsonWriter(), SCHEMA, [pretty] * 40)[39]["id"] == 1
    with pytest.raises(SerializationError, match="record 0 "):
        rows_of(StrictJsonWriter(), SCHEMA, [b'{"user":"a\nb"}'])
    with pytest.raises(SerializationError, match="record 0 "):
        rows_of(StrictJsonWriter(), SCHEMA, [b"{}\n{}"])


def test_mappings_are_records():
    schema = schema_of(
        id="int", d="decimal(5,2)", t="timestamp", day="date", b="binary", m="map<int,string>", f="double"
    )
    record = {
        "Id": 1,
        "d": decimal.Decimal("1.50"),
        "t": dt.datetime(2020, 1, 1, 12),
        "day": dt.date(2020, 1, 1),
        "b": b"\x00\xff",
        "m": {5: "x"},
        "f": 0.1,
    }
    wanted = {k.lower(): v for k, v in record.items()} | {"m": [(5, "x")]}
    assert rows_of(StrictJsonWriter(), schema, record, [record, b'{"f":0.1}'])[:2] == [wanted, wanted]


@pytest.mark.parametrize(
    "value", [float("nan"), object(), {1, 2}, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.time(1), b"x".__class__]
)
def test_a_mapping_that_has_no_json_form_is_refused(value):
    with pytest.raises(SerializationError, match="cannot be converted to JSON"):
        list(StrictJsonWriter().write({"id": value}))


@pytest.mark.parametrize("value", [{None: 1}, {"a": [{None: 1}]}, [({None: 1},)]])
def test_none_as_a_key_does_not_become_the_text_null(value):
    with pytest.raises(SerializationError, match="the key None"):
        list(StrictJsonWriter().write({"m": value}))


def test_the_text_null_may_be_a_key():
    schema = schema_of(m="map<string,int>")
    assert rows_of(StrictJsonWriter(), schema, {"m": {"null": 1}, "n": [(1, {"null": None})]}) == [{"m": [("null", 1)]}]


def test_binary_is_base64_or_the_text_itself():
    schema = schema_of(b="binary")
    assert rows_of(StrictJsonWriter(), schema, b'{"b":"YWI="}') == [{"b": b"ab"}]
    raw = StrictJsonWriter(binary_format="rawstring")
    assert rows_of(raw, schema, '{"b":"é="}') == [{"b": "é=".encode()}]
    assert rows_of(raw, schema, '{"b":"é="}\n' * 50)[49] == {"b": "é=".encode()}


def test_a_column_added_between_transactions_is_read():
    writer = StrictJsonWriter()
    assert rows_of(writer, schema_of(id="int"), lines(40, '{"id":%d,"New":"x"}'))[39] == {"id": 39}
    assert rows_of(writer, schema_of(id="bigint", new="string"), lines(40, '{"id":%d,"New":"x"}'))[39] == {
        "id": 39,
        "new": "x",
    }


def test_threads_that_parse_blocks_of_different_shapes_do_not_interfere():
    writer = StrictJsonWriter()
    writer.bind(schema_of(id="int"))
    forms = ['{"id":%d}', '{"ID":%d}', '{"Id":%d,"zz":1}', '{"id":%d,"ID2":"x"}']
    blocks = []
    for i in range(40):
        blocks.extend(blocks_of(writer, lines(200, forms[i % 4], start=i * 200)))
    with ThreadPoolExecutor(4) as pool:
        parsed = list(pool.map(writer.parse, blocks))
    assert [i for p in parsed for i in p.batch["id"].to_pylist()] == list(range(8000))


def test_a_deeply_nested_unknown_field_is_ignored():
    deep = b'{"id":1,"zz":' + b"[" * 200 + b"]" * 200 + b"}"
    assert rows_of(StrictJsonWriter(), schema_of(id="int"), [deep] * 40)[39] == {"id": 1}


def test_schemas_that_json_cannot_fill_are_refused():
    with pytest.raises(StreamingConnectionError, match="two columns are named 'id'"):
        StrictJsonWriter().bind(schema_of(id="int", ID="int"))
    with pytest.raises(UnsupportedFeature, match="cannot have keys of type array<int>"):
        StrictJsonWriter().bind(schema_of(m="array<map<array<int>,int>>"))
    with pytest.raises(InvalidTransactionState, match="no schema yet"):
        StrictJsonWriter().parse(blocks_of(StrictJsonWriter(), b"{}")[0])


@pytest.mark.parametrize("options", [{"on_error": "log"}, {"unknown_fields": "drop"}, {"binary_format": "hex"}])
def test_unknown_options_are_refused(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        StrictJsonWriter(**options)
