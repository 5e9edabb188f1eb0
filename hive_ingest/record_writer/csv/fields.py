"""The fields of a CSV record, and one record to one row: the definition that parsing whole blocks must agree with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_ingest.record_writer.bad_records import BadValue
from hive_ingest.record_writer.csv.layout import CsvLayout
from hive_ingest.record_writer.typed_columns import TypedColumn
from hive_ingest.record_writer.values.text_forms import TextForms, field_converter


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How the fields of a record are written.

    Attributes:
        field_delimiter: The character between fields.
        quote: The character around fields, or empty.
        escape: The character before one that is data, or empty.
        null_values: The texts of a field without quotes that is null.
        forms: The forms of values.
        is_lenient: Whether missing fields at the end are null and additional ones are ignored.
    """

    field_delimiter: bytes
    quote: bytes
    escape: bytes
    null_values: tuple[bytes, ...]
    forms: TextForms
    is_lenient: bool = False


class CsvFields:
    """Splits records into fields. Has no state: several threads may use it."""

    def __init__(self, format_: CsvFormat) -> None:
        self._delimiter = format_.field_delimiter
        self._quote = format_.quote
        self._escape = format_.escape
        delimiter, quote, escape = map(re.escape, (format_.field_delimiter, format_.quote, format_.escape))
        pair = b"|" + escape + b"." if escape else b""
        rest = b"(?:[^" + delimiter + escape + b"]++" + pair + b")*+"
        field = rest
        if quote:
            inner = b"(?:[^" + quote + escape + b"]++|" + quote + quote + pair + b")*+"
            field = quote + b"(" + inner + b")" + quote + b"(" + rest + b")|(?!" + quote + b")" + rest
        self._field = re.compile(field, re.DOTALL)
        #: Two characters that stand for the second one, outside quotes and inside.
        self._pair = re.compile(escape + b".", re.DOTALL)
        self._quoted_pair = re.compile(quote + quote + pair, re.DOTALL)

    def split(self, record: bytes) -> list[tuple[bytes, bytes | None]]:
        """The text of each field, and as it is written if it is not quoted.

        Raises:
            BadValue: The record is malformed.
        """
        if not (self._quote and self._quote in record) and not (self._escape and self._escape in record):
            if b"\n" in record:
                raise _newline()
            return [(text, text) for text in record.split(self._delimiter)]
        fields: list[tuple[bytes, bytes | None]] = []
        at = 0
        while True:
            found = self._field.match(record, at)
            if found is None:
                raise BadValue(f"field {len(fields) + 1} begins with a quote at byte {at}, which is never closed")
            fields.append(self._text(found, len(fields) + 1))
            at = found.end()
            if at == len(record):
                return fields
            if record[at : at + 1] != self._delimiter:
                raise BadValue(f"field {len(fields)} ends with an escape")
            at += 1

    def _text(self, found: re.Match[bytes], number: int) -> tuple[bytes, bytes | None]:
        if not self._quote or found[1] is None:
            raw = found[0]
            if not self._escape or self._escape not in raw:
                text = plain = raw
            else:
                text, plain = self._pair.sub(_second, raw), self._pair.sub(b"", raw)
            if b"\n" in plain:
                raise _newline()
            return text, raw
        if found[2]:
            raise BadValue(
                f"field {number} has text after its closing quote; a quote inside a quoted field must be "
                f"{'escaped or ' if self._escape else ''}doubled"
            )
        return self._quoted_pair.sub(_second, found[1]), None


def _second(found: re.Match[bytes]) -> bytes:
    return found[0][1:]


class CsvRows:
    """The rows of records with one layout. Has no state: several threads may use it."""

    def __init__(self, columns: Sequence[TypedColumn], layout: CsvLayout, format_: CsvFormat) -> None:
        types = dict(columns)
        places = {name: place for place, (name, _) in enumerate(columns)}
        self._width = len(columns)
        self._format = format_
        self._fields = CsvFields(format_)
        self._readers = [
            None if name is None else (name, places[name], field_converter(types[name], format_.forms))
            for name in layout.fields
        ]

    def row(self, record: bytes) -> tuple[Any, ...]:
        """The values in the order of the columns, as `pyarrow.array` accepts them. Raises BadValue."""
        found = self._fields.split(record)
        if len(found) != len(self._readers) and not self._format.is_lenient:
            empty = "an empty line" if not record else f"{len(found)} field(s)"
            raise BadValue(f"the record has {empty}, {len(self._readers)} are required")
        row: list[Any] = [None] * self._width
        for reader, (text, raw) in zip(self._readers, found, strict=False):
            if reader is None or raw in self._format.null_values:
                continue
            name, place, read = reader
            try:
                row[place] = read(_decoded(text))
            except BadValue as bad:
                raise bad.inside(name) from bad
        return tuple(row)


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadValue(f"not UTF-8: {error.reason} at byte {error.start} of the field") from error


def _newline() -> BadValue:
    return BadValue("a newline outside quotes")
