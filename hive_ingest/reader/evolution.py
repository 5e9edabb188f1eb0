"""From the columns of a file to the columns that the table has now.

Columns are matched by position, as Hive 4 does for ACID tables: a renamed column keeps its values, a column added
at the end is null in older files. Fields of a struct are matched by name. Types may only have grown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import UnsupportedFeature
from hive_ingest.model import Column
from hive_ingest.orc import GREGORIAN_START, OrcColumn, OrcKind, check_timestamps, oldest_date
from hive_ingest.reader.fields import names_to_read
from hive_ingest.schema import HiveType, is_widening, parse_type

#: `calendar` in the footer of a file whose older dates are Julian: Hive 4 writes so by default.
JULIAN_GREGORIAN = 1

_TEXTS = ("string", "char", "varchar")


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where one column of the table comes from in one file.

    Attributes:
        name: The file's; None: a column that it lacks.
        type: The column's in the table.
        names: What to read of it, dotted.
        target: The type to read it as, if it is a struct of which only some fields are read.
    """

    name: str | None
    type: HiveType
    strip_char: bool = False
    julian: bool = False
    names: tuple[str, ...] = ()
    target: pa.DataType | None = None

    def read(self, array: Any, rows: int) -> Any:
        """The column in the table's type, from the file's array (None if it has none)."""
        target = self.type.arrow if self.target is None else self.target
        if array is None:
            return pa.nulls(rows, target)
        if self.type.kind in _TEXTS:
            return _as_text(array, self.type, self.strip_char)
        if self.julian:
            array = _gregorian(array)
        return array if array.type == target else array.cast(target)


def column_sources(
    columns: Sequence[Column],
    wanted: frozenset[str],
    row: OrcColumn,
    row_type: pa.StructType,
    *,
    calendar: int | None,
    path: str,
    types: Mapping[str, pa.DataType] | None = None,
) -> dict[str, ColumnSource]:
    """One source for each wanted column, by the table's name.

    Args:
        columns: The table's, without partition keys.
        wanted: Names of those to read.
        row: The file's columns.
        row_type: The same, as Arrow has them.
        calendar: Of the file's dates.
        path: Of the file, for messages.
        types: For structs of which only some fields are read, the type that has these.

    Raises:
        UnsupportedFeature: The file's columns are in another order, its types do not widen to the table's, or its
            dates and timestamps cannot be held.
    """
    _check_order(columns, row, path)
    found = {}
    for i, column in enumerate(columns):
        if column.name not in wanted:
            continue
        target = (types or {}).get(column.name)
        if i < len(row.children):
            source = _source(column, row.children[i], row_type.field(i).type, calendar, path)
            found[column.name] = _narrowed(source, row_type.field(i).type, target)
        else:
            found[column.name] = ColumnSource(None, parse_type(column.type), target=target)
    return found


def _narrowed(source: ColumnSource, found: pa.DataType, target: pa.DataType | None) -> ColumnSource:
    """With what to read of the column."""
    assert source.name is not None
    whole = source.type.arrow
    target = whole if target is None else target
    return replace(source, names=names_to_read(source.name, found, whole, target), target=target)


def _check_order(columns: Sequence[Column], row: OrcColumn, path: str) -> None:
    """Hive would take the values of one column for another's where a column was dropped or moved."""
    in_table: Mapping[str, int] = {column.name: i for i, column in enumerate(columns)}
    for i, child in enumerate(row.children):
        place = in_table.get(child.name.lower(), i)
        if place != i:
            raise UnsupportedFeature(
                f"{path!r} has {child.name!r} as column {i + 1}, the table as column {place + 1}: columns are matched "
                "by position, so put the table's columns back in the old order, new ones last"
            )


def _source(column: Column, found: OrcColumn, type_: pa.DataType, calendar: int | None, path: str) -> ColumnSource:
    target = parse_type(column.type)
    if not is_widening(type_, target):
        raise UnsupportedFeature(
            f"{path!r} has {type_} in column {found.name!r}, the table {column.type}: not every such value fits. "
            "Alter the column back, or rewrite the table"
        )
    check_timestamps(found, path)
    julian = calendar == JULIAN_GREGORIAN and (oldest_date(found, path) or 0) < GREGORIAN_START
    if julian and found.kind != OrcKind.DATE:
        raise UnsupportedFeature(
            f"column {found.name!r} of {path!r} holds dates before 1582-10-15 inside {column.type}, in the Julian "
            "calendar: leave the column out (columns=…), or read it with Hive"
        )
    strip_char = found.kind == OrcKind.CHAR and target.kind != "char"
    return ColumnSource(found.name, target, strip_char, julian)


# -- values ----------------------------------------------------------------------------------------


def _as_text(array: Any, type_: HiveType, strip_char: bool) -> Any:
    """char(n) is padded with spaces to n characters, as Hive returns it; what is longer than n is cut."""
    if strip_char:
        array = pc.utf8_rtrim(array, characters=" ")
    if type_.kind == "string":
        return array
    (length,) = type_.parameters
    if (pc.max(pc.binary_length(array)).as_py() or 0) > length:
        array = pc.utf8_slice_codeunits(array, 0, length)
    return pc.utf8_rpad(array, length) if type_.kind == "char" else array


def _gregorian(dates: Any) -> Any:
    """Days since 1970 of the Julian calendar, before 1582-10-15, as days with the same name in the Gregorian one."""
    nulls = dates.is_null().to_numpy(zero_copy_only=False)
    days = dates.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    old = days < GREGORIAN_START
    days[old] = _days_of_name(days[old])
    return pa.array(days.astype(np.int32), pa.int32(), mask=nulls).cast(pa.date32())


def _days_of_name(julian_days: Any) -> Any:
    # Years of March to February, counted from March of year -4800, have the leap day last.
    number = julian_days + 2_440_588 + 32_082
    year = (4 * number + 3) // 1461
    day_of_year = number - 1461 * year // 4
    # The same day of the same year in the other calendar: only the leap days of full centuries differ.
    return day_of_year + 365 * year + year // 4 - year // 100 + year // 400 - 32_044 - 2_440_588
