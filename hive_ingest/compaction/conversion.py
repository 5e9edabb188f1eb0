"""From the columns that a file has to those of the table, as readers convert them, for writing them down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.model import Column
from hive_ingest.orc import OrcColumn, OrcKind, RowConversion, StripeReader, StripeRows, kinds_of
from hive_ingest.reader import ColumnSource, column_sources
from hive_ingest.schema import arrow_schema

_CHECKED_KINDS = frozenset({OrcKind.DATE, OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT})


def conversion_to(columns: Sequence[Column]) -> Callable[[StripeReader], RowConversion | None]:
    """For each file, how to come from its columns to `columns`; None where they are the same.

    What it returns raises UnsupportedFeature for a file whose columns do not fit (see `reader.column_sources`).
    """
    schema = arrow_schema(columns)
    row_type = pa.struct(list(schema))

    def find(reader: StripeReader) -> RowConversion | None:
        sources = list(
            column_sources(
                columns,
                frozenset(schema.names),
                reader.row,
                reader.row_type,
                calendar=reader.calendar,
                path=reader.path,
            ).values()
        )
        stored = [*reader.row.children[: len(sources)], *[None] * (len(sources) - len(reader.row.children))]
        if reader.row_type == row_type and all(map(_changes_nothing, sources, stored)):
            return None
        return lambda rows: _converted(sources, stored, rows)

    found: dict[object, RowConversion | None] = {}  # tables have few generations of columns

    def conversion(reader: StripeReader) -> RowConversion | None:
        if kinds_of(reader.tail) & _CHECKED_KINDS:
            return find(reader)  # by the file's own smallest and largest values
        key = (reader.tail.footer.types, reader.calendar)
        if key not in found:
            found[key] = find(reader)
        return found[key]

    return conversion


def _changes_nothing(source: ColumnSource, stored: OrcColumn | None) -> bool:
    return source.name is not None and not source.julian and not _is_padded(stored)


def _converted(sources: Sequence[ColumnSource], stored: Sequence[OrcColumn | None], rows: StripeRows) -> list[pa.Array]:
    read = rows.columns()
    return [
        _column(source, column, None if source.name is None else read[source.name], len(rows))
        for source, column in zip(sources, stored, strict=True)
    ]


def _column(source: ColumnSource, stored: OrcColumn | None, array: pa.Array | None, rows: int) -> pa.Array:
    """Text stays as it is in the file: readers cut and pad it, by the length that the column has when they read."""
    if array is None or source.type.arrow != pa.string():
        return source.read(array, rows)
    return pc.utf8_rtrim(array, characters=" ") if _is_padded(stored) else array


def _is_padded(stored: OrcColumn | None) -> bool:
    """A char(n) of Hive's, which the ORC library pads with blanks; our files hold it as a string, without them."""
    return stored is not None and stored.kind == OrcKind.CHAR
