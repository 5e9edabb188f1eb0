"""ACID ORC files of inserted rows, as Hive's `OrcRecordUpdater` writes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Unpack

import numpy as np
import pyarrow as pa

from hive_ingest.acid import ACID_VERSION_FILE
from hive_ingest.model import WriteId
from hive_ingest.orc.acid_schema import INSERT, acid_user_metadata
from hive_ingest.orc.file_writer import COMPRESSIONS, AcidFile, AcidFileWriter, FileOptions
from hive_ingest.orc.normalise import normalise
from hive_ingest.storage import FileStore

__all__ = ["ACID_VERSION_CONTENT", "COMPRESSIONS", "AcidFile", "AcidOrcWriter", "write_acid_version"]

#: The content of `ACID_VERSION_FILE`.
ACID_VERSION_CONTENT = b"2"


def write_acid_version(store: FileStore, folders: Sequence[str], *, sync: bool = True) -> None:
    """Mark new delta folders as ACID version 2 (Hive: `AcidUtils.OrcAcidVersion`)."""
    store.create_all([f"{folder}/{ACID_VERSION_FILE}" for folder in folders], ACID_VERSION_CONTENT, sync=sync)


class AcidOrcWriter(AcidFileWriter):
    """Writes inserted rows of one (write id, bucket property) with consecutive row ids."""

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
        super().__init__(store, path, schema=schema, **options)
        self._schema = schema
        self._write_id = write_id
        self._bucket_property = bucket_property
        self._first_row_id = first_row_id
        self._constants: list[pa.Array] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Columns are matched by position and cast to the schema's types if that is lossless.

        Raises:
            SerializationError: The rows do not fit.
            StreamingIOFailure: The file cannot be written, or is closed.
        """
        self._check_open()
        if batch.num_rows:
            self._append(batch.num_rows, lambda: self._wrapped(batch))

    def _wrapped(self, batch: pa.RecordBatch) -> pa.Table:
        rows = batch.num_rows
        first = self._first_row_id + self._rows
        operation, write_id, bucket = self._constant_columns(rows)
        row_id = _array(np.arange(first, first + rows, dtype=np.int64), pa.int64())
        row = normalise(batch, self._schema)
        return pa.Table.from_arrays([operation, write_id, bucket, row_id, write_id, row], schema=self._acid_schema)

    def _constant_columns(self, rows: int) -> list[pa.Array]:
        """operation, originalTransaction (and currentTransaction) and bucket; kept for the next batch."""
        if not self._constants or len(self._constants[0]) < rows:
            self._constants = [
                _array(np.full(rows, INSERT, np.int32), pa.int32()),
                _array(np.full(rows, self._write_id, np.int64), pa.int64()),
                _array(np.full(rows, self._bucket_property, np.int32), pa.int32()),
            ]
        if len(self._constants[0]) == rows:
            return self._constants
        return [column.slice(0, rows) for column in self._constants]

    def _user_metadata(self, stripe_rows: Sequence[int]) -> dict[str, bytes]:
        ends = itertools.accumulate(stripe_rows, initial=self._first_row_id)
        keys = [(self._write_id, self._bucket_property, end - 1) for end in ends][1:]
        return acid_user_metadata(keys, inserts=self.rows)


def _array(values: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The values as they lie in memory; `pa.array` takes longer for a few rows than for copying them."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])
