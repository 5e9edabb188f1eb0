"""Kafka messages as records: a record writer parses the value, and the metadata go to columns of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import pyarrow as pa

from hive_ingest.errors import ConfigurationError, InvalidTransactionState, SerializationError
from hive_ingest.record_writer import (
    BadRecord,
    BadRecords,
    BadValue,
    Block,
    CsvWriter,
    OnError,
    Parsed,
    RecordSchema,
    RecordWriter,
    named_records,
)
from hive_ingest.streaming.kafka.message_metadata import MessageMetadata
from hive_ingest.streaming.kafka.messages import Message, MessageColumns
from hive_ingest.streaming.kafka.positions import source_name

Tombstones = Literal["fail", "skip", "record"]

#: Messages that are parsed in one call: few, so that a transaction of a few seconds keeps several threads busy.
_BLOCK_BYTES: Final = 1 << 20
#: What a message and its metadata take in a block that is being parsed, besides the value. `polling` has what it takes
#: as the client returns it.
_METADATA_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Consecutive messages.

    Attributes:
        messages: All that are records, tombstones too.
        values: The values of the others, as blocks of the record writer.
        first_record: Number of the first message in the transaction.
        first_value: Number of the first value, as the record writer counts.
        nbytes: The memory used.
        too_long: Places of the messages that are longer than the record writer accepts.
    """

    messages: list[Message]
    values: list[Block]
    first_record: int
    first_value: int
    nbytes: int
    too_long: frozenset[int] = frozenset()

    @property
    def with_values(self) -> Sequence[int]:
        """Places of the messages whose value is parsed."""
        places = [
            place
            for place, message in enumerate(self.messages)
            if message.value is not None and place not in self.too_long
        ]
        return range(len(self.messages)) if len(places) == len(self.messages) else places


def check_record_writer(record_writer: RecordWriter) -> None:
    """Raises ConfigurationError for a writer that would leave messages out: each of them is a record."""
    if isinstance(record_writer, CsvWriter) and record_writer.skips_blank_lines:
        raise ConfigurationError(
            "CsvWriter(blank_lines='skip') reads lines, and an empty message is a record: leave blank_lines out, and "
            "set on_error='skip' to skip empty messages"
        )


class MessageWriter:
    """A record writer for Kafka messages. `write()` takes a list of them, each of which is one record.

    A value is parsed by another record writer, whole: newlines do not split it, and an empty one is an empty record. A
    bad message is handled as that writer's `on_error` says; the `data` of its `BadRecord` is the message.

    Args:
        record_writer: Parses the values. One without the attribute `on_error` is taken to fail at a bad record.
        columns: The columns that take the metadata. The record writer fills all others.
        tombstones: What a message without a value is: "fail" (a bad message), "skip" (it is left out), or "record" (a
            row with the metadata, whose other columns are null).

    Raises:
        ConfigurationError: An option is not valid.
    """

    def __init__(
        self, record_writer: RecordWriter, columns: MessageColumns | None = None, *, tombstones: Tombstones = "fail"
    ) -> None:
        if tombstones not in ("fail", "skip", "record"):
            raise ConfigurationError(f"tombstones={tombstones!r} is not valid: use 'fail', 'skip' or 'record'")
        check_record_writer(record_writer)
        self._record_writer = record_writer
        self._columns = columns or MessageColumns()
        self._tombstones = tombstones
        #: In a file, a record that is too long may be all the rest of the file; a message ends where it ends.
        self._max_value_bytes: int | None = getattr(record_writer, "max_record_bytes", None)
        self._policy = BadRecords(self.on_error)
        self._metadata: MessageMetadata | None = None
        self.discard()

    @property
    def on_error(self) -> OnError:
        """What happens to a bad message."""
        on_error: OnError = getattr(self._record_writer, "on_error", "fail")
        return on_error

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema.

        Raises:
            StreamingConnectionError: The table lacks a column of `columns`, or it has another type; or what the record
                writer raises.
        """
        metadata = MessageMetadata(self._columns, schema)
        self._record_writer.bind(
            replace(
                schema,
                columns=tuple(c for c in schema.columns if c.name.lower() not in metadata.names),
                partition_columns=tuple(c for c in schema.partition_columns if c.name.lower() not in metadata.names),
            )
        )
        self._metadata = metadata
        self._arrow_schema = schema.arrow
        self._value_schema = pa.schema([field for field in schema.arrow if field.name.lower() not in metadata.names])

    def discard(self) -> None:
        """Drop all kept messages; they are counted from 0 again."""
        self._record_writer.discard()
        self._kept: list[Message] = []
        self._kept_bytes = 0
        self._next_record = 0
        self._next_value = 0

    def write(self, records: object) -> Iterable[MessageBlock]:
        """Keep messages, which must not change: an iterable of objects with the attributes of `Message`.

        Raises:
            SerializationError: Something else was written.
        """
        messages = _messages(records)
        self._kept += messages
        self._kept_bytes += _size_of(messages)
        return self.drain() if self._kept_bytes >= _BLOCK_BYTES else ()

    def drain(self) -> Iterator[MessageBlock]:
        """Yield all kept messages as blocks."""
        kept, nbytes = self._kept, self._kept_bytes
        self._kept, self._kept_bytes = [], 0
        if self._tombstones == "skip":
            kept = [message for message in kept if message.value is not None]
        most = len(kept) if nbytes < 2 * _BLOCK_BYTES else max(1, len(kept) * _BLOCK_BYTES // nbytes)
        for start in range(0, len(kept), most or 1):
            yield self._block(kept[start : start + most])

    def _block(self, messages: list[Message]) -> MessageBlock:
        first_record, first_value = self._next_record, self._next_value
        values = [message.value for message in messages if message.value is not None]
        too_long = self._too_long(messages, values)
        if too_long:
            values = [value for value in values if len(value) <= (self._max_value_bytes or 0)]
        self._next_record += len(messages)
        self._next_value += len(values)
        blocks: list[Block] = []
        block = MessageBlock(messages, blocks, first_record, first_value, 0, too_long)
        with _naming_messages(block):
            blocks += [*self._record_writer.write(values), *self._record_writer.drain()]
        return replace(block, nbytes=sum(each.nbytes for each in blocks) + _size_of(messages))

    def _too_long(self, messages: list[Message], values: list[bytes]) -> frozenset[int]:
        most = self._max_value_bytes
        if most is None or max(map(len, values), default=0) <= most:
            return frozenset()
        return frozenset(place for place, message in enumerate(messages) if len(message.value or b"") > most)

    def parse(self, block: Any) -> Parsed:
        """Parse a block of this writer.

        Raises:
            SerializationError: For a bad message, unless bad ones are skipped.
        """
        if self._metadata is None:
            raise InvalidTransactionState("MessageWriter has no schema yet: call bind() first")
        with _naming_messages(block):
            parsed = [self._record_writer.parse(values) for values in block.values]
        bad = _BadMessages(block, self._policy)
        self._check_rows(block, parsed)
        for place in sorted(block.too_long):
            size = len(block.messages[place].value or b"")
            bad.add(place, BadValue(f"it is longer than max_record_bytes={self._max_value_bytes}: it has {size} bytes"))
        self._add_bad_values(bad, parsed)
        places, values = self._rows(block, self._joined(parsed), bad)
        places, values, metadata = _with_metadata(self._metadata, block, places, values, bad)
        arrays = [
            metadata[field.name.lower()] if field.name.lower() in metadata else values.column(field.name)
            for field in self._arrow_schema
        ]
        return Parsed(
            pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema),
            len(block.messages),
            len(block.messages) - len(places),
            frozenset().union(*(each.unknown_fields for each in parsed)),
            self._matched_columns(parsed),
            is_checked=all(each.is_checked for each in parsed),
            bad_records=bad.in_order(),
        )

    def _add_bad_values(self, bad: _BadMessages, parsed: Sequence[Parsed]) -> None:
        if not any(each.skipped for each in parsed):
            return
        if any(each.skipped != len(each.bad_records) for each in parsed):
            raise SerializationError(
                f"{type(self._record_writer).__name__} skipped records without returning them: it must return each of "
                "them in Parsed.bad_records, so that the messages are known"
            )
        for record in (record for each in parsed for record in each.bad_records):
            bad.add_value(record)

    def _check_rows(self, block: MessageBlock, parsed: Sequence[Parsed]) -> None:
        """A row must be that of one message, or it would get the metadata of another one."""
        count = len(block.with_values)
        found = sum(each.batch.num_rows + each.skipped for each in parsed)
        if found != count:
            raise SerializationError(
                f"{type(self._record_writer).__name__} returned {found} rows and skipped records for {count} messages: "
                "it must return one row for each message, or skip it"
            )

    def _joined(self, parsed: Sequence[Parsed]) -> pa.RecordBatch:
        if len(parsed) == 1:
            return parsed[0].batch
        batches = [each.batch for each in parsed]
        return pa.concat_batches(batches or [pa.RecordBatch.from_pylist([], self._value_schema)])

    def _rows(
        self, block: MessageBlock, values: pa.RecordBatch, bad: _BadMessages
    ) -> tuple[Sequence[int], pa.RecordBatch]:
        """The places of the messages that are not bad, and the values of each, null for a tombstone."""
        if values.num_rows == len(block.messages):
            return range(values.num_rows), values
        places: list[int] = []
        rows: list[int | None] = []
        row = 0
        for place, message in enumerate(block.messages):
            if message.value is None:
                if self._tombstones == "fail":
                    bad.add(place, BadValue("it has no value (a tombstone): set tombstones='skip' or 'record'"))
                    continue
                rows.append(None)
            elif place in bad:
                continue
            else:
                rows.append(row)
                row += 1
            places.append(place)
        return places, values.take(pa.array(rows, pa.int64()))

    def _matched_columns(self, parsed: Sequence[Parsed]) -> frozenset[str] | None:
        if not parsed or self._metadata is None:
            return self._metadata.names if self._metadata else None
        if any(each.matched_columns is None for each in parsed):
            return None
        return self._metadata.names.union(*(each.matched_columns or () for each in parsed))


class _BadMessages:
    """The bad messages of one block."""

    def __init__(self, block: MessageBlock, policy: BadRecords) -> None:
        self._block = block
        self._policy = policy
        self._found: dict[int, BadRecord] = {}

    def __contains__(self, place: int) -> bool:
        return place in self._found

    def add(self, place: int, why: BadValue) -> None:
        """Skip a message. Raises SerializationError if bad ones are not skipped."""
        message = self._block.messages[place]
        with _naming_messages(self._block, [place], self._block.first_record + place):
            self._found[place] = self._policy.skip(why, self._block.first_record + place, None, message)

    def add_value(self, record: BadRecord) -> None:
        """A message whose value the record writer has skipped."""
        place = self._block.with_values[record.record - self._block.first_value]
        self._found[place] = BadRecord(self._block.first_record + place, record.reason, self._block.messages[place])

    def in_order(self) -> tuple[BadRecord, ...]:
        return tuple(self._found[place] for place in sorted(self._found))


def _with_metadata(
    metadata: MessageMetadata, block: MessageBlock, places: Sequence[int], values: pa.RecordBatch, bad: _BadMessages
) -> tuple[Sequence[int], pa.RecordBatch, dict[str, pa.Array]]:
    """Add the metadata, and skip the messages whose metadata do not fit."""
    is_all = len(places) == len(block.messages)
    messages = block.messages if is_all else [block.messages[place] for place in places]
    try:
        return places, values, metadata.arrays(messages)
    except BadValue:
        good: list[int] = []
        for row, place in enumerate(places):
            try:
                metadata.arrays([block.messages[place]])
            except BadValue as why:
                bad.add(place, why)
            else:
                good.append(row)
    places = [places[row] for row in good]
    return places, values.take(pa.array(good, pa.int64())), metadata.arrays([block.messages[place] for place in places])


@contextmanager
def _naming_messages(
    block: MessageBlock, places: Sequence[int] | None = None, first: int | None = None
) -> Iterator[None]:
    """Errors and logs that name a value by its number name its message instead: topic, partition and offset."""

    def place_of(record: int) -> int:
        first_record = block.first_value if first is None else first
        return (block.with_values if places is None else places)[record - first_record]

    def name_of(record: int) -> str:
        message = block.messages[place_of(record)]
        return f"the message at offset {message.offset} of {source_name(message.topic, message.partition)}"

    try:
        with named_records(name_of):
            yield
    except SerializationError as error:
        if error.record is None:
            raise
        prefix = f"record {error.record}" + (f" (at byte {error.byte_offset})" if error.byte_offset is not None else "")
        raise SerializationError(
            f"{name_of(error.record)}: {str(error).removeprefix(f'{prefix}: ')}",
            record=block.first_record + place_of(error.record),
        ) from error


def _messages(records: object) -> list[Message]:
    if isinstance(records, list):
        return records
    if isinstance(records, Iterable) and not isinstance(records, str | bytes | bytearray | memoryview | tuple):
        return list(records)
    raise SerializationError(f"MessageWriter does not accept a {type(records).__name__}: write a list of messages")


def _size_of(messages: list[Message]) -> int:
    return sum([len(message.value or b"") for message in messages]) + _METADATA_BYTES * len(messages)
