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

from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.json.hive_values import hive_leaf
from hive_ingest.record_writer.json.leaves import (
    JsonConverter,
    JsonForms,
    NumberText,
    described,
    lossless_leaf,
    strict_leaf,
    utf8,
)
from hive_ingest.record_writer.values import strict_values
from hive_ingest.record_writer.values.coercion import first_of, naming_option
from hive_ingest.schema import HiveType

UnknownFields = Literal["ignore", "fail"]

#: Keys whose spelling a struct remembers; further ones are looked up each time.
_MAX_SPELLINGS: Final = 10_000
_ABSENT: Final = object()


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
        self.forms = forms
        self._row = _Struct(columns, self, required=required)
        self.seen = SeenKeys()

    def row(self, record: bytes) -> tuple[Any, ...]:
        """The values of the columns, as `pyarrow.array` takes them. Raises BadValue."""
        value = decode(record)
        if type(value) is not tuple:
            raise BadValue(f"{described(value)}, a JSON object is required")
        return self._row.convert_record(value)

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
            key = _map_key(type_.children[0][1], self.forms)
            value = self.converter(type_.children[1][1], path)
            return _map(key, value, last_counts=self.forms.coerce == "hive")
        return _leaf(type_, self.forms)


def _leaf(type_: HiveType, forms: JsonForms) -> JsonConverter:
    strict = strict_leaf(type_, forms)
    if forms.coerce == "strict":
        return naming_option(strict, lossless_leaf(type_, forms))
    return first_of(strict, lossless_leaf(type_, forms) if forms.coerce == "lossless" else hive_leaf(type_, forms))


def _map_key(type_: HiveType, forms: JsonForms) -> strict_values.Converter:
    if forms.coerce != "hive":
        return forms.text_converter(type_, forms.coerce)
    return first_of(forms.text_converter(type_, "strict"), hive_leaf(type_, forms))


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
        self._last_counts = records.forms.coerce == "hive"

    def convert_value(self, value: Any) -> tuple[Any, ...]:
        if type(value) is not tuple:
            raise BadValue(f"{described(value)}, a JSON object is required")
        return self.convert(value)

    def convert(self, pairs: tuple[tuple[str, Any], ...]) -> tuple[Any, ...]:
        """The values of the fields."""
        return self._converted(self._found(pairs))

    def convert_record(self, pairs: tuple[tuple[str, Any], ...]) -> tuple[Any, ...]:
        """The same for a whole record, which must have one of the fields."""
        found = self._found(pairs)
        if found and not self._last_counts and all(value is _ABSENT for value in found):
            raise BadValue("no key of the object matches a column: check that the record belongs to this table")
        return self._converted(found)

    def _found(self, pairs: tuple[tuple[str, Any], ...]) -> list[Any]:
        """The value of each field as it was decoded."""
        row: list[Any] = [_ABSENT] * len(self._names)
        # As in Hive's reader, the last of equal keys counts, at the place of the first.
        for key, value in dict(pairs).items() if self._last_counts else pairs:
            place = self._spellings[key] if key in self._spellings else self._place(key)
            if place is None:
                continue
            if row[place] is not _ABSENT and not self._last_counts:
                raise BadValue(f"{shown(key)} occurs a second time in one object", self._names[place])
            row[place] = value
        return row

    def _converted(self, row: list[Any]) -> tuple[Any, ...]:
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
            raise BadValue(f"{described(value)}, a JSON array is required")
        return [None if item is None else element(item) for item in value]

    return convert


def _map(key_of: strict_values.Converter, value_of: JsonConverter, *, last_counts: bool) -> JsonConverter:
    def convert(value: Any) -> list[tuple[object, Any]]:
        if type(value) is not tuple:
            raise BadValue(f"{described(value)}, a JSON object is required")
        found: dict[object, Any] = {}
        for name, item in value:
            key = key_of(utf8(name))
            if key is None:
                raise BadValue(f"key {shown(name)} becomes null, which no map can have as a key")
            if key in found and not last_counts:
                raise BadValue(f"key {shown(name)} occurs twice")
            found[key] = None if item is None else value_of(item)
        return list(found.items())

    return convert
