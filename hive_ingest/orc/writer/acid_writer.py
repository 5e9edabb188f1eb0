"""ACID ORC files of inserted rows, as Hive's `OrcRecordUpdater` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import Self, Unpack

import pyarrow as pa

from hive_ingest.acid import ACID_VERSION_FILE
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.model import WriteId
from hive_ingest.orc.normalise import normalise
from hive_ingest.orc.writer.file_writer import (
    COMPRESSIONS,
    DEFAULT_COMPRESSION,
    DEFAULT_ROW_INDEX_STRIDE,
    DEFAULT_STRIPE_SIZE_BYTES,
    AcidFile,
    FileOptions,
)
from hive_ingest.orc.writer.insert_encoder import InsertEncoder
from hive_ingest.orc.writer.key_columns import InsertedRows
from hive_ingest.orc.writer.stripe_output import StripeOutput
from hive_ingest.storage import FileStore

__all__ = ["ACID_VERSION_CONTENT", "COMPRESSIONS", "AcidFile", "AcidOrcWriter", "write_acid_version"]

#: The content of `ACID_VERSION_FILE`.
ACID_VERSION_CONTENT = b"2"


def write_acid_version(store: FileStore, folders: Sequence[str], *, sync: bool = True) -> Future[None]:
    """Mark new delta folders as ACID version 2 (Hive: `AcidUtils.OrcAcidVersion`).

    The files are complete when the future has a result.
    """
    paths = [f"{folder}/{ACID_VERSION_FILE}" for folder in folders]
    return store.begin_create_all(paths, ACID_VERSION_CONTENT, sync=sync)


class AcidOrcWriter:
    """Writes inserted rows of one (write id, bucket property) with consecutive row ids.

    The file is complete after `close`; any error removes it. One thread at a time; several writers may run at once.
    Memory: the rows of one stripe, and the stripe.
    """

    def __init__(
        self,
        store: FileStore,
        path: str,
        *,
        schema: pa.Schema,
        write_id: WriteId,
        bucket_property: int,
        first_row_id: int = 0,
        **options: Unpack[FileOptions],
    ) -> None:
        """
        Args:
            store: The file's store.
            path: Its path, where no file exists yet.
            schema: The table's columns, without partition keys.
            write_id: The write id of all rows.
            bucket_property: The bucket property of all rows (see `acid.bucket_codec`).
            first_row_id: The row id of the first row.
            **options: Those of `AcidFileWriter`, whose errors are raised too.
        """
        self._encoder = InsertEncoder(
            schema,
            compression=options.get("compression", DEFAULT_COMPRESSION),
            stripe_bytes=options.get("stripe_size_bytes", DEFAULT_STRIPE_SIZE_BYTES),
            row_index_stride=options.get("row_index_stride", DEFAULT_ROW_INDEX_STRIDE),
        )
        self._ids = InsertedRows(write_id, bucket_property, first_row_id, 0)
        self._rows = self._encoded_rows = 0
        self._waiting: list[pa.StructArray] = []
        self._waiting_bytes = 0
        self._output = StripeOutput(store, path, like=self._encoder.like, sync=options["sync"])

    @property
    def path(self) -> str:
        return self._output.path

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Columns are matched by position and cast to the schema's types if that is lossless.

        Raises:
            SerializationError: The rows do not fit.
            StreamingIOFailure: The file cannot be written, or is closed.
        """
        self._check_open()
        if not batch.num_rows:
            return
        with self._discarded_on_error():
            self._waiting.append(normalise(batch, self._encoder.schema))
            self._waiting_bytes += self._waiting[-1].nbytes
            self._rows += batch.num_rows
            if self._waiting_bytes >= self._encoder.stripe_bytes:
                self._encode()

    def close(self) -> AcidFile:
        """Finish the file. Raises StreamingIOFailure."""
        self._check_open()
        with self._discarded_on_error():
            self._encode()
            return self._output.close()

    def begin_close(self) -> tuple[AcidFile, Future[None]]:
        """The same, without waiting for the device: the file is complete when the future has a result."""
        self._check_open()
        with self._discarded_on_error():
            self._encode()
            return self._output.begin_close()

    def discard(self) -> None:
        """Remove the file. Does nothing after `close` or `discard`."""
        self._waiting = []
        self._output.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Discards the file unless it was closed."""
        self._waiting = []
        if exc is None:
            self._output.discard()
        else:
            self._output.__exit__(exc_type, exc, traceback)

    def _encode(self) -> None:
        if self._waiting:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            rows = sum(map(len, waiting))
            ids = self._ids.slice(self._encoded_rows, rows)
            self._encoded_rows += rows
            self._encoder.encode_rows(waiting, ids, self.path).append_to(self._output)

    def _check_open(self) -> None:
        if self._output.closed:
            raise StreamingIOFailure(f"cannot write {self.path!r}: it is closed; open another writer")

    @contextmanager
    def _discarded_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
