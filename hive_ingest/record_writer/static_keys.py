"""Fields of records that have the name of a static partition key: their value must be that of the partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hive_ingest.acid import EXACT_KINDS, text_of_value
from hive_ingest.model import DEFAULT_PARTITION_NAME
from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.typed_columns import TypedColumn, typed_columns
from hive_ingest.record_writer.writer import RecordSchema


class StaticKeys:
    """The static partition keys of a schema. They are parsed as further columns, compared, and left out of the rows.

    A record may lack them, or have null. Keys whose type has no exact text are not compared.
    """

    def __init__(self, schema: RecordSchema) -> None:
        columns = typed_columns([column for column, _ in schema.static_values])
        texts = [_text(text) for _, text in schema.static_values]
        compared = [
            (column, text) for column, text in zip(columns, texts, strict=True) if column[1].kind in EXACT_KINDS
        ]
        #: What is to be parsed after the columns of the rows.
        self.columns: list[TypedColumn] = [column for column, _ in compared]
        self.names = frozenset(name for name, _ in self.columns)
        self._texts = [text for _, text in compared]

    @property
    def fields(self) -> list[pa.Field]:
        """The Arrow fields of the columns."""
        return [pa.field(name, type_.arrow) for name, type_ in self.columns]

    def check(self, arrays: Sequence[pa.Array]) -> None:
        """Compare what was parsed for the columns.

        Raises:
            BadValue: A value is not that of the partition.
        """
        for (name, type_), expected, array in zip(self.columns, self._texts, arrays, strict=True):
            if array.null_count == len(array):
                continue
            for value in array.dictionary_encode().dictionary.to_pylist():
                text = _text(text_of_value(value, type_))
                if text != expected:
                    raise BadValue(
                        f"{shown(text or '')} contradicts the static partition value {shown(expected or '')}", name
                    )

    def checked_row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The row without the static keys, which are its last values. Raises BadValue."""
        if not self.columns:
            return row
        count = len(row) - len(self.columns)
        found = row[count:]
        if any(value is not None for value in found):
            self.check([pa.array([value], type_.arrow) for value, (_, type_) in zip(found, self.columns, strict=True)])
        return row[:count]


def _text(text: str) -> str | None:
    """None for the default partition."""
    return None if text in ("", DEFAULT_PARTITION_NAME) else text
