"""One file in Hive's ACID schema (see `acid_schema`), read stripe by stripe.

A file without the ACID columns is read as if it had them, with the ids that Hive gives its rows (`original_rows`).
Files need no `hive.acid.*` metadata: Hive 4.0.1's own merge compactor leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as orc

from hive_ingest.errors import CorruptFile, UnsupportedFeature
from hive_ingest.orc.acid_schema import (
    ACID_COLUMNS,
    BUCKET,
    ORIGINAL_WRITE_ID,
    ROW,
    ROW_ID,
    WRITE_ID,
    orc_column_id,
)
from hive_ingest.orc.checksums import VerifiedFile, verified_input
from hive_ingest.orc.column_statistics import int_range
from hive_ingest.orc.columns import OrcColumn, check_columns, column_tree
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.original_rows import OriginalRows
from hive_ingest.orc.protobuf import WireError
from hive_ingest.orc.stripe_footer import check_stripe_footer
from hive_ingest.orc.tail import OrcTail, read_tail
from hive_ingest.storage import FileStore, io_errors

#: Files of up to so many bytes are read as a whole when they are opened.
SMALL_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A bucket file to read.

    `length_bytes` is its committed length, None for all of `size_bytes`. With `check_write_ids` it may hold
    rows of write ids that the snapshot must not see. `write_ids` are the lowest and highest write id that its folder
    is named for, None if the name does not say. `original` has the ids of the rows of a file without the ACID columns.
    """

    path: str
    length_bytes: int | None
    check_write_ids: bool
    size_bytes: int
    write_ids: tuple[int, int] | None = None
    original: OriginalRows | None = None


class AcidFileReader:
    """An open file; use it in a `with` block."""

    def __init__(self, store: FileStore, file: FileToRead, *, verify_checksums: bool = True) -> None:
        """
        Args:
            store: The file's store.
            file: What to read.
            verify_checksums: Whether to verify bytes before they are decoded, in files that have checksums.

        Raises:
            CorruptFile: It is damaged, not a complete ACID file, or belongs to another folder.
            UnsupportedFeature: It has a feature that pyarrow cannot read.
            StreamingIOFailure: It cannot be read.
        """
        self.path = file.path
        self._original = file.original
        self._source = _open(store, file)
        self._verified: VerifiedFile | None = None
        try:
            self._tail = tail = read_tail(self._source, file.path)
            self._is_unverified = tail.checksums is None or not verify_checksums
            check_columns(tail, file.path)
            self._content = self._input()
            self._orc = self._open_orc(self._content)
            schema = self._orc.schema
            self._check_schema(schema)
            if file.original is None:
                _check_write_ids(file, tail)
        except BaseException:
            self._source.close()
            raise
        self.calendar = tail.footer.calendar
        self.num_stripes = len(tail.footer.stripes)
        #: The table's columns as Arrow has them.
        self.row_type: pa.StructType = pa.struct(list(schema)) if self._original else schema.field(ROW).type

    def read(self, stripe: int, acid: Sequence[str], row: Sequence[str]) -> StripeRows:
        """Read the named ACID columns and children of `row` of one stripe.

        Raises:
            CorruptFile: The stripe is damaged.
            StreamingIOFailure: It cannot be read.
        """
        return self._read(stripe, [*acid, *(f"{ROW}.{name}" for name in row)])

    def read_all(self, stripe: int) -> StripeRows:
        """All columns of one stripe; errors as for `read`."""
        return self._read(stripe, None)

    def _read(self, stripe: int, names: list[str] | None) -> StripeRows:
        if self._is_unverified:
            check_stripe_footer(self._source, self._tail, stripe, self.path)
        try:
            batch = self._read_original(stripe, names) if self._original else self._read_columns(stripe, names)
            return StripeRows(batch)
        except (pa.ArrowException, OSError) as error:
            self._raise_failure(error)
            raise CorruptFile(
                f"stripe {stripe} of {self.path!r} cannot be read: {error}. Restore the file from a copy"
            ) from error

    def _read_columns(self, stripe: int, names: list[str] | None) -> pa.RecordBatch:
        batch = self._orc.read_stripe(stripe, columns=names)
        batch.validate()
        return batch

    def _read_original(self, stripe: int, names: list[str] | None) -> pa.RecordBatch:
        """The file's columns are the children of `row`; the ACID columns are made."""
        assert self._original is not None
        names = [*ACID_COLUMNS] if names is None else names
        prefix = f"{ROW}."
        children = None if ROW in names else [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        rows = [each.rows for each in self._tail.footer.stripes]
        acid = [name for name in names if name in ACID_COLUMNS]
        columns = self._original.acid_columns(acid, sum(rows[:stripe]), rows[stripe])
        if children is None or children:
            found = self._read_columns(stripe, children)
            columns[ROW] = pa.StructArray.from_arrays(found.columns, fields=list(found.schema))
        return pa.RecordBatch.from_pydict(columns)

    @cached_property
    def row(self) -> OrcColumn:
        """The table's columns as ORC has them."""
        root = column_tree(self._tail, self.path)
        return root if self._original else root.children[-1]

    @property
    def tail(self) -> OrcTail:
        return self._tail

    @property
    def content(self) -> pa.NativeFile:
        """The file's bytes, verified as they are read where it has checksums."""
        return self._content

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _input(self) -> pa.NativeFile:
        checksums = self._tail.checksums
        if checksums is None or self._is_unverified:
            return self._source
        verified, self._verified = verified_input(self._source, checksums, self._tail.encoded, self.path)
        return verified

    def _raise_failure(self, error: Exception) -> None:
        """Raise the error that occurred below ORC's C++ code, which reports only a text."""
        if self._verified is not None and self._verified.failure is not None:
            raise self._verified.failure from error

    def _open_orc(self, source: pa.NativeFile) -> orc.ORCFile:
        try:
            return orc.ORCFile(source)
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedFeature(
                f"{self.path!r} uses a feature of ORC that pyarrow cannot read: {error}"
            ) from error
        except (pa.ArrowException, OSError) as error:
            self._raise_failure(error)
            raise CorruptFile(f"{self.path!r} is not an ORC file: {error}. Restore it from a copy") from error

    def _check_schema(self, schema: pa.Schema) -> None:
        if self._original is not None:
            if tuple(schema.names) == ACID_COLUMNS:
                raise CorruptFile(
                    f"{self.path!r} has the ACID columns, but the name of a file without them: it was renamed, or "
                    "copied from another table. Let Hive write its rows again"
                )
            return
        if tuple(schema.names) != ACID_COLUMNS or not pa.types.is_struct(schema.field(ROW).type):
            raise CorruptFile(
                f"{self.path!r} is not a file of an ACID table: its columns are {', '.join(schema.names)}, expected "
                f"{', '.join(ACID_COLUMNS)}. Move it out of the table's folder"
            )


def _check_write_ids(file: FileToRead, tail: OrcTail) -> None:
    """Whether the rows belong into the folder where the file lies, by the footer's statistics if there are any.

    Visibility is decided by the folder's name, so a file that was put into another one would show rows that are not
    committed, or hide some that are. Raises CorruptFile.
    """
    statistics, column = tail.footer.statistics, orc_column_id(WRITE_ID)
    if file.write_ids is None or not tail.footer.rows or column >= len(statistics):
        return
    try:
        found = int_range(statistics[column])
    except WireError as error:
        raise CorruptFile(
            f"{file.path!r} has column statistics that cannot be read: {error}. Restore the file from a copy"
        ) from error
    low, high = file.write_ids
    if found is not None and not low <= found[0] <= found[1] <= high:
        raise CorruptFile(
            f"{file.path!r} has rows of write ids {found[0]} to {found[1]}, but its folder is for {low} to {high}: "
            "the file belongs to another folder. Move it back, or restore the table from a copy"
        )


def _open(store: FileStore, file: FileToRead) -> pa.NativeFile:
    source = store.open_input(file.path)
    if file.length_bytes is None and file.size_bytes > SMALL_FILE_BYTES:
        return source
    # A small file takes one read. Of a batch that is still being written, the footer ends at the committed length.
    with source, io_errors("read", file.path):
        return pa.BufferReader(source.read_buffer(file.length_bytes))


class StripeRows:
    """Rows of one stripe: `batch` as read from ORC, and its parts."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """One of the ACID columns, with -1 for a null, which no writer writes."""
        column = self.batch.column(name)
        return np.asarray((column.fill_null(-1) if column.null_count else column).to_numpy(zero_copy_only=False))

    def row_ids(self) -> RowIds:
        return RowIds(self.numbers(ORIGINAL_WRITE_ID), self.numbers(BUCKET), self.numbers(ROW_ID))

    def columns(self) -> dict[str, Any]:
        """The children of `row` that were read, by the file's names."""
        if ROW not in self.batch.schema.names:
            return {}
        row = self.batch.column(ROW)
        # .flatten() applies the nulls of the row itself, .field() does not
        return dict(zip([field.name for field in row.type], row.flatten(), strict=True))
