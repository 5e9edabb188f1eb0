"""Messages are decoded as kafka-python decodes them: both decoders read the same bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import kafka
import pytest
from crc32c import crc32c
from kafka import TopicPartition
from kafka.codec import has_lz4, has_snappy, has_zstd
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from hive_ingest.streaming.kafka import record_batches
from hive_ingest.streaming.kafka.messages import KafkaMessage
from hive_ingest.streaming.kafka.record_batches import TESTED_VERSIONS, decode_batch, use_record_batches

PARTITION = TopicPartition("events", 3)
EPOCH = 7
TIME = 1_700_000_000_000
_CRC = struct.Struct(">I")
_TRANSACTIONAL, _CONTROL, _APPEND_TIME = 0x10, 0x20, 0x08
_ABORT, _COMMIT = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)

COMPRESSIONS = [0, 1, *([2] if has_snappy() else []), *([3] if has_lz4() else []), *([4] if has_zstd() else [])]


class Given(NamedTuple):
    """A message to be encoded."""

    offset: int
    value: bytes | None = b"{}"
    key: bytes | None = None
    timestamp: int = TIME
    headers: tuple[tuple[str, bytes | None], ...] = ()


# -- batches -------------------------------------------------------------------------------------------


def batch(
    messages: Iterable[Given], compression: int = 0, *, base: int = 0, producer_id: int = -1, attributes: int = 0
) -> bytes:
    """A batch of the current format; its first offset is `base`."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=bool(attributes & _TRANSACTIONAL),
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        batch_size=1 << 30,
    )
    last = 0
    for each in messages:
        builder.append(each.offset - base, each.timestamp, each.key, each.value, list(each.headers))
        last = each.offset - base
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">i", data, 12, EPOCH)
    (before,) = struct.unpack_from(">h", data, DefaultRecordBatch.ATTRIBUTES_OFFSET)
    struct.pack_into(">hi", data, DefaultRecordBatch.ATTRIBUTES_OFFSET, before | attributes, last)
    return signed(data)


def marker(offset: int, producer_id: int, key: bytes) -> bytes:
    """The end of a transaction."""
    message = Given(offset, b"\0" * 6, key)
    return batch([message], base=offset, producer_id=producer_id, attributes=_TRANSACTIONAL | _CONTROL)


def signed(data: bytearray) -> bytes:
    """With the checksum of what it has."""
    _CRC.pack_into(data, DefaultRecordBatch.CRC_OFFSET, crc32c(bytes(data[DefaultRecordBatch.ATTRIBUTES_OFFSET :])))
    return bytes(data)


def legacy(magic: int, compression: int, messages: Iterable[Given]) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=compression, batch_size=1 << 20)
    for each in messages:
        builder.append(each.offset, each.timestamp, each.key, each.value)
    return bytes(builder.build())


def some_messages(seed: int, count: int = 300) -> list[Given]:
    """Messages of all kinds, with gaps between their offsets."""
    rng = random.Random(seed)
    offset, found = 0, []
    for _ in range(count):
        headers = tuple(
            (f"näme {number}" * rng.randrange(20), rng.choice([None, b"", rng.randbytes(rng.randrange(300))]))
            for number in range(rng.choice([0, 0, 0, 1, 3, 70]))
        )
        value = rng.choice([None, b"", rng.randbytes(rng.randrange(200)), rng.randbytes(rng.randrange(40_000))])
        key = rng.choice([None, None, b"", rng.randbytes(rng.randrange(200))])
        time = TIME + rng.choice([0, rng.randrange(-1_000, 1_000), rng.randrange(-(10**12), 10**12)])
        found.append(Given(offset, value, key, time, headers))
        offset += rng.choice([1, 1, 1, rng.randrange(1, 30_000)])
    return found


# -- both decoders -------------------------------------------------------------------------------------


def fast() -> type[Any]:
    consumer = SimpleNamespace(_fetcher=SimpleNamespace(PartitionRecords=None))
    assert use_record_batches(consumer)
    found: type[Any] = consumer._fetcher.PartitionRecords
    return found


def decoded(kind: type[Any], data: bytes, step: int, **options: Any) -> list[object]:
    """What `take` returns or raises each time, and the position after it."""
    drained: list[object] = []
    records = kind(options.pop("fetch_offset", 0), PARTITION, MemoryRecords(data), on_drain=drained.append, **options)
    seen: list[object] = []
    while records:
        try:
            messages = [as_message(each) for each in records.take(step)]
        except CorruptRecordError:
            seen.append(CorruptRecordError)
            break
        seen.append((messages, records.next_fetch_offset, records.leader_epoch, bool(records.bytes_read)))
    return [*seen, records.records_read, len(drained)]


def as_message(found: Any) -> KafkaMessage:
    names = KafkaMessage._fields
    return KafkaMessage(**{name: getattr(found, name) for name in names} | {"headers": tuple(found.headers)})


def check_equal(data: bytes, **options: Any) -> list[KafkaMessage]:
    """Both decoders find the same, whatever number of messages a poll takes. Returns the messages."""
    for step in (1, 7, 100_000):
        theirs, ours = (decoded(kind, data, step, **dict(options)) for kind in (Fetcher.PartitionRecords, fast()))
        assert ours == theirs
    return [message for each in ours if isinstance(each, tuple) for message in each[0]]


def offsets(messages: Sequence[KafkaMessage]) -> list[int]:
    return [message.offset for message in messages]


# -- tests ---------------------------------------------------------------------------------------------


def test_the_installed_version_is_a_tested_one() -> None:
    assert kafka.__version__.startswith(tuple(f"{version}." for version in TESTED_VERSIONS))


def test_a_client_of_another_version_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "__version__", "4.1.0")
    consumer = SimpleNamespace(_fetcher=SimpleNamespace(PartitionRecords=None))
    assert not use_record_batches(consumer)
    assert consumer._fetcher.PartitionRecords is None


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_messages_of_all_kinds(compression: int, seed: int) -> None:
    given = some_messages(seed)
    found = check_equal(batch(given, compression) + batch([Given(given[-1].offset + 1)], base=given[-1].offset + 1))
    assert found[:-1] == [
        KafkaMessage(PARTITION.topic, PARTITION.partition, m.offset, m.timestamp, 0, m.key, m.value, m.headers, EPOCH)
        for m in given
    ]


def test_plain_batches_are_decoded_without_kafka_python() -> None:
    given = some_messages(11)
    records = MemoryRecords(batch(given))
    found = decode_batch(records.next_batch(), *PARTITION)
    assert found is not None
    assert len(found) == len(given)


def test_times_set_by_the_broker() -> None:
    data = bytearray(batch([Given(0), Given(1, timestamp=TIME + 5)], attributes=_APPEND_TIME))
    assert {(m.timestamp, m.timestamp_type) for m in check_equal(signed(data))} == {(TIME + 5, 1)}


def test_a_position_inside_a_batch() -> None:
    data = batch([Given(n) for n in range(200)]) + batch([Given(n) for n in range(200, 400)], base=200)
    assert offsets(check_equal(data, fetch_offset=150)) == [*range(150, 400)]


def test_batches_whose_last_messages_were_removed_by_compaction() -> None:
    data = bytearray(batch([Given(0), Given(3)]))
    struct.pack_into(">i", data, DefaultRecordBatch.ATTRIBUTES_OFFSET + 2, 9)
    check_equal(signed(data))
    check_equal(signed(data) + batch([Given(10)], base=10))
    empty = signed(bytearray(batch([], base=4)))
    assert offsets(check_equal(empty + batch([Given(10)], base=10))) == [10]


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED])
def test_transactions(isolation: int) -> None:
    data = b"".join(
        [
            batch([Given(0)]),
            batch([Given(1)], base=1, producer_id=5, attributes=_TRANSACTIONAL),
            batch([Given(2)], base=2, producer_id=6, attributes=_TRANSACTIONAL),
            batch([Given(3)], base=3, producer_id=7),  # idempotent, without a transaction
            marker(4, 5, _ABORT),
            marker(5, 6, _COMMIT),
            batch([Given(6)], base=6, producer_id=5, attributes=_TRANSACTIONAL),
            marker(7, 5, _COMMIT),
            batch([Given(8)], base=8, producer_id=6, attributes=_TRANSACTIONAL),
            marker(9, 6, _ABORT),
        ]
    )
    aborted = [SimpleNamespace(producer_id=6, first_offset=8), SimpleNamespace(producer_id=5, first_offset=1)]
    found = check_equal(data, isolation_level=isolation, aborted_transactions=aborted)
    is_committed = isolation == IsolationLevel.READ_COMMITTED
    assert offsets(found) == ([0, 2, 3, 6] if is_committed else [0, 1, 2, 3, 6, 8])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [0, 1])
def test_formats_before_kafka_0_11(magic: int, compression: int) -> None:
    given = [Given(n, value, key) for n, (value, key) in enumerate([(b"a", None), (None, b"k"), (b"", b"")])]
    data = legacy(magic, compression, given) + batch([Given(3)], base=3)
    assert offsets(check_equal(data)) == [0, 1, 2, 3]


def _wrong_checksum(data: bytearray) -> bytes:
    data[-1] ^= 1
    return bytes(data)


def _change(at: int, byte: int) -> Callable[[bytearray], bytes]:
    def change(data: bytearray) -> bytes:
        data[DefaultRecordBatch.HEADER_STRUCT.size + at] = byte
        return signed(data)

    return change


def _too_few(data: bytearray) -> bytes:
    struct.pack_into(">i", data, DefaultRecordBatch.HEADER_STRUCT.size - 4, 1)
    return signed(data)


def _too_many(data: bytearray) -> bytes:
    struct.pack_into(">i", data, DefaultRecordBatch.HEADER_STRUCT.size - 4, 3)
    return signed(data)


@pytest.mark.parametrize(
    "damage",
    [
        _wrong_checksum,
        _too_few,
        _too_many,
        _change(0, 0x7E),  # the size of the first record
        _change(4, 0x05),  # the length of its key: -3
        _change(5, 0x03),  # the length of its value: -2
        _change(5, 0x7E),  # a value that ends after the batch
        _change(8, 0x01),  # the number of its headers: -1
    ],
)
def test_damaged_batches_are_refused_as_by_kafka_python(damage: Callable[[bytearray], bytes]) -> None:
    data = damage(bytearray(batch([Given(10), Given(11)], base=10)))
    check_equal(batch([Given(n) for n in range(10)]) + data, fetch_offset=0)


def test_every_changed_byte_gives_what_kafka_python_gives() -> None:
    given = [Given(0, b"abc", b"k", TIME, (("h", b"v"),)), Given(1, b"x" * 200), Given(2, None, b"key", TIME - 500)]
    intact = batch(given)
    values = range(DefaultRecordBatch.HEADER_STRUCT.size + 210, len(intact))  # not every byte of the long value
    places = [*range(DefaultRecordBatch.HEADER_STRUCT.size, DefaultRecordBatch.HEADER_STRUCT.size + 30), *values]
    places.remove(intact.index(b"h\x02v"))  # a header's name, see the test below
    for at in places:
        for change in (0x01, 0x02, 0x40, 0x80, 0xFF):
            data = bytearray(intact)
            data[at] ^= change
            check_equal(signed(data))


def test_a_header_name_that_is_not_utf_8_does_not_stop_the_partition() -> None:
    """Clients in C and Go send any bytes. kafka-python takes the batch for damaged."""
    data = batch([Given(0), Given(1, headers=(("name", b"v"),)), Given(2)]).replace(b"name", b"na\xefe")
    first, *_ = decoded(fast(), signed(bytearray(data)), 10)
    assert isinstance(first, tuple)
    assert [message.headers for message in first[0]] == [(), (("na\ufffde", b"v"),), ()]


def test_a_checksum_is_not_verified_on_request() -> None:
    data = bytearray(batch([Given(0, b"abc")]))
    data[-2] ^= 1
    assert len(check_equal(bytes(data), check_crcs=False)) == 1


def test_damage_is_never_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> int:
        raise ValueError

    monkeypatch.setattr(record_batches, "_decode", fail)
    given = some_messages(4)
    assert offsets(check_equal(batch(given))) == [each.offset for each in given]
