"""Whatever messages come, in whatever calls: each good one is a row with its own metadata, each bad one comes back."""

from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import given

from hive_ingest.model import Column
from hive_ingest.record_writer import RecordSchema, StrictJsonWriter
from hive_ingest.streaming.kafka import KafkaMessage, MessageColumns, MessageWriter
from hive_ingest.streaming.kafka.message_writer import MessageBlock

TYPES = {"n": "int", "pos": "bigint", "k": "string", "at": "timestamp"}
SCHEMA = RecordSchema(tuple(Column(name, type_) for name, type_ in TYPES.items()))
COLUMNS = MessageColumns(offset="pos", key="k", timestamp="at")

values = st.one_of(
    st.none(),
    st.just(b""),
    st.just(b"junk\n"),
    st.integers(-5, 5).map(lambda n: json.dumps({"n": n}, indent=n if n > 0 else None).encode()),
    st.just(b'{"n": "x"}'),
)
keys = st.one_of(st.none(), st.sampled_from([b"", b"a", "ä".encode(), b"\xff"]))
times = st.sampled_from([-1, 0, 1_700_000_000_123, 10**17])


def is_good_key(key: bytes | None) -> bool:
    return key != b"\xff"


def number_in(value: bytes) -> int | None:
    try:
        n = json.loads(value)["n"]
    except ValueError:
        return None
    return n if isinstance(n, int) else None


@given(
    st.lists(st.lists(st.tuples(values, keys, times), max_size=60), max_size=4),
    st.sampled_from(["fail", "skip", "record"]),
)
def test_rows_and_bad_messages_are_those_of_the_oracle(calls, tombstones):
    messages: list[KafkaMessage] = []
    writer = MessageWriter(StrictJsonWriter(on_error="skip", block_bytes=200), COLUMNS, tombstones=tombstones)
    writer.bind(SCHEMA)
    writer.discard()
    blocks: list[MessageBlock] = []
    for call in calls:
        written = [
            KafkaMessage("t", 0, len(messages) + place, time, 0, key, value)
            for place, (value, key, time) in enumerate(call)
        ]
        messages += written
        blocks += writer.write(written)
    parsed = [writer.parse(block) for block in [*blocks, *writer.drain()]]
    records = [each for each in messages if each.value is not None or tombstones != "skip"]
    good = [each for each in records if is_good(each, tombstones)]
    rows = [row for each in parsed for row in each.batch.to_pylist()]
    assert [row["pos"] for row in rows] == [each.offset for each in good]
    assert [row["n"] for row in rows] == [None if each.value is None else number_in(each.value) for each in good]
    assert [row["k"] for row in rows] == [None if each.key is None else each.key.decode() for each in good]
    bad = [record for each in parsed for record in each.bad_records]
    assert [(record.record, record.data) for record in bad] == [
        (number, each) for number, each in enumerate(records) if not is_good(each, tombstones)
    ]
    assert sum(each.skipped for each in parsed) == len(bad)
    assert sum(each.records for each in parsed) == len(records)


def is_good(message: KafkaMessage, tombstones: str) -> bool:
    value_is_good = tombstones == "record" if message.value is None else number_in(message.value) is not None
    return value_is_good and is_good_key(message.key) and message.timestamp < 10**17
