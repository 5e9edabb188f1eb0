"""The columns of an ORC file as its footer tells them: types, names and statistics, in a tree.

Arrow's schema of a file loses what matters here: that a string is a CHAR, and the smallest and largest values.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hive_ingest.errors import CorruptFile, UnsupportedFeature
from hive_ingest.orc.protobuf import Field, WireError, read_fields, read_varint
from hive_ingest.orc.tail import OrcTail


class OrcKind(enum.IntEnum):
    """`Type.Kind` of orc_proto.proto, as far as it is asked for here."""

    TIMESTAMP = 9
    STRUCT = 12
    DATE = 15
    CHAR = 17
    TIMESTAMP_INSTANT = 18


#: Nanoseconds since 1970 that fit an Arrow timestamp (years 1677 to 2262).
_NANOSECONDS = range(-(2**63), 2**63)
_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True, slots=True)
class OrcColumn:
    """One column of the tree; `statistics` is its encoded `ColumnStatistics` over the whole file, or b""."""

    name: str
    kind: int
    statistics: bytes
    children: tuple[OrcColumn, ...] = ()

    def walk(self) -> Iterator[OrcColumn]:
        """Itself and everything below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> OrcColumn | None:
        return next((child for child in self.children if child.name == name), None)

    def extremes(self, kind: OrcKind) -> tuple[int, int] | None:
        """Smallest and largest value below this column among those of a kind; None when there is no value.

        Dates are in days, timestamps in nanoseconds since 1970. Raises UnsupportedFeature when the writer left
        the statistics out.
        """
        found = [_extremes(column) for column in self.walk() if column.kind == kind]
        known = [pair for pair in found if pair is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def column_tree(tail: OrcTail, path: str) -> OrcColumn:
    """The root of the file's columns. Raises CorruptFile."""
    try:
        return _column(tail, 0, "")
    except (WireError, IndexError) as error:
        raise CorruptFile(
            f"{path!r} is no ORC file that can be read: its footer's types are broken ({error})"
        ) from error


def check_timestamps(column: OrcColumn, path: str) -> None:
    """Raises UnsupportedFeature when a timestamp in it does not fit nanoseconds.

    Arrow holds what it reads from ORC in nanoseconds, and releases of pyarrow before 26 overflow without a word.
    """
    for kind in (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT):
        extremes = _told_where(column, kind, path)
        if extremes and not (extremes[0] in _NANOSECONDS and extremes[1] in _NANOSECONDS):
            raise UnsupportedFeature(
                f"column {column.name!r} of {path!r} holds timestamps outside the years 1677 to 2262, which "
                "nanoseconds cannot hold: leave the column out (columns=…), or read it with Hive"
            )


def oldest_date(column: OrcColumn, path: str) -> int | None:
    """In days since 1970; None without any date. Raises UnsupportedFeature when the statistics are not there."""
    extremes = _told_where(column, OrcKind.DATE, path)
    return extremes[0] if extremes else None


def _told_where(column: OrcColumn, kind: OrcKind, path: str) -> tuple[int, int] | None:
    try:
        return column.extremes(kind)
    except WireError as error:
        raise UnsupportedFeature(
            f"column {column.name!r} of {path!r} has no statistics ({error}), so its dates and timestamps cannot be "
            "read safely: rewrite the file by a major compaction"
        ) from error


def _column(tail: OrcTail, number: int, name: str) -> OrcColumn:
    kind, children, names = 0, [], []
    for field in read_fields(tail.footer.types[number]):
        if field.number == 1:
            kind = field.as_int
        elif field.number == 2:
            children += _numbers(field)
        elif field.number == 3:
            names.append(field.as_bytes.decode("utf-8", "replace"))
    if any(child <= number for child in children):
        raise WireError("a column holds itself")
    names += [""] * (len(children) - len(names))
    statistics = tail.footer.statistics
    return OrcColumn(
        name,
        kind,
        statistics[number] if number < len(statistics) else b"",
        tuple(_column(tail, child, child_name) for child, child_name in zip(children, names, strict=True)),
    )


def _numbers(field: Field) -> list[int]:
    if isinstance(field.value, int):
        return [field.value]
    found, at = [], 0
    while at < len(field.value):
        number, at = read_varint(field.value, at)
        found.append(number)
    return found


#: Field numbers in `ColumnStatistics`.
_VALUES, _DATES, _TIMESTAMPS = 1, 7, 9


def _extremes(column: OrcColumn) -> tuple[int, int] | None:
    wanted = _DATES if column.kind == OrcKind.DATE else _TIMESTAMPS
    fields = {field.number: field for field in read_fields(column.statistics)}
    if _VALUES in fields and fields[_VALUES].as_int == 0:
        return None
    if wanted not in fields:
        raise WireError("no smallest and largest value")
    typed = {field.number: field for field in read_fields(fields[wanted].as_bytes)}
    found = _pair(typed, 1) if wanted == _DATES else _timestamps(typed)
    if found is None:
        raise WireError("no smallest and largest value")
    return found


def _timestamps(typed: Mapping[int, Field]) -> tuple[int, int] | None:
    """From milliseconds in UTC, or of some time zone: then a day is kept clear on either side."""
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
