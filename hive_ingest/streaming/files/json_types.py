"""The types of new columns, by their decoded JSON values."""

from __future__ import annotations

import math
from typing import Any, Final

import pyarrow as pa

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import VIRTUAL_COLUMNS
from hive_ingest.record_writer import NumberText, TextForms
from hive_ingest.streaming.files.sample_columns import HUGE, type_of_times

#: Fields of new columns in all: an object with more of them is a map, whose keys are data.
MAX_NEW_FIELDS: Final = 1_000
_MAX_LEVELS: Final = 100
_HUGE_DIGITS: Final = 38
#: Hive's DDL refuses them in the names of columns, or uses them to divide names; a database stores no NUL.
_NOT_IN_NAMES: Final = frozenset(".:,`\0")
#: Hive reads such names of fields in a type, beside letters and digits.
_IN_FIELD_NAMES: Final = "_ $"


class JsonTypes:
    """Collects the values of new columns.

    Args:
        forms: The forms of dates and timestamps in strings, and by their `coerce`, which of equal keys counts.
    """

    def __init__(self, forms: TextForms) -> None:
        self._forms = forms
        self._columns: dict[str, _Values] = {}
        self._fields = 0

    def add(self, file: str, pairs: tuple[tuple[str, Any], ...]) -> None:
        """Add the values that an object in a file has for new columns.

        Raises:
            ConfigurationError: The table cannot get a column of that name, or no type holds the values of one.
        """
        for name, value in self._distinct(pairs).items():
            if value in (None, [], ()):
                continue
            try:
                if name not in self._columns:
                    check_name(file, name)
                    self._columns[name] = self._new_values()
                self._add(self._columns[name], value, 0)
            except _NoType as error:
                raise ConfigurationError(
                    f"{file!r}: no type holds all values of the new column {name!r}: "
                    f"{''.join(f'field {inner!r}: ' for inner in error.path)}{error.why}. Correct the file, or add the "
                    "column with its type (ALTER TABLE … ADD COLUMNS, hive-ingest alter-table add-column)"
                ) from error

    def schema(self) -> pa.Schema:
        """The types of the columns that have a value."""
        types = ((name, self._type(values, is_column=True)) for name, values in self._columns.items())
        return pa.schema([(name, type_) for name, type_ in types if type_ is not None])

    def _distinct(self, pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
        """Names in lower case, with one value each; the writer reports where there are several.

        Names with half a surrogate pair are left out, because no column has such a name.
        """
        found: dict[str, Any] = {}
        for key, value in pairs:
            name = key.lower()
            if (self._forms.coerce == "hive" or found.get(name) is None) and _is_utf8(name):
                found[name] = value
        return found

    def _new_values(self) -> _Values:
        self._fields += 1
        if self._fields > MAX_NEW_FIELDS:
            raise _NoType(
                f"there are more than {MAX_NEW_FIELDS:,} new fields; if the keys of an object are data, add its column "
                "as map<string,…>"
            )
        return _Values()

    def _add(self, values: _Values, value: Any, level: int) -> None:
        if level > _MAX_LEVELS:
            raise _NoType(f"it is nested more than {_MAX_LEVELS} levels deep")
        if isinstance(value, list):
            values.add_list(is_empty=not value)
            for item in value:
                self._add(values.items(), item, level + 1)
        elif isinstance(value, tuple):
            values.add_object(is_empty=not value)
            for name, inner in self._distinct(value).items():
                self._add_field(values, name, inner, level + 1)
        elif value is not None:
            values.add_leaf(value, is_column=level == 0)

    def _add_field(self, values: _Values, name: str, value: Any, level: int) -> None:
        try:
            if name not in values.fields:
                if not name.strip() or name != name.strip() or not all(map(_may_be_in_field_name, name)):
                    raise _NoType("Hive reads no such name in a type; if it is data, add the column as map<string,…>")
                values.fields[name] = self._new_values()
            self._add(values.fields[name], value, level)
        except _NoType as error:
            # The first names of a long path are enough to find the field.
            raise _NoType(error.why, name, *error.path[:2]) from error

    def _type(self, values: _Values, *, is_column: bool = False) -> pa.DataType | None:
        """None if nothing has a value."""
        if values.kind == "string" and is_column:
            return type_of_times(pa.chunked_array([pa.array([*values.texts], pa.string())]), self._forms)
        if values.kind == "array":
            item = self._type(values.items())
            return None if item is None else pa.list_(item)
        if values.kind == "object":
            types = ((name, self._type(field)) for name, field in values.fields.items())
            fields = [(name, type_) for name, type_ in types if type_ is not None]
            return pa.struct(fields) if fields else None
        return values.leaf_type()


def check_name(file: str, name: str) -> None:
    """Raises ConfigurationError if no column can have the name of a field."""
    if not name or name != name.strip() or _NOT_IN_NAMES & set(name):
        raise ConfigurationError(
            f"{file!r} has values for a field named {name!r}, and no column can have such a name (no spaces around it, "
            "and no . : , `): rename the field in the file, or leave it out"
        )
    if name in VIRTUAL_COLUMNS:
        raise ConfigurationError(
            f"{file!r} has values for a field named {name!r}, which is a virtual column of Hive, so no column can have "
            "this name: rename the field in the file, or leave it out"
        )


class _NoType(Exception):
    """No type holds the values of a column, or of the field at `path` in it."""

    def __init__(self, why: str, *path: str) -> None:
        super().__init__(why)
        self.why = why
        self.path = path


class _Values:
    """What is known of the values of a column, of a field, or of the items of arrays."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self.fields: dict[str, _Values] = {}
        #: The distinct strings of a column.
        self.texts: dict[str, None] = {}
        self._items: _Values | None = None
        #: The type if there are only nulls, empty values, and those that are bad in a column of any type.
        self._only: pa.DataType | None = pa.string()
        self._has_fraction = self._is_beyond_bigint = self._is_beyond_decimal = self._is_inexact = False

    def items(self) -> _Values:
        """The values of the items."""
        if self._items is None:
            self._items = _Values()
        return self._items

    def add_list(self, *, is_empty: bool) -> None:
        """Add an array, but not its items."""
        if is_empty:
            self._only = pa.list_(pa.string())
        else:
            self._be("array")

    def add_object(self, *, is_empty: bool) -> None:
        """Add an object, but not its fields."""
        if is_empty:
            self._only = None  # no type of Hive has no fields
        else:
            self._be("object")

    def add_leaf(self, value: Any, *, is_column: bool) -> None:
        """Add a number, a boolean or a string."""
        if isinstance(value, bool):
            self._be("boolean")
        elif isinstance(value, NumberText):
            self._add_number(value, is_column=is_column)
        elif not _is_utf8(value):
            self._only = pa.string()
        else:
            self._be("string")
            if is_column:
                self.texts[value] = None

    def leaf_type(self) -> pa.DataType | None:
        """The type of values that are neither arrays nor objects; None if there are none."""
        if self.kind is None:
            return self._only
        if self.kind != "number":
            return pa.bool_() if self.kind == "boolean" else pa.string()
        if not self._has_fraction and not self._is_beyond_decimal:
            return HUGE if self._is_beyond_bigint else pa.int64()
        return pa.float64()

    def _add_number(self, text: str, *, is_column: bool) -> None:
        number = float(text)
        is_whole = text.lstrip("-").isdigit()
        if not is_whole and math.isinf(number):
            self._only = pa.float64()
            return
        self._be("number")
        if not is_whole:
            self._has_fraction = True
        else:
            digits = len(text.lstrip("-"))
            # `int` is slow for long texts, and refuses very long ones.
            whole = int(text) if digits <= _HUGE_DIGITS else None
            self._is_beyond_bigint |= whole is None or not -(2**63) <= whole < 2**63
            self._is_beyond_decimal |= whole is None
            self._is_inexact |= whole is None or int(number) != whole
            if self._is_beyond_bigint and not is_column:
                raise _NoType("it has whole numbers beyond bigint")
        if self._is_inexact and (self._has_fraction or self._is_beyond_decimal):
            raise _NoType("it has whole numbers with more digits than a double keeps")

    def _be(self, kind: str) -> None:
        if self.kind not in (None, kind):
            raise _NoType(f"it has values of two kinds, {self.kind} and {kind}")
        self.kind = kind


def _may_be_in_field_name(char: str) -> bool:
    return char.isalpha() or char.isdecimal() or char in _IN_FIELD_NAMES


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
