"""Conversion between Hive type strings and Arrow types.

| Hive                                   | Arrow                          |
|----------------------------------------|--------------------------------|
| boolean, tinyint … bigint              | bool, int8 … int64             |
| float, double, decimal(p,s)            | float32, float64, decimal128   |
| string, char(n), varchar(n)            | string                         |
| binary, date, timestamp                | binary, date32, timestamp[ns]  |
| array<t>, map<k,v>, struct<name:t,…>   | list, map, struct              |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.model import Column

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
}
_ALIASES = {"integer": "int", "double precision": "double", "dec": "decimal", "numeric": "decimal"}
_UNSUPPORTED = ("timestamp with local time zone", "uniontype", "interval_year_month", "interval_day_time", "void")
_UNSUPPORTED_ZONE = (
    "Hive can create a table with it, but cannot read it from ORC files: use timestamp, with the wall clock of one "
    "zone (timestamp_formats and timezone of the record writers, zoned_timestamps='local' for Arrow data)"
)
#: Longest char and varchar that Hive accepts (`HiveChar.MAX_CHAR_LENGTH`, `HiveVarchar.MAX_VARCHAR_LENGTH`).
MAX_LENGTH = {"char": 255, "varchar": 65535}
#: Largest decimal precision (`HiveDecimal.MAX_PRECISION`).
MAX_DECIMAL_PRECISION = 38


@dataclass(frozen=True, slots=True)
class HiveType:
    """A parsed type. `parameters` are (precision, scale) or (length,); `children` carry a struct's field names."""

    kind: str
    parameters: tuple[int, ...] = ()
    children: tuple[tuple[str, HiveType], ...] = ()

    def __str__(self) -> str:
        if self.kind == "struct":
            return f"struct<{','.join(f'{name}:{child}' for name, child in self.children)}>"
        if self.children:
            return f"{self.kind}<{','.join(str(child) for _, child in self.children)}>"
        if self.parameters:
            return f"{self.kind}({','.join(map(str, self.parameters))})"
        return self.kind

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of its values."""
        if self.kind in _SIMPLE:
            return _SIMPLE[self.kind]
        if self.kind == "decimal":
            return pa.decimal128(*self.parameters)
        if self.kind in MAX_LENGTH:
            return pa.string()
        children = [(name, child.arrow) for name, child in self.children]
        if self.kind == "array":
            return pa.list_(children[0][1])
        if self.kind == "map":
            return pa.map_(children[0][1], children[1][1])
        return pa.struct([pa.field(name, type_) for name, type_ in children])


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"{self.text!r} is not a Hive type: {why} at position {self.at}")

    def word(self, stop: str) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stop:
            self.at += 1
        return self.text[start : self.at].strip().lower()

    def expect(self, char: str) -> None:
        if self.text[self.at : self.at + 1] != char:
            raise self.fail(f"expected {char!r}")
        self.at += 1

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def type(self) -> HiveType:
        kind = self.word("<>(),:")
        kind = _ALIASES.get(kind, kind)
        if kind in _UNSUPPORTED:
            why = _UNSUPPORTED_ZONE if kind.startswith("timestamp") else "see docs/limits.md"
            raise UnsupportedFeature(f"type {kind!r} is not supported; {why}")
        if kind == "decimal":
            return self.decimal()
        if kind in MAX_LENGTH:
            return self.characters(kind)
        if kind in ("array", "map", "struct"):
            self.expect("<")
            children = self.children(kind)
            self.expect(">")
            return HiveType(kind, children=children)
        if kind not in _SIMPLE:
            raise self.fail(f"{kind!r} is unknown")
        return HiveType(kind)

    def numbers(self) -> tuple[int, ...]:
        if self.peek() != "(":
            return ()
        self.at += 1
        try:
            found = tuple(int(x) for x in self.word(")").split(","))
        except ValueError as error:
            raise self.fail("expected whole numbers") from error
        self.expect(")")
        return found

    def decimal(self) -> HiveType:
        numbers = self.numbers() or (10,)  # Hive's default is decimal(10,0)
        if len(numbers) > 2:
            raise self.fail("decimal requires a precision and a scale")
        precision, scale = (*numbers, 0)[:2]
        if not (1 <= precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
            raise self.fail(f"decimal({precision},{scale}) is out of range (precision 1 to 38, scale 0 to precision)")
        return HiveType("decimal", (precision, scale))

    def characters(self, kind: str) -> HiveType:
        numbers = self.numbers()
        if len(numbers) != 1 or not 1 <= numbers[0] <= MAX_LENGTH[kind]:
            raise self.fail(f"{kind} requires one length, 1 to {MAX_LENGTH[kind]}")
        return HiveType(kind, numbers)

    def children(self, kind: str) -> tuple[tuple[str, HiveType], ...]:
        if kind == "array":
            return (("item", self.type()),)
        if kind == "map":
            key = self.type()
            self.expect(",")
            return (("key", key), ("value", self.type()))
        found: list[tuple[str, HiveType]] = []
        while True:
            name = self.word(":<>(),")
            self.expect(":")
            if not name or name in {n for n, _ in found}:
                raise self.fail(f"a struct field's name is empty or occurs twice ({name!r})")
            found.append((name, self.type()))
            if self.peek() != ",":
                return tuple(found)
            self.at += 1


def parse_type(text: str) -> HiveType:
    """Parse a type such as `"map<string,array<decimal(10,2)>>"`.

    Raises:
        ConfigurationError: There is no such type.
        UnsupportedFeature: Hive has the type, but it is not supported here.
    """
    parser = _Parser(text.strip())
    found = parser.type()
    if parser.at != len(parser.text):
        raise parser.fail("the type ends before the text does")
    return found


def is_same_type(one: str, other: str) -> bool:
    """Whether two texts stand for one Hive type."""
    return type_text(one) == type_text(other)


def type_text(type_: str) -> str:
    """A type in its usual spelling; one of Hive that is not supported here stays as it is."""
    try:
        return str(parse_type(type_))
    except (ConfigurationError, UnsupportedFeature):
        return type_.lower()


@lru_cache(maxsize=1024)
def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a Hive type string."""
    return parse_type(text).arrow


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """One nullable Arrow field a column, in order."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


_REVERSE = {str(arrow): hive for hive, arrow in _SIMPLE.items()}


def hive_type(type_: pa.DataType) -> str:
    """The Hive type string that holds every value of an Arrow type. Raises UnsupportedFeature."""
    name = str(type_)
    if name in _REVERSE:
        return _REVERSE[name]
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "string"
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_) or pa.types.is_fixed_size_binary(type_):
        return "binary"
    if pa.types.is_dictionary(type_):
        return hive_type(type_.value_type)
    if pa.types.is_unsigned_integer(type_) and type_.bit_width < 64:
        return {8: "smallint", 16: "int", 32: "bigint"}[type_.bit_width]
    if pa.types.is_timestamp(type_) and type_.tz is None:
        return "timestamp"
    if pa.types.is_date64(type_):
        return "date"
    if pa.types.is_decimal(type_) and type_.precision <= MAX_DECIMAL_PRECISION and type_.scale >= 0:
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return f"array<{hive_type(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{hive_type(type_.key_type)},{hive_type(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(f'{f.name.lower()}:{hive_type(f.type)}' for f in type_)}>"
    if pa.types.is_timestamp(type_):
        raise UnsupportedFeature(
            f"Arrow's {type_} has a time zone, Hive's timestamp has none: cast the column first, or choose timestamp "
            "for it and write with zoned_timestamps='local'"
        )
    raise UnsupportedFeature(f"no Hive type holds every value of Arrow's {type_}: cast the column first")


# -- columns of data -----------------------------------------------------------------------------------

#: The beginning of pandas' names for indexes without a name.
_INDEX_COLUMN = "__index_level_"


def is_unnamed_index(name: str) -> bool:
    """Whether a column is an index of pandas without a name, which is no data."""
    return name.startswith(_INDEX_COLUMN)


def schema_of(data: object) -> pa.Schema:
    """The Arrow schema of data, without its unnamed pandas indexes.

    Args:
        data: A `pyarrow.Schema`, or data with the Arrow interface: tables, batches and readers of pyarrow, data frames
            of pandas and polars. A `RecordBatchReader` is not read; another stream that can be read only once is.

    Raises:
        ConfigurationError: It is none of these.
    """
    found = data if isinstance(data, pa.Schema) else getattr(data, "schema", None)
    if objects := object_columns(data):
        raise ConfigurationError(objects)
    if not isinstance(found, pa.Schema):
        found = _exported_schema(data)
    return pa.schema([field for field in found if not is_unnamed_index(field.name)])


def object_columns(data: object) -> str:
    """What is wrong with columns of Python objects in a polars frame, as which it keeps UUIDs; "" if there are none.

    Its Arrow form of them is the addresses of the objects in memory.
    """
    schema = getattr(data, "schema", None)
    names = [name for name, type_ in schema.items() if str(type_) == "Object"] if isinstance(schema, Mapping) else []
    if not names:
        return ""
    return f"column {names[0]!r} has Python objects, which have no Arrow form: convert them first, for example to text"


def _exported_schema(data: Any) -> pa.Schema:
    try:
        if hasattr(data, "__arrow_c_schema__"):
            return pa.schema(data)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).schema
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConfigurationError(f"the columns of {type(data).__name__} data cannot be read: {error}") from error
    raise ConfigurationError(
        f"{type(data).__name__} has no Arrow schema: give a pyarrow.Schema, a pyarrow.Table, or a data frame of pandas "
        "or polars"
    )


def columns_of_schema(schema: pa.Schema, types: Mapping[str, str] | None = None) -> tuple[Column, ...]:
    """The columns of a table that holds every value of an Arrow schema.

    Args:
        schema: The schema. Names become lower case.
        types: Hive types of some columns, which replace the derived ones.

    Raises:
        UnsupportedFeature: No Hive type holds a column's values; all such columns are named.
        ConfigurationError: `types` names a column that is not there.
    """
    given = {name.lower(): type_ for name, type_ in (types or {}).items()}
    names = [field.name.lower() for field in schema]
    if unknown := [name for name in given if name not in names]:
        raise ConfigurationError(
            f"a type is given for column {unknown[0]!r}, which the data does not have: its columns are "
            f"{', '.join(names)}"
        )
    found, problems = [], []
    for field, name in zip(schema, names, strict=True):
        try:
            found.append(Column(name, given[name] if name in given else hive_type(field.type)))
        except UnsupportedFeature as error:
            problems.append(f"column {field.name!r}: {error}")
    if problems:
        raise UnsupportedFeature(
            f"{'; '.join(problems)}. Or give the types of these columns (columns=… of create_table)"
        )
    return tuple(found)


# -- types that grow -----------------------------------------------------------------------------------

_TEXTS = ("string", "char", "varchar")
_INTEGERS: list[pa.DataType] = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
_DIGITS: dict[pa.DataType, int] = dict(zip(_INTEGERS, (3, 5, 10, 19), strict=True))
#: Integers of which every value is exact in a floating-point type.
_EXACT_IN = {"float": _INTEGERS[:2], "double": _INTEGERS[:3]}


def is_widening(source: pa.DataType, target: HiveType) -> bool:
    """Whether every value of a file's type is one of the table's, by Hive's own conversion."""
    if target.kind == "struct":
        return bool(pa.types.is_struct(source)) and _fields_widen(source, target)
    if target.children:
        same = bool(pa.types.is_list(source) if target.kind == "array" else pa.types.is_map(source))
        inner = [source.field(i).type for i in range(source.num_fields)]
        inner = [inner[0].field(0).type, inner[0].field(1).type] if same and target.kind == "map" else inner
        return same and all(map(is_widening, inner, [child for _, child in target.children]))
    if target.kind in _TEXTS:
        return bool(pa.types.is_string(source))
    if target.kind == "decimal":
        return _fits_decimal(source, *target.parameters)
    if target.kind == "double" and source == pa.float32():
        return True
    return source == target.arrow or source in _narrower(target)


def _narrower(target: HiveType) -> list[pa.DataType]:
    if target.arrow in _INTEGERS:
        return _INTEGERS[: _INTEGERS.index(target.arrow)]
    return _EXACT_IN.get(target.kind, [])


def _fits_decimal(source: pa.DataType, precision: int, scale: int) -> bool:
    if source in _DIGITS:
        return precision - scale >= _DIGITS[source]
    if not pa.types.is_decimal(source):
        return False
    return bool(scale >= source.scale and precision - scale >= source.precision - source.scale)


def _fields_widen(source: pa.StructType, target: HiveType) -> bool:
    """A field that the file lacks is null, but one that is there in other letters would be lost."""
    by_name = {field.name: field.type for field in source}
    lower = {field.name.lower() for field in source}
    return all(
        is_widening(by_name[name], child) if name in by_name else name not in lower for name, child in target.children
    )
