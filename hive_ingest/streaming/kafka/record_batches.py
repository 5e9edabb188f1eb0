"""Decodes the record batches of kafka-python's consumer into messages.

kafka-python calls a function for each number in a record and makes two objects of each record, which takes three
quarters of the processor time of a poll. `use_record_batches` has a consumer decode a batch in one loop instead. A
batch of an older format, or one that is not as the format says, is still decoded by kafka-python, whose errors are
raised then. Requests, checksums, sessions and the group are kafka-python's in any case.

This replaces a class that is not part of kafka-python's API. So it is only done with versions that have been tested. A
client of another version is left as it is: its `ConsumerRecord`s have the same attributes as a `KafkaMessage`.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from typing import Any, Final

from hive_ingest.streaming.kafka.messages import KafkaMessage

_log = logging.getLogger(__name__)

#: Versions of kafka-python (major and minor number) whose classes are as this module expects them.
TESTED_VERSIONS: Final = ("3.0",)
#: The version of the message format since Kafka 0.11.
_CURRENT_FORMAT = 2
_CREATE_TIME = 0
_NULL = 1  # the length -1
_MORE = 0x80  # set in all bytes of a number but the last one
_MOST_BITS = 63


def use_record_batches(consumer: Any) -> bool:
    """Have a consumer of kafka-python decode whole batches, if that is possible. Returns whether it is."""
    kafka = importlib.import_module("kafka")
    if ".".join(kafka.__version__.split(".")[:2]) not in TESTED_VERSIONS:
        _log.info("kafka-python %s has not been tested with the faster decoding of messages", kafka.__version__)
        return False
    consumer._fetcher.PartitionRecords = _partition_records()
    return True


def _partition_records() -> type[Any]:
    """The class that holds what was fetched of a partition, with another decoder."""
    fetcher = importlib.import_module("kafka.consumer.fetcher")
    errors = importlib.import_module("kafka.errors")

    class PartitionRecords(fetcher.Fetcher.PartitionRecords):  # type: ignore[misc, name-defined]
        """What was fetched of a partition."""

        def _unpack_records(
            self, partition: Any, records: Any, key_deserializer: None, value_deserializer: None
        ) -> Iterator[Any]:
            after = None
            while (batch := records.next_batch()) is not None:
                is_current = batch.magic == _CURRENT_FORMAT
                if self.check_crcs and not batch.validate_crc():
                    raise self._corrupt("record batch", batch.base_offset)
                after = batch.next_offset if is_current else None
                if is_current:
                    self.leader_epoch = batch.leader_epoch
                    if self._is_left_out(batch):
                        self.next_fetch_offset = after
                        continue
                self.bytes_read += batch.size_in_bytes
                decoded = decode_batch(batch, *partition) if is_current else None
                for message in self._decoded_one_by_one(batch, partition) if decoded is None else decoded:
                    self.records_read += 1
                    self.next_fetch_offset = message.offset + 1
                    yield message
            if after is not None:
                # The last messages of the batch may have been removed by compaction.
                self.next_fetch_offset = after
            self.drain()

        def _is_left_out(self, batch: Any) -> bool:
            """Whether it belongs to an aborted transaction, or is a marker of the end of one."""
            if self.isolation_level == fetcher.IsolationLevel.READ_COMMITTED and batch.has_producer_id():
                self._consume_aborted_transactions_up_to(batch.last_offset)
                if self._contains_abort_marker(batch):
                    self.aborted_producer_ids.discard(batch.producer_id)
                elif self._is_batch_aborted(batch):
                    return True
            return bool(batch.is_control_batch)

        def _decoded_one_by_one(self, batch: Any, partition: Any) -> Iterator[KafkaMessage]:
            for record in batch:
                if self.check_crcs and not record.validate_crc():
                    raise self._corrupt("record", record.offset)
                yield KafkaMessage(
                    partition.topic,
                    partition.partition,
                    record.offset,
                    record.timestamp,
                    record.timestamp_type,
                    record.key,
                    record.value,
                    tuple(record.headers),
                    self.leader_epoch,
                )

        def _corrupt(self, what: str, offset: int) -> Exception:
            error: Exception = errors.CorruptRecordError(
                f"the checksum of the {what} at offset {offset} of {self.topic_partition} is wrong"
            )
            return error

    return PartitionRecords


def decode_batch(batch: Any, topic: str, partition: int) -> list[KafkaMessage] | None:
    """The messages of a batch of the current format; None if it is not as it should be.

    Args:
        batch: A `kafka.record.default_records.DefaultRecordBatch` that has not been iterated over.
        topic: The topic of the messages.
        partition: Their partition.
    """
    iter(batch)  # decompresses it
    buffer = bytes(batch._buffer)
    found: list[KafkaMessage] = []
    try:
        end = _decode(buffer, batch._pos, batch, topic, partition, found)
    except (IndexError, ValueError):
        return None
    return found if end == len(buffer) else None


def _decode(buffer: bytes, at: int, batch: Any, topic: str, partition: int, found: list[KafkaMessage]) -> int:
    """Append the records at `at` to `found`. Returns where they end.

    This runs for each message of a topic, so the most frequent forms of a number are decoded here, without a call: one
    byte, and two for sizes and times. Numbers are in zigzag form: the lowest bit is the sign.

    Raises:
        IndexError: A record is cut off.
        ValueError: A record is not as the format says.
    """
    base_offset, base_time, timestamp_type = batch.base_offset, batch.first_timestamp, batch.timestamp_type
    has_own_times = timestamp_type == _CREATE_TIME
    time, leader_epoch = batch.max_timestamp, batch.leader_epoch
    new, append = tuple.__new__, found.append
    for _ in range(batch.records_count):
        if (number := buffer[at]) < _MORE:
            at += 1
        elif (high := buffer[at + 1]) < _MORE:
            number, at = number ^ _MORE | high << 7, at + 2
        else:
            number, at = _number(buffer, at)
        twice_the_end = 2 * at + number  # odd for a negative size, which is wrong
        if buffer[at]:
            raise ValueError("a record has attributes, which the format does not define")
        at += 1
        if (number := buffer[at]) < _MORE:
            at += 1
        elif (high := buffer[at + 1]) < _MORE:
            number, at = number ^ _MORE | high << 7, at + 2
        else:
            number, at = _number(buffer, at)
        if has_own_times:
            time = base_time + (number >> 1 ^ -(number & 1))
        if (number := buffer[at]) < _MORE:
            at += 1
        else:
            number, at = _number(buffer, at)
        if number & 1:
            raise ValueError("an offset is before that of the batch")
        offset = base_offset + (number >> 1)
        if buffer[at] == _NULL:
            key, at = None, at + 1
        else:
            key, at = _bytes(buffer, at)
        if (number := buffer[at]) >= _MORE and (high := buffer[at + 1]) < _MORE and not number & 1:
            start = at + 2
            at = start + ((number ^ _MORE | high << 7) >> 1)
            value: bytes | None = buffer[start:at]
        else:
            value, at = _bytes(buffer, at)
        if buffer[at]:
            headers, at = _headers(buffer, at)
        else:
            headers, at = (), at + 1
        if 2 * at != twice_the_end:
            raise ValueError("the size of a record is wrong")
        message = (topic, partition, offset, time, timestamp_type, key, value, headers, leader_epoch)
        append(new(KafkaMessage, message))
    return at


def _headers(buffer: bytes, at: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """The headers at `at`, and where they end. Raises IndexError, ValueError."""
    count, at = _number(buffer, at)
    headers = []
    for _ in range(_length(count)):
        name, at = _bytes(buffer, at)
        value, at = _bytes(buffer, at)
        if name is None:
            raise ValueError("a header has no name")
        # As Java's client does: kafka-python would take the batch for damaged, and the ingest could never pass it.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at


def _bytes(buffer: bytes, at: int) -> tuple[bytes | None, int]:
    """The bytes at `at`, which begin with their length, and where they end. Raises IndexError, ValueError."""
    number, at = _number(buffer, at)
    if number == _NULL:
        return None, at
    end = at + _length(number)
    return buffer[at:end], end


def _length(number: int) -> int:
    """Raises ValueError."""
    if number & 1:
        raise ValueError("a length is negative")
    return number >> 1


def _number(buffer: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, in zigzag form, and where it ends. Raises IndexError, ValueError."""
    number = shift = 0
    while (byte := buffer[at]) >= _MORE:
        number |= (byte ^ _MORE) << shift
        at, shift = at + 1, shift + 7
        if shift > _MOST_BITS:
            raise ValueError("a number is longer than 64 bits")
    return number | byte << shift, at + 1
