"""Each message is one record, and its metadata stays beside its value."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, StreamingConnectionError
from hive_ingest.model import Column
from hive_ingest.record_writer import (
    BadRecord,
    CsvWriter,
    Parsed,
    RecordListWriter,
    RecordSchema,
    RecordWriter,
    StrictDelimitedInputWriter,
    StrictJsonWriter,
)
from hive_ingest.streaming.kafka import KafkaMessage, KafkaRoute, MessageColumns, MessageWriter
from hive_ingest.streaming.kafka.routes import check_routes

ALL = MessageColumns(
    topic="Topic", partition="part", offset="pos", timestamp="at", timestamp_type="how", key="k", headers="h"
)
ALL_TYPES = {
    "topic": "string",
    "n": "int",
    "part": "int",
    "pos": "bigint",
    "at": "timestamp",
    "how": "string",
    "k": "binary",
    "h": "array<struct<key:string,value:binary>>",
}
TIME = 1_700_000_000_123


def schema_of(_partition: dict[str, str] | None = None, /, **types: str) -> RecordSchema:
    keys = tuple(Column(name, type_) for name, type_ in (_partition or {}).items())
    return RecordSchema(tuple(Column(name, type_) for name, type_ in types.items()), keys)


def message(offset: int, value: object = None, **fields) -> KafkaMessage:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return KafkaMessage("events", 3, offset, value=data, **({"timestamp": TIME} | fields))


def parse(writer: MessageWriter, schema: RecordSchema, *calls: list[KafkaMessage]) -> list[Parsed]:
    writer.bind(schema)
    writer.discard()
    blocks = [block for call in calls for block in writer.write(call)]
    return [writer.parse(block) for block in [*blocks, *writer.drain()]]


def rows(parsed: list[Parsed]) -> list[dict[str, Any]]:
    return [row for each in parsed for row in each.batch.to_pylist()]


def skipped(parsed: list[Parsed]) -> list[BadRecord]:
    return [bad for each in parsed for bad in each.bad_records]


def json_writer(**options) -> MessageWriter:
    return MessageWriter(StrictJsonWriter(on_error="skip"), **options)


def test_it_is_a_record_writer():
    assert isinstance(json_writer(), RecordWriter)


def test_values_and_metadata_become_one_row():
    headers = (("a", b"\xff"), ("a", None), ("b", b""))
    first = message(7, {"n": 1}, key=b"\x00k", headers=headers, timestamp_type=1)
    second = message(9, {"n": 2}, timestamp=-1)
    (parsed,) = parse(json_writer(columns=ALL), schema_of(**ALL_TYPES), [first, second])
    assert rows([parsed]) == [
        {
            "topic": "events",
            "n": 1,
            "part": 3,
            "pos": 7,
            "at": dt.datetime(2023, 11, 14, 22, 13, 20, 123000),
            "how": "LogAppendTime",
            "k": b"\x00k",
            "h": [{"key": name, "value": value} for name, value in headers],
        },
        {
            "topic": "events",
            "n": 2,
            "part": 3,
            "pos": 9,
            "at": None,
            "how": "CreateTime",
            "k": None,
            "h": [],
        },
    ]
    assert parsed.batch.schema.equals(schema_of(**ALL_TYPES).arrow)
    assert parsed.matched_columns == set(ALL_TYPES)


@pytest.mark.parametrize(
    ("part", "type_", "expected"),
    [
        ("partition", "bigint", 3),
        ("timestamp", "bigint", TIME),
        ("timestamp", "date", dt.date(2023, 11, 14)),
        ("timestamp_type", "int", 0),
        ("key", "string", "ä"),
        ("headers", "map<string,binary>", [("a", b"2"), ("b", None)]),
        ("headers", "map<string,string>", [("a", "2"), ("b", None)]),
        (
            "headers",
            "array<struct<key:string,value:string>>",
            [{"key": "a", "value": "1"}, {"key": "b", "value": None}, {"key": "a", "value": "2"}],
        ),
    ],
)
def test_the_type_of_the_column_decides_the_form(part, type_, expected):
    headers = (("a", b"1"), ("b", None), ("a", b"2"))
    writer = json_writer(columns=MessageColumns(**{part: "m"}))
    parsed = parse(writer, schema_of(n="int", m=type_), [message(1, {"n": 1}, key="ä".encode(), headers=headers)])
    assert rows(parsed) == [{"n": 1, "m": expected}]


def test_metadata_may_be_a_partition_key():
    writer = json_writer(columns=MessageColumns(timestamp="day", topic="topic"))
    schema = schema_of({"topic": "string", "day": "date"}, n="int")
    assert rows(parse(writer, schema, [message(1, {"n": 1})])) == [
        {"n": 1, "topic": "events", "day": dt.date(2023, 11, 14)}
    ]


def test_each_message_is_one_record_newlines_and_all():
    writer = MessageWriter(StrictDelimitedInputWriter(), MessageColumns(offset="pos"))
    messages = [message(5, b"a\nb"), message(6, b""), message(7, b"c\r\n"), message(8, b"\n")]
    found = rows(parse(writer, schema_of(text="string", pos="bigint"), messages))
    assert found == [
        {"text": "a\nb", "pos": 5},
        {"text": "", "pos": 6},
        {"text": "c\r\n", "pos": 7},
        {"text": "\n", "pos": 8},
    ]


def test_the_log_of_a_skipped_message_names_topic_partition_and_offset(caplog):
    messages = [message(3, {"n": 1}), message(4, None), message(7, {"n": "bad"})]
    parse(json_writer(), schema_of(n="int"), messages)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "skipped the message at offset 7 of events-3",
        "skipped the message at offset 4 of events-3",
    ]


def test_pretty_printed_json_is_one_record():
    value = json.dumps({"n": 1}, indent=2).encode()
    assert rows(parse(json_writer(), schema_of(n="int"), [message(1, value), message(2, {"n": 2})])) == [
        {"n": 1},
        {"n": 2},
    ]


def test_metadata_stays_beside_its_value_where_others_are_bad():
    messages = [message(i, {"n": i} if i % 7 else {"n": "bad"}) for i in range(10_000)]
    writer = json_writer(columns=MessageColumns(offset="pos"))
    parsed = parse(writer, schema_of(n="int", pos="bigint"), messages[:4_000], messages[4_000:])
    assert rows(parsed) == [{"n": i, "pos": i} for i in range(10_000) if i % 7]
    assert [bad.data for bad in skipped(parsed)] == messages[::7]
    assert [bad.record for bad in skipped(parsed)] == list(range(0, 10_000, 7))
    assert sum(each.records for each in parsed) == 10_000
    assert sum(each.skipped for each in parsed) == len(messages[::7])


def test_a_large_write_becomes_several_blocks():
    writer = json_writer(columns=MessageColumns(offset="pos"))
    parsed = parse(writer, schema_of(n="int", pos="bigint"), [message(i, {"n": i}) for i in range(50_000)])
    assert len(parsed) > 5
    assert rows(parsed) == [{"n": i, "pos": i} for i in range(50_000)]


def test_a_bad_message_is_named_by_topic_partition_and_offset():
    writer = MessageWriter(StrictJsonWriter(), tombstones="skip")
    messages = [message(10, {"n": 1}), message(11), message(12, {"n": 2}), message(13, {"n": "x"})]
    with pytest.raises(SerializationError, match=r"^the message at offset 13 of events-3: column 'n': 'x'") as caught:
        parse(writer, schema_of(n="int"), messages)
    assert caught.value.record == 2  # of those that are records
    assert caught.value.byte_offset is None


# -- tombstones ----------------------------------------------------------------------------------------


def tombstones(how: str, **options) -> MessageWriter:
    return json_writer(columns=MessageColumns(offset="pos", key="k"), tombstones=how, **options)


MESSAGES = [
    message(1, key=b"a"),
    message(2, {"n": 2}, key=b"a"),
    message(3, b"bad", key=b"a"),
    message(4, key=b"b"),
    message(5, {"n": 5}, key=b"b"),
]
SCHEMA = schema_of(n="int", pos="bigint", k="string")


def test_a_tombstone_can_be_a_row_with_its_metadata():
    parsed = parse(tombstones("record"), SCHEMA, MESSAGES)
    assert rows(parsed) == [
        {"n": None, "pos": 1, "k": "a"},
        {"n": 2, "pos": 2, "k": "a"},
        {"n": None, "pos": 4, "k": "b"},
        {"n": 5, "pos": 5, "k": "b"},
    ]
    assert [bad.data.offset for bad in skipped(parsed)] == [3]
    only = parse(tombstones("record"), SCHEMA, [message(1, key=b"a"), message(2, key=b"b")])
    assert rows(only) == [{"n": None, "pos": 1, "k": "a"}, {"n": None, "pos": 2, "k": "b"}]


def test_a_tombstone_can_be_left_out():
    parsed = parse(tombstones("skip"), SCHEMA, MESSAGES)
    assert [row["pos"] for row in rows(parsed)] == [2, 5]
    assert (parsed[0].records, parsed[0].skipped) == (3, 1)
    assert parse(tombstones("skip"), SCHEMA, [message(1)]) == []


def test_a_tombstone_is_a_bad_message_by_default():
    parsed = parse(json_writer(columns=MessageColumns(offset="pos")), schema_of(n="int", pos="bigint"), MESSAGES)
    assert [row["pos"] for row in rows(parsed)] == [2, 5]
    assert [bad.data.offset for bad in skipped(parsed)] == [1, 3, 4]
    assert "a tombstone" in skipped(parsed)[0].reason
    with pytest.raises(SerializationError, match=r"^the message at offset 4 of events-3: it has no value"):
        parse(MessageWriter(StrictJsonWriter()), schema_of(n="int"), [MESSAGES[1], MESSAGES[3]])


# -- metadata that does not fit ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "type_", "fields"),
    [
        ("key", "string", {"key": b"\xff"}),
        ("headers", "map<string,string>", {"headers": (("a", b"\xff"),)}),
        ("timestamp", "timestamp", {"timestamp": TIME * 1000}),
        ("timestamp", "date", {"timestamp": TIME * 1000}),
        ("timestamp", "timestamp", {"timestamp": -2}),
    ],
)
def test_a_message_whose_metadata_does_not_fit_is_bad(part, type_, fields):
    columns, schema = MessageColumns(**{part: "m"}), schema_of(n="int", m=type_)
    messages = [message(1, {"n": 1}), message(2, {"n": 2}, **fields), message(3, b"x"), message(4, {"n": 4})]
    parsed = parse(json_writer(columns=columns), schema, messages)
    assert [row["n"] for row in rows(parsed)] == [1, 4]
    assert [(bad.record, bad.data.offset) for bad in skipped(parsed)] == [(1, 2), (2, 3)]
    with pytest.raises(SerializationError, match="the message at offset 2 of events-3: column 'm'"):
        parse(MessageWriter(StrictJsonWriter(), columns), schema, messages[:2])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_message_that_is_too_long_is_bad_and_ends_where_it_ends(place):
    messages = [message(offset, {"n": offset}) for offset in range(3)]
    messages[place] = message(place, {"n": place, "s": "x" * 100})
    writer = MessageWriter(StrictJsonWriter(on_error="skip", max_record_bytes=50), MessageColumns(offset="pos"))
    schema = schema_of(n="int", pos="bigint")
    parsed = parse(writer, schema, messages, [message(3), message(4, {"n": 4}), message(5, b"x")])
    assert [row["pos"] for row in rows(parsed)] == [n for n in (0, 1, 2, 4) if n != place]
    assert [(bad.record, bad.data.offset) for bad in skipped(parsed)] == [(n, n) for n in (place, 3, 5)]
    assert "it is longer than max_record_bytes=50: it has 117 bytes" in skipped(parsed)[0].reason
    with pytest.raises(SerializationError, match=f"the message at offset {place} of events-3: it is longer"):
        parse(MessageWriter(StrictJsonWriter(max_record_bytes=50)), schema_of(n="int"), messages)


# -- what is refused -------------------------------------------------------------------------------------


def test_a_column_that_is_missing_or_of_another_type_is_refused_at_connect():
    with pytest.raises(StreamingConnectionError, match=r"column 'pos', which the table does not have"):
        json_writer(columns=MessageColumns(offset="pos")).bind(schema_of(n="int"))
    with pytest.raises(StreamingConnectionError, match=r"'pos': the offset of messages .* as int; use bigint"):
        json_writer(columns=MessageColumns(offset="pos")).bind(schema_of(n="int", pos="int"))


def test_options_that_are_not_valid_are_refused():
    with pytest.raises(ConfigurationError, match="one column is named twice"):
        MessageColumns(offset="a", partition="A")
    with pytest.raises(ConfigurationError, match="tombstones='ignore' is not valid"):
        json_writer(tombstones="ignore")


@pytest.mark.parametrize("records", [b"{}", "{}", 1, message(1, {"n": 1})])
def test_anything_else_than_a_list_of_messages_is_refused(records):
    with pytest.raises(SerializationError, match="write a list of messages"):
        parse(json_writer(), schema_of(n="int"), records)


def test_a_writer_that_hides_what_it_skips_is_refused():
    class Hiding(RecordListWriter):
        def to_batch(self, records):
            return pa.RecordBatch.from_arrays([pa.array([], pa.int32())], schema=self.schema.arrow)

        def parse(self, block):
            return Parsed(self.to_batch(block.records), len(block.records), len(block.records))

    with pytest.raises(SerializationError, match=r"Hiding skipped records .* Parsed\.bad_records"):
        parse(MessageWriter(Hiding(on_error="skip")), schema_of(n="int"), [message(1, b"x")])


@pytest.mark.parametrize("count", [0, 2])
def test_a_writer_that_does_not_return_one_row_for_each_message_is_refused(count):
    """The rows would get the metadata of other messages, or be left out."""

    class Uneven(RecordListWriter):
        def to_batch(self, records):
            return pa.RecordBatch.from_pylist([{"n": 1}] * count * len(records), schema=self.schema.arrow)

        def parse(self, block):
            return Parsed(self.to_batch(block.records), len(block.records))

    messages = [message(1), message(2, b"x"), message(3, b"y")]
    with pytest.raises(SerializationError, match=rf"Uneven returned {2 * count} rows .* for 2 messages: .* one row"):
        parse(MessageWriter(Uneven(), tombstones="record"), schema_of(n="int"), messages)


def test_a_writer_that_would_leave_out_empty_messages_is_refused():
    writer = CsvWriter(header=False, blank_lines="skip")
    with pytest.raises(ConfigurationError, match=r"blank_lines='skip'.*an empty message is a record"):
        MessageWriter(writer)
    with pytest.raises(ConfigurationError, match="blank_lines"):
        check_routes([KafkaRoute("events", "web.events", writer)])
