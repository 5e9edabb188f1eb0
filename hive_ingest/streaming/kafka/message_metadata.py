"""Converts the metadata of messages to columns, many messages at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from hive_ingest.errors import StreamingConnectionError
from hive_ingest.record_writer import BadValue, RecordSchema, typed_columns
from hive_ingest.schema import HiveType
from hive_ingest.streaming.kafka.messages import NO_TIMESTAMP, Message, MessageColumns

#: Converts messages to a column. Raises an ArrowException if it cannot hold one of them.
_Convert = Callable[[Sequence[Message]], pa.Array]

_TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}
_STRING, _BINARY = HiveType("string"), HiveType("binary")


class MessageMetadata:
    """The metadata columns of one schema. Several threads may use it.

    Raises:
        StreamingConnectionError: A column is missing, or its type cannot take the part of the message.
    """

    def __init__(self, columns: MessageColumns, schema: RecordSchema) -> None:
        types = dict(typed_columns(schema.all_columns))
        self._converters: dict[str, _Convert] = {}
        for name, part in columns.by_column().items():
            if name not in types:
                raise StreamingConnectionError(
                    f"the {part} of messages is to go to column {name!r}, which the table does not have: add the "
                    "column, or correct its name"
                )
            self._converters[name] = _converter(part, name, types[name])

    @property
    def names(self) -> frozenset[str]:
        """The columns, in lower case."""
        return frozenset(self._converters)

    def arrays(self, messages: Sequence[Message]) -> dict[str, pa.Array]:
        """The columns, by name.

        Raises:
            BadValue: A column cannot hold the metadata of one of the messages.
        """
        found: dict[str, pa.Array] = {}
        for name, convert in self._converters.items():
            try:
                found[name] = convert(messages)
            except (pa.ArrowException, ValueError, OverflowError) as error:
                raise BadValue(f"the metadata of the message does not fit: {error}", name) from error
        return found


def _converter(part: str, name: str, type_: HiveType) -> _Convert:
    found = _CONVERTERS[part].get(str(type_))
    if found is None:
        raise StreamingConnectionError(
            f"column {name!r}: the {part} of messages cannot be stored as {type_}; use {' or '.join(_CONVERTERS[part])}"
        )
    return found


def _topics(messages: Sequence[Message]) -> pa.Array:
    return pa.array([message.topic for message in messages], pa.string())


def _partitions(type_: pa.DataType) -> _Convert:
    return lambda messages: pa.array([message.partition for message in messages], type_)


def _offsets(messages: Sequence[Message]) -> pa.Array:
    return pa.array([message.offset for message in messages], pa.int64())


def _milliseconds(messages: Sequence[Message]) -> pa.Array:
    times = [message.timestamp for message in messages]
    return pa.array(times if min(times, default=0) >= 0 else [_time(time) for time in times], pa.int64())


def _time(time: int) -> int | None:
    if time < NO_TIMESTAMP:
        raise ValueError(f"the timestamp {time} is before 1970")
    return None if time == NO_TIMESTAMP else time


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    return _milliseconds(messages).cast(pa.timestamp("ms")).cast(pa.timestamp("ns"))


def _days(messages: Sequence[Message]) -> pa.Array:
    # The cast to nanoseconds refuses years that a date of Hive could not have.
    return _timestamps(messages).cast(pa.date32(), safe=False)


def _timestamp_types(messages: Sequence[Message]) -> pa.Array:
    return pa.array([message.timestamp_type for message in messages], pa.int32())


def _timestamp_type_names(messages: Sequence[Message]) -> pa.Array:
    return pa.array([_TIMESTAMP_TYPES.get(message.timestamp_type) for message in messages], pa.string())


def _keys(messages: Sequence[Message]) -> pa.Array:
    return pa.array([message.key for message in messages], pa.binary())


def _text_keys(messages: Sequence[Message]) -> pa.Array:
    return _keys(messages).cast(pa.string())  # checks that they are UTF-8


def _header_lists(type_: HiveType) -> _Convert:
    key, value = (name for name, _ in type_.children[0][1].children)
    is_text = type_.children[0][1].children[1][1] == _STRING

    def convert(messages: Sequence[Message]) -> pa.Array:
        return pa.array(
            [[{key: name, value: _header(data, is_text)} for name, data in message.headers] for message in messages],
            type_.arrow,
        )

    return convert


def _header_maps(type_: HiveType) -> _Convert:
    is_text = type_.children[1][1] == _STRING

    def convert(messages: Sequence[Message]) -> pa.Array:
        return pa.array(
            [
                list({name: _header(data, is_text) for name, data in message.headers}.items())  # the last one counts
                for message in messages
            ],
            type_.arrow,
        )

    return convert


def _header(data: bytes | None, is_text: bool) -> bytes | str | None:
    return data.decode() if is_text and data is not None else data


def _list_of(value: HiveType) -> HiveType:
    struct = HiveType("struct", children=(("key", _STRING), ("value", value)))
    return HiveType("array", children=(("item", struct),))


def _map_to(value: HiveType) -> HiveType:
    return HiveType("map", children=(("key", _STRING), ("value", value)))


#: By the part of a message and the column's type.
_CONVERTERS: dict[str, dict[str, _Convert]] = {
    "topic": {"string": _topics},
    "partition": {"int": _partitions(pa.int32()), "bigint": _partitions(pa.int64())},
    "offset": {"bigint": _offsets},
    "timestamp": {"timestamp": _timestamps, "date": _days, "bigint": _milliseconds},
    "timestamp_type": {"int": _timestamp_types, "string": _timestamp_type_names},
    "key": {"binary": _keys, "string": _text_keys},
    "headers": {
        **{str(_list_of(value)): _header_lists(_list_of(value)) for value in (_BINARY, _STRING)},
        **{str(_map_to(value)): _header_maps(_map_to(value)) for value in (_BINARY, _STRING)},
    },
}
