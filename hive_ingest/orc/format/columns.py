"""The columns of an ORC file as its footer describes them: types, names and statistics, in a tree.

Arrow's schema of a file lacks what is needed here: whether a string is a CHAR, and the minimum and maximum values.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from hive_ingest.errors import CorruptFile, UnsupportedFeature
from hive_ingest.orc.format.protobuf import (
    Field,
    WireError,
    as_bytes,
    as_signed,
    packed_varints,
    read_fields,
    scan_fields,
)
from hive_ingest.orc.format.tail import OrcTail


class OrcKind(enum.IntEnum):
    """The values of `Type.Kind` in orc_proto.proto that are used here."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


_NUMBER_OF_CHILDREN: dict[int, int] = {OrcKind.LIST: 1, OrcKind.MAP: 2}


#: Nanoseconds since 1970 that fit an Arrow timestamp (years 1677 to 2262).
_NANOSECONDS = range(-(2**63), 2**63)
_DAY_NS = 86_400_000_000_000
#: 1582-10-15, the first day of the Gregorian calendar, in days since 1970.
GREGORIAN_START = -141_427


@dataclass(frozen=True, slots=True)
class ColumnType:
    """One `Type` of the footer; `children` are numbers of columns, `names` are those of a struct's fields."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OrcColumn:
    """One column of the tree; `statistics` is its encoded `ColumnStatistics` over the whole file, or b""."""

    name: str
    kind: int
    statistics: bytes
    children: tuple[OrcColumn, ...] = ()

    def walk(self) -> Iterator[OrcColumn]:
        """The column and all columns below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> OrcColumn | None:
        return next((child for child in self.children if child.name == name), None)

    def extremes(self, kind: OrcKind) -> tuple[int, int] | None:
        """Minimum and maximum over all columns of a kind in this subtree; None if there is no value.

        Dates are in days, timestamps in nanoseconds since 1970. Raises UnsupportedFeature if the file has
        no statistics for it.
        """
        found = [_extremes(column) for column in self.walk() if column.kind == kind]
        known = [pair for pair in found if pair is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def check_columns(tail: OrcTail, path: str) -> None:
    """Raises CorruptFile for a file whose columns are not a tree."""
    if not _are_tree(tail.footer.types):
        column_tree(tail, path)


@lru_cache(maxsize=64)
def _are_tree(types: tuple[bytes, ...]) -> bool:
    try:
        _tree(types, ())
    except (WireError, IndexError, UnicodeDecodeError, RecursionError):
        return False
    return True


def kinds_of(tail: OrcTail) -> frozenset[int]:
    """The kinds of all columns, of a file whose columns have been checked."""
    return _kinds(tail.footer.types)


@lru_cache(maxsize=64)
def _kinds(types: tuple[bytes, ...]) -> frozenset[int]:
    return frozenset(type_.kind for type_ in column_types(types))


def _tree(types: tuple[bytes, ...], statistics: tuple[bytes, ...]) -> OrcColumn:
    builder = _TreeBuilder(types, statistics)
    root = builder.column("", 0)
    if builder.next_number != len(builder.types):
        raise WireError("it has columns outside its root struct")
    return root


def column_tree(tail: OrcTail, path: str) -> OrcColumn:
    """The root of the file's columns. Raises CorruptFile."""
    try:
        root = _tree(tail.footer.types, tail.footer.statistics)
    except (WireError, IndexError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(
            f"{path!r} is damaged: the types in its footer cannot be read ({error}). Restore the file from a copy"
        ) from error
    return root


def check_timestamps(column: OrcColumn, path: str) -> None:
    """Raises UnsupportedFeature if a timestamp in the column does not fit nanoseconds.

    Arrow holds what it reads from ORC in nanoseconds, and releases of pyarrow before 26 overflow without an error.
    """
    for kind in (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT):
        extremes = _extremes_in_file(column, kind, path)
        if extremes and not (extremes[0] in _NANOSECONDS and extremes[1] in _NANOSECONDS):
            raise UnsupportedFeature(
                f"column {column.name!r} of {path!r} holds timestamps outside the years 1677 to 2262, which "
                "nanoseconds cannot hold: leave the column out (columns=…), or read it with Hive"
            )


def oldest_date(column: OrcColumn, path: str) -> int | None:
    """In days since 1970; None if there is no date. Raises UnsupportedFeature if the statistics are missing."""
    extremes = _extremes_in_file(column, OrcKind.DATE, path)
    return extremes[0] if extremes else None


def _extremes_in_file(column: OrcColumn, kind: OrcKind, path: str) -> tuple[int, int] | None:
    try:
        return column.extremes(kind)
    except WireError as error:
        raise UnsupportedFeature(
            f"column {column.name!r} of {path!r} has no statistics ({error}), so its dates and timestamps cannot be "
            "read safely: rewrite the file by a major compaction"
        ) from error


@lru_cache(maxsize=64)  # cached: the files of a table usually have the same types
def column_types(types: tuple[bytes, ...]) -> tuple[ColumnType, ...]:
    """The types of a footer, in pre-order. Raises WireError, UnicodeDecodeError."""
    return tuple(map(_column_type, types))


def _column_type(message: bytes) -> ColumnType:
    kind, children, names = 0, [], []
    for field in read_fields(message):
        if field.number == 1:
            kind = field.as_int
        elif field.number == 2:
            children += packed_varints(field.value)
        elif field.number == 3:
            names.append(field.as_bytes.decode())
    expected = _NUMBER_OF_CHILDREN.get(kind, 0) if kind not in (OrcKind.STRUCT, OrcKind.UNION) else len(children)
    if len(children) != expected or (kind == OrcKind.STRUCT and len(names) != expected):
        raise WireError("a type does not have the children that it needs")
    return ColumnType(kind, tuple(children), tuple(names))


class _TreeBuilder:
    """Builds a tree of columns, which are numbered in pre-order."""

    def __init__(self, types: tuple[bytes, ...], statistics: tuple[bytes, ...]) -> None:
        self.types = column_types(types)
        self._statistics = statistics
        self.next_number = 0

    def column(self, name: str, number: int) -> OrcColumn:
        if number != self.next_number:
            raise WireError("a column is not where its parent expects it")
        self.next_number += 1
        type_ = self.types[number]
        names = type_.names or [""] * len(type_.children)
        children = tuple(map(self.column, names, type_.children))
        statistics = self._statistics[number] if number < len(self._statistics) else b""
        return OrcColumn(name, type_.kind, statistics, children)


#: Bytes of a value in memory, by kind; of texts and binaries, what comes on top of their length.
_VALUE_BYTES = {
    0: 1,
    1: 1,
    2: 2,
    3: 4,
    4: 8,
    5: 4,
    6: 8,
    7: 4,
    8: 4,
    9: 8,
    10: 4,
    11: 4,
    14: 16,
    15: 4,
    16: 4,
    17: 4,
    18: 8,
}
#: Where `ColumnStatistics` has the sum of lengths: the field of texts or binaries, and its field.
_LENGTHS = {4: 3, 8: 1}
_TEXT_KINDS = frozenset({OrcKind.STRING, OrcKind.BINARY, OrcKind.VARCHAR, OrcKind.CHAR})


def bytes_per_row(tail: OrcTail) -> float:
    """What a row takes as Arrow data in memory, roughly, by the statistics of the file; 0 where it has none."""
    footer = tail.footer
    try:
        total = sum(map(_column_bytes, column_types(footer.types), footer.statistics))
    except (WireError, UnicodeDecodeError):
        return 0.0
    return total / max(1, footer.rows)


def _column_bytes(type_: ColumnType, statistics: bytes) -> int:
    fields = {field.number: field for field in read_fields(statistics)}
    values = fields[_VALUES].as_int if _VALUES in fields else 0
    lengths = 0
    for number, part in _LENGTHS.items():
        if number in fields:
            typed = {field.number: field for field in read_fields(fields[number].as_bytes)}
            lengths += max(0, typed[part].as_signed) if part in typed else 0
    return values * _VALUE_BYTES.get(type_.kind, 0) + lengths


def text_bytes(tail: OrcTail) -> int:
    """What the texts and binaries of a file take in memory, by its statistics. Raises WireError."""
    statistics = tail.footer.statistics
    return sum(_lengths(statistics[number]) for number in _texts(tail.footer.types) if number < len(statistics))


@lru_cache(maxsize=64)
def _texts(types: tuple[bytes, ...]) -> tuple[int, ...]:
    return tuple(number for number, type_ in enumerate(column_types(types)) if type_.kind in _TEXT_KINDS)


def _lengths(statistics: bytes) -> int:
    for number, value, _, _ in scan_fields(statistics):
        if number in _LENGTHS:
            return sum(as_signed(n, v) for n, v, _, _ in scan_fields(as_bytes(number, value)) if n == _LENGTHS[number])
    return 0


#: Field numbers in `ColumnStatistics`.
_VALUES, _DATES, _TIMESTAMPS = 1, 7, 9


def _extremes(column: OrcColumn) -> tuple[int, int] | None:
    wanted = _DATES if column.kind == OrcKind.DATE else _TIMESTAMPS
    fields = {field.number: field for field in read_fields(column.statistics)}
    if _VALUES in fields and fields[_VALUES].as_int == 0:
        return None
    if wanted not in fields:
        raise WireError("no minimum and maximum")
    typed = {field.number: field for field in read_fields(fields[wanted].as_bytes)}
    found = _pair(typed, 1) if wanted == _DATES else _timestamps(typed)
    if found is None:
        raise WireError("no minimum and maximum")
    return found


def _timestamps(typed: Mapping[int, Field]) -> tuple[int, int] | None:
    """Convert from milliseconds in UTC, or in an unknown time zone: then widened by a day on either side."""
    in_utc = _pair(typed, 3)
    if in_utc is not None:
        below = typed[6].as_int - 1 if 6 in typed else 999_999  # nanoseconds below the largest millisecond
        return in_utc[0] * 1_000_000, in_utc[1] * 1_000_000 + below
    in_zone = _pair(typed, 1)
    return in_zone and (in_zone[0] * 1_000_000 - _DAY_NS, (in_zone[1] + 1) * 1_000_000 + _DAY_NS)


def _pair(typed: Mapping[int, Field], number: int) -> tuple[int, int] | None:
    if number in typed and number + 1 in typed:
        return typed[number].as_signed, typed[number + 1].as_signed
    return None
