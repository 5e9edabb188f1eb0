"""One file in Hive's ACID schema (see `acid_schema`), read stripe by stripe.

A file without the ACID columns is read as if it had them, with the ids that Hive gives its rows (`original_rows`).
Files need no `hive.acid.*` metadata: Hive 4.0.1's own merge compactor leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import WRITE_ID, orc_column_id
from hive_ingest.orc.format.checksums import VerifiedFile, verified_input, verify_content
from hive_ingest.orc.format.column_statistics import int_range
from hive_ingest.orc.format.protobuf import WireError
from hive_ingest.orc.format.stripe_footer import check_stripe_footer
from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.orc.reader.original_rows import OriginalRows
from hive_ingest.orc.reader.stripe_reader import StripeReader
from hive_ingest.storage import FileStore, io_errors

#: Files of at most this size, in bytes, are read as a whole when they are opened.
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

    @property
    def is_small(self) -> bool:
        """Whether it takes little memory to read it as a whole."""
        return self.size_bytes <= SMALL_FILE_BYTES


class AcidFileReader(StripeReader):
    """An open file; use it in a `with` block."""

    def __init__(
        self, store: FileStore, file: FileToRead, *, data: pa.Buffer | None = None, verify_checksums: bool = True
    ) -> None:
        """
        Args:
            store: The file's store.
            file: What to read.
            data: Its bytes, if `read_small_file` has read them already.
            verify_checksums: Whether to verify bytes before they are decoded, in files that have checksums.

        Raises:
            CorruptFile: It is damaged, not a complete ACID file, or belongs to another folder.
            StreamingIOFailure: It cannot be read.
        """
        self.file = file
        self._source, self._whole = _open(store, file, data)
        self._verified: VerifiedFile | None = None
        try:
            tail = read_tail(self._source, file.path)
            self._is_unverified = tail.checksums is None or not verify_checksums
            super().__init__(self._input(tail), tail, file.path, original=file.original)
            if file.original is None:
                _check_write_ids(file, tail)
        except BaseException:
            self._source.close()
            raise

    @property
    def verified_bytes(self) -> pa.Buffer | None:
        """All bytes of an ACID file, if it is small, has checksums, and they were verified."""
        return None if self._is_unverified or self.file.original is not None else self._whole

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _input(self, tail: OrcTail) -> pa.NativeFile:
        if tail.checksums is None or self._is_unverified:
            return self._source
        if self._whole is not None:
            verify_content(self._whole, tail.checksums, self._whole.size - len(tail.encoded), self.file.path)
            return self._source
        verified, self._verified = verified_input(self._source, tail.checksums, tail.encoded, self.file.path)
        return verified

    def _before_read(self, stripe: int) -> None:
        if self._is_unverified:
            check_stripe_footer(self._source, self.tail, stripe, self.path)

    def _raise_failure(self, error: Exception) -> None:
        if self._verified is not None and self._verified.failure is not None:
            raise self._verified.failure from error


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


def read_small_file(store: FileStore, file: FileToRead) -> pa.Buffer | None:
    """All bytes of a file, up to its committed length; None for a large one. Raises StreamingIOFailure."""
    if file.length_bytes is None and not file.is_small:
        return None
    with store.open_input(file.path) as source, io_errors("read", file.path):
        return source.read_buffer(file.length_bytes)


def _open(store: FileStore, file: FileToRead, data: pa.Buffer | None) -> tuple[pa.NativeFile, pa.Buffer | None]:
    """The open file, and all its bytes if it is read as a whole."""
    # A small file takes one read. Of a batch that is still being written, the footer ends at the committed length.
    data = read_small_file(store, file) if data is None else data
    return (store.open_input(file.path), None) if data is None else (pa.BufferReader(data), data)
