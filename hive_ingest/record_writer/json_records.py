"""One JSON record to one row: the definition that parsing whole blocks must agree with.

The record is decoded by the standard library. Numbers stay text, so nothing is rounded before the column's type is
known; an object is a tuple of its pairs, so that a duplicate key is noticed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

from hive_ingest.record_writer import values
from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.timestamp_formats import STRICT_TIMESTAMPS, TimestampFormats
from hive_ingest.schema import HiveType

BinaryFormat = Literal["base64", "rawstring"]
UnknownFields = Literal["ignore", "fail"]
JsonConverter = Callable[[Any], Any]

#: Keys whose spelling a struct remembers; further ones are looked up each time.
_MAX_SPELLINGS: Final = 10_000
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class JsonForms:
    """The forms of values that JSON has no type for."""

    binary_format: BinaryFormat = "base64"
    timestamps: TimestampFormats = STRICT_TIMESTAMPS


class NumberText(str):
    """The text of a JSON number."""

    __slots__ = ()


def _refuse_constant(name: str) -> NoReturn:
    raise BadValue(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=tuple, parse_float=NumberText, parse_int=NumberText, parse_constant=_refuse_constant
)
# The scanner itself, without the search for blanks around the value; typeshed does not know it.
_scan_once: Final[Callable[[str, int], tuple[Any, int]]] = _DECODER.scan_once  # type: ignore[attr-defined]


def decode(record: bytes) -> Any:
    """The record as str, NumberText, bool, None, list (array) or tuple of pairs (object).

    Raises:
        BadValue: The record is not UTF-8, not JSON, empty, or more than one value.
    """
    try:
        return _scan(record.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadValue(f"not UTF-8: {error.reason} at byte {error.start} of the record") from error
    except json.JSONDecodeError as error:
        if not record.strip():
            raise BadValue("an empty line is not a JSON object") from error
        raise BadValue(f"not a JSON object: {error.msg} at character {error.pos} of {shown(error.doc)}") from error
    except RecursionError as error:
        raise BadValue("nested too deeply") from error


def _scan(text: str) -> Any:
    if text.startswith("{"):
        with contextlib.suppress(StopIteration):
            value, end = _scan_once(text, 0)
            if end == len(text):
                return value
    return _DECODER.decode(text)  # accepts blanks around the value, and reports what is wrong


@dataclass(slots=True)
class SeenKeys:
    """What keys have matched: columns, and dotted lower-case paths that are not a column or field."""

    columns: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


_STRICT: Final = JsonForms()


class JsonRecords:
    """Converts the records of one block and collects the keys seen. Threads share nothing: each block has its own."""

    def __init__(
        self,
        columns: list[tuple[str, HiveType]],
        *,
        unknown_fields: UnknownFields = "ignore",
        forms: JsonForms = _STRICT,
        required: frozenset[str] = frozenset(),
    ) -> None:
        """`required` are the columns whose key must be there; its value may be null."""
        self._unknown_fields = unknown_fields
        self._forms = forms
        self._row = _Struct(columns, self, required=required)
        self.seen = SeenKeys()

    def row(self, record: bytes) -> tuple[Any, ...]:
        """The values of the columns, as `pyarrow.array` takes them. Raises BadValue."""
        value = decode(record)
        if type(value) is not tuple:
            raise BadValue(f"{_described(value)}, a JSON object is required")
        return self._row.convert(value)

    def key_seen(self, path: tuple[str, ...], key: str, known: bool) -> None:
        """Look up a key that a struct has not had before (or whose spelling was not remembered)."""
        if known:
            if not path:
                self.seen.columns.add(key.lower())
            return
        if self._unknown_fields == "fail":
            raise BadValue(f"field {shown(key)} is unknown: add a column, or set unknown_fields='ignore'")
        self.seen.unknown.add(".".join((*path, key.lower())))

    def converter(self, type_: HiveType, path: tuple[str, ...]) -> JsonConverter:
        """The converter of decoded JSON values other than null to `type_`. It raises BadValue."""
        if type_.kind == "struct":
            return _Struct(type_.children, self, path).convert_value
        if type_.kind == "array":
            return _array(self.converter(type_.children[0][1], path))
        if type_.kind == "map":
            key = values.from_text(type_.children[0][1], self._forms.timestamps.nanos)
            return _map(key, self.converter(type_.children[1][1], path))
        if type_.kind == "boolean":
            return _boolean
        if type_.kind in values.INTEGER_BITS:
            return _number(values.integer(type_.kind), type_.kind)
        if type_.kind in ("float", "double"):
            return _number(values.floating(type_.kind), type_.kind)
        if type_.kind == "decimal":
            return _decimal(values.decimal_number(*type_.parameters), str(type_))
        if type_.kind == "binary" and self._forms.binary_format == "rawstring":
            return _string(str.encode, "binary")
        if type_.kind == "timestamp":
            return _timestamp(self._forms.timestamps)
        return _string(values.from_text(type_, self._forms.timestamps.nanos), str(type_))


class _Struct:
    """Converts the pairs of a JSON object to the values of fields, matched without regard to case."""

    def __init__(
        self,
        fields: Any,
        records: JsonRecords,
        path: tuple[str, ...] = (),
        *,
        required: frozenset[str] = frozenset(),
    ) -> None:
        self._records = records
        self._path = path
        self._names = [name for name, _ in fields]
        self._converters = [records.converter(type_, (*path, name)) for name, type_ in fields]
        self._places = {name: place for place, name in enumerate(self._names)}
        self._spellings: dict[str, int | None] = {}
        self._required = [place for place, name in enumerate(self._names) if name in required]

    def convert_value(self, value: Any) -> tuple[Any, ...]:
        if type(value) is not tuple:
            raise BadValue(f"{_described(value)}, a JSON object is required")
        return self.convert(value)

    def convert(self, pairs: tuple[tuple[str, Any], ...]) -> tuple[Any, ...]:
        row: list[Any] = [_ABSENT] * len(self._names)
        for key, value in pairs:
            place = self._spellings[key] if key in self._spellings else self._place(key)
            if place is None:
                continue
            if row[place] is not _ABSENT:
                raise BadValue(f"{shown(key)} occurs a second time in one object", self._names[place])
            row[place] = value
        missing = next((place for place in self._required if row[place] is _ABSENT), None)
        place = 0
        try:
            for place, value in enumerate(row):
                row[place] = None if value is _ABSENT or value is None else self._converters[place](value)
        except BadValue as bad:
            raise bad.inside(self._names[place]) from bad
        if missing is not None:
            raise BadValue(
                "the partition key is missing: add it (null is the default partition), or set "
                "missing_partition_keys='null'",
                self._names[missing],
            )
        return tuple(row)

    def _place(self, key: str) -> int | None:
        place = self._places.get(key.lower())
        self._records.key_seen(self._path, key, place is not None)
        if len(self._spellings) < _MAX_SPELLINGS:
            self._spellings[key] = place
        return place


def _array(element: JsonConverter) -> JsonConverter:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise BadValue(f"{_described(value)}, a JSON array is required")
        return [None if item is None else element(item) for item in value]

    return convert


def _map(key_of: Callable[[str], object], value_of: JsonConverter) -> JsonConverter:
    def convert(value: Any) -> list[tuple[object, Any]]:
        if type(value) is not tuple:
            raise BadValue(f"{_described(value)}, a JSON object is required")
        found: dict[object, Any] = {}
        for name, item in value:
            key = key_of(_utf8(name))
            if key in found:
                raise BadValue(f"key {shown(name)} occurs twice")
            found[key] = None if item is None else value_of(item)
        return list(found.items())

    return convert


def _number(convert_text: values.Converter, kind: str) -> JsonConverter:
    def convert(value: Any) -> object:
        if type(value) is not NumberText:
            raise BadValue(f"{_described(value)}, {kind} requires a JSON number")
        return convert_text(value)

    return convert


def _decimal(convert_text: values.Converter, kind: str) -> JsonConverter:
    def convert(value: Any) -> object:
        if type(value) is not NumberText and type(value) is not str:
            raise BadValue(f"{_described(value)}, {kind} requires a JSON number, or one in a string")
        return convert_text(value)

    return convert


def _string(convert_text: Callable[[str], object], kind: str) -> JsonConverter:
    def convert(value: Any) -> object:
        if type(value) is not str:
            raise BadValue(f"{_described(value)}, {kind} requires a JSON string")
        return convert_text(value if value.isascii() else _utf8(value))

    return convert


def _timestamp(formats: TimestampFormats) -> JsonConverter:
    from_string = _string(formats.nanos, "timestamp")

    def convert(value: Any) -> object:
        return formats.number_nanos(value) if type(value) is NumberText else from_string(value)

    return convert


def _boolean(value: Any) -> object:
    if value is not True and value is not False:
        raise BadValue(f"{_described(value)}, boolean requires true or false")
    return value


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue(f"{shown(text)} has half a surrogate pair, which UTF-8 cannot encode") from error
    return text


def _described(value: Any) -> str:
    """The JSON kind of a decoded value, with the value if it is short."""
    if value is None:
        return "the value is null"
    if isinstance(value, bool):
        return f"the value is {'true' if value else 'false'}"
    if isinstance(value, NumberText):
        return f"{shown(str(value)).strip(chr(39))} is a number"
    if isinstance(value, str):
        return f"{shown(value)} is a string"
    return "the value is an object" if isinstance(value, tuple) else "the value is an array"
