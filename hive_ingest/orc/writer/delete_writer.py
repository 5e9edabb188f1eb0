"""ACID ORC files of delete events, as Hive's `OrcRecordUpdater` writes them into `delete_delta_…` folders."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_ingest.errors import CorruptFile, InvalidOperation
from hive_ingest.model import WriteId
from hive_ingest.orc.acid_schema import DELETE, Key, acid_user_metadata
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.writer.file_writer import BATCH_ROWS, AcidFileWriter, FileOptions
from hive_ingest.storage import FileStore

_EVENTS_AT_ONCE = 64 * BATCH_ROWS


class DeleteEventWriter(AcidFileWriter):
    """Writes delete events of one bucket in ascending order of the deleted rows (write id, bucket property, row id).

    Hive's readers merge the events of a bucket with its rows, and rely on the order.
    """

    def __init__(
        self, store: FileStore, path: str, *, schema: pa.Schema, write_id: WriteId, **options: Unpack[FileOptions]
    ) -> None:
        """
        Args:
            store: The file's store.
            path: Its path, where no file exists yet.
            schema: The table's columns, without partition keys. Events hold no values, but the file has their types.
            write_id: The write id of the deleting transaction.
            **options: Those of `AcidFileWriter`, whose errors are raised too.
        """
        super().__init__(store, path, schema=schema, **options)
        self._write_id = write_id
        self._last: Key = (-1, -1, -1)
        #: Where a stripe may end: the number of rows so far, and the last key.
        self._possible_ends: dict[int, Key] = {}

    def write(self, events: RowIds, *, write_ids: Sequence[int] | npt.NDArray[np.int64] | None = None) -> None:
        """Append events.

        Args:
            events: The ids of deleted rows. `RowIds.sorted` sorts them.
            write_ids: The write id of each event, if they are not the writer's: for events
                of several transactions in one file.

        Raises:
            InvalidOperation: They are not in ascending order, or not after those written before. The file is removed.
            StreamingIOFailure: The file cannot be written, or is closed.
        """
        self._check_open()
        with self._discarded_on_error("write"):
            self._check_order(events)
        deleted_by = np.asarray(write_ids, np.int64) if write_ids is not None else np.full(len(events), self._write_id)
        for start in range(0, len(events), _EVENTS_AT_ONCE):
            part = slice(start, start + _EVENTS_AT_ONCE)
            self._write_part(
                RowIds(events.write_ids[part], events.buckets[part], events.row_ids[part]), deleted_by[part]
            )

    def _check_order(self, events: RowIds) -> None:
        if not len(events):
            return
        if not events.is_ascending() or events.key(0) <= self._last:
            raise InvalidOperation(
                f"the delete events for {self.path!r} are not in ascending order of their rows' ids, or one of them is "
                "repeated: sort them, and write each once"
            )
        self._last = events.key(len(events) - 1)

    def _write_part(self, events: RowIds, deleted_by: Any) -> None:
        rows = len(events)
        row_type = self._acid_schema.field("row").type
        columns = [
            pa.array(np.full(rows, DELETE, np.int32)),
            pa.array(events.write_ids),
            pa.array(events.buckets),
            pa.array(events.row_ids),
            pa.array(deleted_by.astype(np.int64)),
            pa.nulls(rows, row_type),  # not a slice: pyarrow writes a null struct of a sliced array wrongly
        ]
        before = self.rows
        self._append(rows, lambda: pa.Table.from_arrays(columns, schema=self._acid_schema))
        for end in [*range(BATCH_ROWS, rows, BATCH_ROWS), rows]:
            self._possible_ends[before + end] = events.key(end - 1)

    def _user_metadata(self, stripe_rows: Sequence[int]) -> dict[str, bytes]:
        try:
            keys = [self._possible_ends[end] for end in itertools.accumulate(stripe_rows)]
        except KeyError as error:
            raise CorruptFile(
                f"the ORC library ended a stripe of {self.path!r} inside a batch, after {error} rows: the key index "
                "cannot be written. Use another release of pyarrow"
            ) from error
        return acid_user_metadata(keys, deletes=self.rows)
