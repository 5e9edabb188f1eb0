"""Writes ACID ORC files in one pass, from the first row to the tail with Hive's metadata, never changed in place.

A file has the schema of `acid_schema`, with `hive.acid.key.index`, `hive.acid.stats` and `hive.acid.version`: Hive 3.1
cannot read delete events or split a file without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Required, Self, TypedDict

import pyarrow as pa
import pyarrow.orc as orc

from hive_ingest.errors import ConfigurationError, CorruptFile, StreamingIOFailure, UnsupportedFeature
from hive_ingest.orc.acid_schema import acid_schema
from hive_ingest.orc.format.checksums import ChecksumBuilder, ContentChecksums
from hive_ingest.orc.format.tail import MAGIC, PostScript, completed_tail, parse_postscript, parse_stripe_rows
from hive_ingest.orc.writer.freed_memory import FREED_MEMORY
from hive_ingest.storage import FileStore, OutputFile, io_failure

#: Hive's `orc.compress` values, and pyarrow's name and strategy for each: with "speed", lz4 compresses nothing.
COMPRESSIONS = {
    "NONE": ("uncompressed", "speed"),
    "ZLIB": ("zlib", "speed"),
    "SNAPPY": ("snappy", "speed"),
    "LZ4": ("lz4", "compression"),
    "ZSTD": ("zstd", "speed"),
}
DEFAULT_COMPRESSION = "ZSTD"
DEFAULT_STRIPE_SIZE_BYTES = 64 * 1024 * 1024
DEFAULT_ROW_INDEX_STRIDE = 10_000
#: Rows that are passed to the ORC library at once. A stripe ends only after such a batch, or where `_append` ends.
BATCH_ROWS = 1024
_HELD_BYTES = 1024 * 1024
_WRITE_BUFFER_BYTES = 256 * 1024
_LONGEST_POSTSCRIPT = 256


@dataclass(frozen=True, slots=True)
class AcidFile:
    """A finished file. `stripe_rows` are the rows of each stripe, in order."""

    path: str
    rows: int
    size_bytes: int
    stripe_rows: tuple[int, ...]


class FileOptions(TypedDict, total=False):
    """Options of every writer; see `AcidFileWriter`."""

    compression: str
    stripe_size_bytes: int
    row_index_stride: int
    sync: Required[bool]


class AcidFileWriter(ABC):
    """Writes a file that is complete after `close`. Any error removes it.

    One thread at a time; several writers may run at once. Memory: about one stripe, and at `close` the last stripe
    once more in its compressed form.
    """

    def __init__(
        self,
        store: FileStore,
        path: str,
        *,
        schema: pa.Schema,
        compression: str = DEFAULT_COMPRESSION,
        stripe_size_bytes: int = DEFAULT_STRIPE_SIZE_BYTES,
        row_index_stride: int = DEFAULT_ROW_INDEX_STRIDE,
        sync: bool,
    ) -> None:
        """
        Args:
            store: The file's store.
            path: Its path, where no file exists yet.
            schema: The table's columns, without partition keys.
            compression: A value of Hive's `orc.compress`.
            stripe_size_bytes: The approximate size of a stripe before compression.
            row_index_stride: Rows for each entry of the row index.
            sync: Whether `close` syncs the file to the device.

        Raises:
            ConfigurationError: `compression` is unknown.
            UnsupportedFeature: `compression`, or a column's type, cannot be written.
            StreamingIOFailure: The file cannot be created.
        """
        arrow_compression(compression)  # an unknown one must leave no file
        self._acid_schema = acid_schema(schema)
        self._rows = 0
        self._is_one_stripe = False
        self._sink = _Sink(store.create(path, sync=sync))
        self._buffer = pa.BufferedOutputStream(pa.PythonFile(self._sink, "w"), _WRITE_BUFFER_BYTES)
        self._writer = orc_writer(
            self._buffer,
            columns=len(schema),
            compression=compression,
            stripe_size_bytes=stripe_size_bytes,
            row_index_stride=row_index_stride,
        )

    @property
    def path(self) -> str:
        return self._sink.path

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._rows

    def close(self) -> AcidFile:
        """Write the tail with Hive's metadata and finish the file."""
        if self._sink.done:
            raise StreamingIOFailure(f"cannot finish {self.path!r}: it is closed already")
        with self._discarded_on_error("finish"):
            self._sink.seal()
            # ORC writes a stripe as a whole, and the last one when the writer is closed.
            self._is_one_stripe = bool(self._rows) and self._buffer.tell() == len(MAGIC)
            if not self._rows:  # pyarrow learns the columns from the first table, and writes nothing without one
                self._writer.write(no_rows(self._acid_schema))
            self._writer.close()
            self._buffer.flush()
            return self._sink.finish(self._completed_tail)

    def discard(self) -> None:
        """Remove the file. Does nothing after `close` or `discard`."""
        self._writer.is_open = False  # otherwise its __del__ would still encode the rows that it holds
        self._sink.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Discards the file unless it was closed."""
        try:
            self.discard()
        except StreamingIOFailure as failure:
            if exc is None:
                raise
            exc.add_note(f"and, while cleaning up: {failure}")

    @abstractmethod
    def _user_metadata(self, stripe_rows: Sequence[int]) -> dict[str, bytes]:
        """Hive's metadata, from the rows of each stripe."""

    def _check_open(self) -> None:
        if self._sink.done:
            raise StreamingIOFailure(f"cannot write {self.path!r}: it is closed; open another writer")

    def _append(self, rows: int, table: Callable[[], pa.Table]) -> None:
        """Write rows in the ACID schema; on any error, also one of `table`, the file is removed."""
        self._check_open()
        with self._discarded_on_error("write"):
            self._writer.write(table())
        self._rows += rows

    @contextmanager
    def _discarded_on_error(self, action: str) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # An error of the file system reaches us through ORC's C++ code only as a text.
            failure = self._sink.failure or error
            if failure is error and isinstance(error, (OSError, pa.ArrowException)):
                failure = io_failure(action, self.path, error)
            try:
                self.discard()
            except StreamingIOFailure as second:
                failure.add_note(f"and, while cleaning up: {second}")
            if failure is error:
                raise
            raise failure from error

    def _completed_tail(
        self, tail: bytes, postscript: PostScript, checksums: ContentChecksums
    ) -> tuple[bytes, tuple[int, ...]]:
        """The tail with Hive's metadata and checksums in it, and the rows of each stripe."""
        if self._is_one_stripe:  # as most small files are: the footer need not be decompressed
            stripe_rows: tuple[int, ...] = (self._rows,)
        else:
            stripe_rows = parse_stripe_rows(tail, postscript, self.path)
        if sum(stripe_rows) != self._rows:
            raise CorruptFile(f"{self.path!r} was given {self._rows} rows but its stripes hold {sum(stripe_rows)}")
        completed = completed_tail(
            tail[: postscript.footer_length],
            postscript,
            metadata_length=postscript.metadata_length,
            checksums=checksums,
            items=self._user_metadata(stripe_rows),
        )
        return completed, stripe_rows


_CompleteTail = Callable[[bytes, PostScript, ContentChecksums], tuple[bytes, tuple[int, ...]]]


class _Sink:
    """The file that pyarrow writes to. Once sealed it buffers everything, so that the tail can be completed."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._content = ChecksumBuilder()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._size = 0
        self._sealed = False
        self.done = False
        self.failure: StreamingIOFailure | None = None

    @property
    def path(self) -> str:
        return self._output.path

    def write(self, data: bytes) -> int:
        if not self.done:
            self._held.append(data)
            self._held_bytes += len(data)
            self._size += len(data)
            if self._held_bytes >= _HELD_BYTES and not self._sealed:
                self._pass_on()
        return len(data)

    def seal(self) -> None:
        self._sealed = True

    def finish(self, complete: _CompleteTail) -> AcidFile:
        """Let `complete` rewrite the tail, then close the file."""
        ending = self._take_ending(b"", _LONGEST_POSTSCRIPT)
        postscript = parse_postscript(ending, self._size, self.path)
        ending = self._take_ending(ending, postscript.tail_length)
        self._pass_on()
        start = len(ending) - postscript.tail_length
        content = ending[:start]
        self._content.update(content)
        tail, stripe_rows = complete(ending[start:], postscript, self._content.finish())
        self._output.write(content + tail)  # all of a small file in one call
        self._output.close()
        self.done = True
        return AcidFile(self.path, sum(stripe_rows), self._output.tell(), stripe_rows)

    def discard(self) -> None:
        self.done = True
        self._held.clear()
        self._output.discard()

    def _pass_on(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        try:
            for data in held:
                self._content.update(data)
                self._output.write(data)
        except StreamingIOFailure as failure:
            self.failure = failure
            raise

    def _take_ending(self, ending: bytes, count: int) -> bytes:
        chunks = [ending]
        while self._held and sum(map(len, chunks)) < count:
            chunks.append(self._held.pop())
        return b"".join(reversed(chunks))

    # The methods that pyarrow calls on a Python file.

    @property
    def closed(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Does nothing: `_pass_on` decides when to flush."""

    def close(self) -> None:
        """Does nothing: pyarrow closes abandoned files too, so only `finish` and `discard` end the file."""


def orc_writer(
    sink: object,
    *,
    columns: int,
    compression: str,
    stripe_size_bytes: int,
    row_index_stride: int,
    compress: bool = True,
    batch_rows: int = BATCH_ROWS,
) -> orc.ORCWriter:
    """pyarrow's writer with the options of every file here.

    `columns` is how many the table has. Without `compress`, it encodes the values as for that compression, and leaves
    them uncompressed. A stripe may end after every `batch_rows` rows.

    Raises ConfigurationError, UnsupportedFeature.
    """
    kind, strategy = arrow_compression(compression)
    FREED_MEMORY.before_file(columns)
    return orc.ORCWriter(
        sink,
        compression=kind if compress else "uncompressed",
        compression_strategy=strategy,
        stripe_size=stripe_size_bytes,
        row_index_stride=row_index_stride,
        batch_size=batch_rows,
    )


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows. pyarrow's own `empty_table` imports pandas, if it is installed: 0.6 s and 30 MiB."""
    return pa.Table.from_batches([], schema)


def arrow_compression(name: str) -> tuple[str, str]:
    known = COMPRESSIONS.get(name.upper())
    if known is None and name.upper() in ("LZO", "BROTLI"):
        raise UnsupportedFeature(f"orc.compress={name!r} cannot be written here: use {', '.join(COMPRESSIONS)}")
    if known is None:
        raise ConfigurationError(f"orc.compress={name!r} is not an ORC compression: use {', '.join(COMPRESSIONS)}")
    return known
