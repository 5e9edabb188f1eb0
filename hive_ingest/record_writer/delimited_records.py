"""One delimited line to one row: the definition that parsing whole blocks must agree with (Hive: LazySimpleSerDe)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hive_ingest.record_writer.bad_records import BadValue
from hive_ingest.record_writer.coercion import Coerce, text_converter
from hive_ingest.record_writer.timestamp_formats import STRICT_TIMESTAMPS, TimestampFormats
from hive_ingest.record_writer.typed_columns import TypedColumn
from hive_ingest.schema import HiveType

#: Types whose text is unescaped; others are read as is (Hive: LazyString, LazyHiveChar, LazyHiveVarchar).
_ESCAPED_KINDS: Final = ("string", "char", "varchar")
_LETTERS: Final = {b"r": b"\r", b"n": b"\n"}


@dataclass(frozen=True, slots=True)
class DelimitedFormat:
    """How the fields of a line are separated. `escape` is empty if there is none."""

    field_delimiter: bytes
    null_format: bytes
    escape: bytes = b""
    #: Whether missing fields at the end are null and additional ones are ignored, as in Hive.
    is_lenient: bool = False
    timestamps: TimestampFormats = STRICT_TIMESTAMPS
    coerce: Coerce = "strict"


class DelimitedRecords:
    """Rows of one schema. Has no state: several threads may use it."""

    def __init__(self, columns: list[TypedColumn], order: list[str], format_: DelimitedFormat) -> None:
        types = dict(columns)
        places = {name: place for place, (name, _) in enumerate(columns)}
        self._format = format_
        self._width = len(columns)
        self._fields = [(name, places[name], _reader(types[name], format_)) for name in order]
        self._split = _splitter(format_)

    def row(self, record: bytes) -> tuple[Any, ...]:
        """The values in the order of the table's columns, as `pyarrow.array` accepts them. Raises BadValue."""
        texts = self._split(record)
        if len(texts) != len(self._fields) and not self._format.is_lenient:
            raise BadValue(f"the line has {len(texts)} field(s), the table's columns require {len(self._fields)}")
        row: list[Any] = [None] * self._width
        for (name, place, read), text in zip(self._fields, texts, strict=False):
            if text == self._format.null_format:
                continue
            try:
                row[place] = read(text)
            except BadValue as bad:
                raise bad.inside(name) from bad
        return tuple(row)


def _reader(type_: HiveType, format_: DelimitedFormat) -> Callable[[bytes], object]:
    convert = text_converter(type_, format_.timestamps, format_.coerce)
    escape = format_.escape
    if not escape or type_.kind not in _ESCAPED_KINDS:
        return lambda text: convert(_decoded(text))
    escaped = re.compile(re.escape(escape) + b"(.)", re.DOTALL)
    return lambda text: convert(_decoded(escaped.sub(lambda found: _LETTERS.get(found[1], found[1]), text)))


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadValue(f"not UTF-8: {error.reason} at byte {error.start} of the field") from error


def _splitter(format_: DelimitedFormat) -> Callable[[bytes], list[bytes]]:
    delimiter, escape = format_.field_delimiter, format_.escape

    def split(record: bytes) -> list[bytes]:
        return (
            _split_escaped(record, delimiter[0], escape[0]) if escape and escape in record else record.split(delimiter)
        )

    return split


def _split_escaped(record: bytes, delimiter: int, escape: int) -> list[bytes]:
    """Split at delimiters that are not escaped (Hive: LazyStruct)."""
    fields, start, at = [], 0, 0
    while at < len(record):
        if record[at] == delimiter:
            fields.append(record[start:at])
            start = at + 1
        elif record[at] == escape:
            at += 1
        at += 1
    return [*fields, record[start:]]
