"""Reads stripes in Hive's ACID schema (see `acid_schema`) from a file, or from files joined in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as orc

from hive_ingest.arrow_arrays import numbers_of
from hive_ingest.errors import CorruptFile, UnsupportedFeature
from hive_ingest.orc.acid_schema import ACID_COLUMNS, BUCKET, ORIGINAL_WRITE_ID, ROW, ROW_ID
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.format.columns import OrcColumn, OrcKind, check_columns, column_tree, column_types
from hive_ingest.orc.format.protobuf import WireError, read_fields
from hive_ingest.orc.format.stripe_bounds import StripeBounds
from hive_ingest.orc.format.stripe_statistics import stripe_statistics
from hive_ingest.orc.format.tail import OrcTail
from hive_ingest.orc.reader.original_rows import OriginalRows


class StripeReader:
    """An ORC file whose tail is known; the ORC library opens it when its rows or their type are first requested."""

    def __init__(
        self, content: pa.NativeFile, tail: OrcTail, path: str, *, original: OriginalRows | None = None
    ) -> None:
        """
        Args:
            content: The file's bytes.
            tail: Its tail.
            path: For messages.
            original: The ids of its rows, if it lacks the ACID columns.

        Raises:
            CorruptFile: It is not an ACID file; or, with `original`, it is one.
        """
        self.path = path
        self.calendar = tail.footer.calendar
        self.num_stripes = len(tail.footer.stripes)
        self._content = content
        self._tail = tail
        self._original = original
        check_columns(tail, path)
        if original is None:
            _check_acid_columns(tail, path)
        else:
            _check_original_columns(tail, path)

    @property
    def tail(self) -> OrcTail:
        return self._tail

    @property
    def content(self) -> pa.NativeFile:
        """The file's bytes, verified as they are read where it has checksums."""
        return self._content

    def bounds(self, stripe: int) -> StripeBounds | None:
        """What is known of the values in a stripe; None where the file has no statistics of it.

        Raises StreamingIOFailure.
        """
        statistics = self._stripe_statistics
        if statistics is None:
            return None
        rows = self._tail.footer.stripes[stripe].rows
        return StripeBounds(self._tail, statistics[stripe], rows, is_acid=self._original is None)

    @cached_property
    def _stripe_statistics(self) -> list[tuple[bytes, ...]] | None:
        """Messages for each stripe and column."""
        footer = self._tail.footer
        if len(footer.stripes) == 1:
            return [footer.statistics]
        try:
            found = stripe_statistics(self._content, self._tail, self.path) or []
            parts = [tuple(each.as_bytes for each in read_fields(part) if each.number == 1) for part in found]
            return parts or None
        except (CorruptFile, WireError):
            return None  # they are not needed, and the rows may be whole

    @cached_property
    def row(self) -> OrcColumn:
        """The table's columns as ORC has them."""
        root = column_tree(self._tail, self.path)
        return root if self._original else root.children[-1]

    @cached_property
    def row_type(self) -> pa.StructType:
        """The table's columns as Arrow has them. Raises CorruptFile, UnsupportedFeature."""
        schema = self._orc.schema
        return pa.struct(list(schema)) if self._original else schema.field(ROW).type

    def read(self, stripe: int, acid: Sequence[str], row: Sequence[str]) -> StripeRows:
        """Read the named ACID columns and children of `row` of one stripe.

        Raises:
            CorruptFile: The stripe is damaged.
            UnsupportedFeature: It has a feature that pyarrow cannot read.
            StreamingIOFailure: It cannot be read.
        """
        return self._read(stripe, [*acid, *(f"{ROW}.{name}" for name in row)])

    def read_all(self, stripe: int) -> StripeRows:
        """All columns of one stripe; errors as for `read`."""
        return self._read(stripe, None)

    def _read(self, stripe: int, names: list[str] | None) -> StripeRows:
        self._before_read(stripe)
        file = self._orc
        try:
            if self._original is None:
                return StripeRows(_read_columns(file, stripe, names))
            return StripeRows(
                self._read_original(file, self._original, stripe, ACID_COLUMNS if names is None else names)
            )
        except (pa.ArrowException, OSError) as error:
            self._raise_failure(error)
            raise CorruptFile(
                f"stripe {stripe} of {self.path!r} cannot be read: {error}. Restore the file from a copy"
            ) from error

    def _read_original(
        self, file: orc.ORCFile, original: OriginalRows, stripe: int, names: Sequence[str]
    ) -> pa.RecordBatch:
        """The file's columns are the children of `row`; the ACID columns are made."""
        prefix = f"{ROW}."
        children = None if ROW in names else [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        rows = [each.rows for each in self._tail.footer.stripes]
        acid = [name for name in names if name in ACID_COLUMNS]
        columns = original.acid_columns(acid, sum(rows[:stripe]), rows[stripe])
        if children is None or children:
            found = _read_columns(file, stripe, children)
            columns[ROW] = pa.StructArray.from_arrays(found.columns, fields=list(found.schema))
        return pa.RecordBatch.from_pydict(columns)

    def _before_read(self, stripe: int) -> None:
        """Checks a stripe that nothing has verified yet. Raises CorruptFile, StreamingIOFailure."""

    def _raise_failure(self, error: Exception) -> None:
        """Raise the error that occurred below ORC's C++ code, which reports only a text."""

    @cached_property
    def _orc(self) -> orc.ORCFile:
        try:
            return orc.ORCFile(self._content)
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedFeature(
                f"{self.path!r} uses a feature of ORC that pyarrow cannot read: {error}"
            ) from error
        except (pa.ArrowException, OSError) as error:
            self._raise_failure(error)
            raise CorruptFile(f"{self.path!r} is not an ORC file: {error}. Restore it from a copy") from error


def _read_columns(file: orc.ORCFile, stripe: int, names: list[str] | None) -> pa.RecordBatch:
    batch = file.read_stripe(stripe, columns=names)
    batch.validate()
    return batch


def _check_original_columns(tail: OrcTail, path: str) -> None:
    if _root_columns(tail.footer.types) == ACID_COLUMNS:
        raise CorruptFile(
            f"{path!r} has the ACID columns, but the name of a file without them: it was renamed, or copied from "
            "another table. Let Hive write its rows again"
        )


def _check_acid_columns(tail: OrcTail, path: str) -> None:
    names = _root_columns(tail.footer.types)
    if names != ACID_COLUMNS or not _ends_with_struct(tail.footer.types):
        raise CorruptFile(
            f"{path!r} is not a file of an ACID table: its columns are {', '.join(names)}, expected "
            f"{', '.join(ACID_COLUMNS)}. Move it out of the table's folder"
        )


@lru_cache(maxsize=64)  # cached: the files of a table usually have the same types
def _root_columns(types: tuple[bytes, ...]) -> tuple[str, ...]:
    return column_types(types)[0].names


@lru_cache(maxsize=64)
def _ends_with_struct(types: tuple[bytes, ...]) -> bool:
    columns = column_types(types)
    return bool(columns[0].children) and columns[columns[0].children[-1]].kind == OrcKind.STRUCT


class StripeRows:
    """Rows of one stripe: `batch` as read from ORC, and its parts."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """One of the ACID columns, with -1 for a null, which no writer writes."""
        column = self.batch.column(name)
        return numbers_of(column, np.dtype(f"int{column.type.bit_width}"), null=-1)

    def row_ids(self) -> RowIds:
        return RowIds(self.numbers(ORIGINAL_WRITE_ID), self.numbers(BUCKET), self.numbers(ROW_ID))

    def columns(self) -> dict[str, Any]:
        """The children of `row` that were read, by the file's names."""
        if ROW not in self.batch.schema.names:
            return {}
        row = self.batch.column(ROW)
        # .flatten() applies the nulls of the row itself, .field() does not
        return dict(zip([field.name for field in row.type], row.flatten(), strict=True))
