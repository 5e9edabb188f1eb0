"""One delimited line to one row: the definition that parsing whole blocks must agree with (Hive: LazySimpleSerDe)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.typed_columns import TypedColumn
from hive_ingest.record_writer.values.text_forms import TextForms, field_converter
from hive_ingest.schema import HiveType

#: Types whose text is unescaped; others are read as is (Hive: LazyString, LazyHiveChar, LazyHiveVarchar).
_ESCAPED_KINDS: Final = ("string", "char", "varchar")
Reader = Callable[[bytes], object]
Splitter = Callable[[bytes], list[bytes]]
_LETTERS: Final = {b"r": b"\r", b"n": b"\n"}


#: Hive's, after that of fields (`LazySerDeParameters.DefaultSeparators`).
DEFAULT_SEPARATORS: Final = b"\x02\x03\x04\x05\x06\x07\x08"


@dataclass(frozen=True, slots=True)
class DelimitedFormat:
    """How the fields of a line are separated. `escape` is empty if there is none.

    Attributes:
        forms: The forms of values.
        separators: What separates the parts of nested values, from the outside to the inside: elements, then the keys
            of maps from their values.
    """

    field_delimiter: bytes
    null_format: bytes
    forms: TextForms
    escape: bytes = b""
    #: Whether missing fields at the end are null and additional ones are ignored, as in Hive.
    is_lenient: bool = False
    separators: bytes = DEFAULT_SEPARATORS


class DelimitedRecords:
    """Rows of one schema. Has no state: several threads may use it."""

    def __init__(self, columns: list[TypedColumn], order: list[str], format_: DelimitedFormat) -> None:
        types = dict(columns)
        places = {name: place for place, (name, _) in enumerate(columns)}
        self._format = format_
        self._width = len(columns)
        self._fields = [(name, places[name], _reader(types[name], format_)) for name in order]
        self._split = _splitter(format_.field_delimiter, format_.escape)

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


def separators_needed(type_: HiveType) -> int:
    """How many separators the text of a value has."""
    own = {"array": 1, "struct": 1, "map": 2}.get(type_.kind, 0)
    return own + max((separators_needed(child) for _, child in type_.children), default=0)


def _reader(type_: HiveType, format_: DelimitedFormat, level: int = 0) -> Reader:
    """Reads a value whose parts are separated by `format_.separators[level]`."""
    if not type_.children:
        return _primitive(type_, format_)
    split = _splitter(format_.separators[level : level + 1], format_.escape)
    inner = level + (2 if type_.kind == "map" else 1)
    children = [_or_null(_reader(child, format_, inner), format_.null_format) for _, child in type_.children]
    if type_.kind == "array":
        return lambda text: [children[0](part) for part in split(text)] if text else []
    if type_.kind == "map":
        entry = _splitter(format_.separators[level + 1 : level + 2], format_.escape)
        return _map(split, entry, children[0], children[1], first_counts=format_.forms.coerce == "hive")
    return _struct(split, children, is_lenient=format_.is_lenient)


def _or_null(read: Reader, null_format: bytes) -> Reader:
    return lambda text: None if text == null_format else read(text)


def _struct(split: Splitter, fields: list[Reader], *, is_lenient: bool) -> Reader:
    def read(text: bytes) -> tuple[object, ...]:
        parts = split(text)
        if len(parts) != len(fields) and not is_lenient:
            raise BadValue(f"the struct has {len(parts)} field(s), its type {len(fields)}")
        found = [read_field(part) for read_field, part in zip(fields, parts, strict=False)]
        return (*found, *[None] * (len(fields) - len(found)))

    return read


def _map(split: Splitter, split_entry: Splitter, key_of: Reader, value_of: Reader, *, first_counts: bool) -> Reader:
    def read(text: bytes) -> list[tuple[object, object]]:
        found: dict[object, object] = {}
        for part in split(text) if text else ():
            entry = split_entry(part)
            if len(entry) != 2:
                raise BadValue(f"{shown(part)} is not one key and one value with the map_key_delimiter in between")
            key = key_of(entry[0])
            if key is None:
                raise BadValue(f"the key {shown(entry[0])} is null, which no map can have as a key")
            if key in found and not first_counts:
                raise BadValue(f"key {shown(entry[0])} occurs twice")
            found.setdefault(key, value_of(entry[1]))
        return list(found.items())

    return read


def _primitive(type_: HiveType, format_: DelimitedFormat) -> Reader:
    convert = field_converter(type_, format_.forms)
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


def _splitter(delimiter: bytes, escape: bytes) -> Splitter:
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
