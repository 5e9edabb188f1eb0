"""Decoded rows in the ACID schema together with their keys, in order."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hive_ingest.orc.acid_schema import Key
from hive_ingest.orc.delete_events import RowIds


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the ACID schema of the table, ascending by their keys."""

    batch: pa.RecordBatch
    keys: RowIds

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, end: int) -> Rows:
        """A copy: pyarrow writes null structs of a slice wrongly."""
        if (start, end) == (0, len(self)):
            return self
        part = self.batch.slice(start, end - start)
        return Rows(pa.concat_batches([part, part.slice(0, 0)]), self.keys.slice(start, end))

    def split(self, at: Key) -> tuple[Rows, Rows]:
        """Those below a key, and those from it on."""
        keys = self.keys
        write_id, bucket, row_id = at
        below = keys.write_ids < write_id
        below |= (keys.write_ids == write_id) & (
            (keys.buckets < bucket) | ((keys.buckets == bucket) & (keys.row_ids < row_id))
        )
        count = int(below.sum())
        return self.slice(0, count), self.slice(count, len(self))

    def merged(self, other: Rows) -> Rows:
        """Both together, in order; of rows with one key, which no writer makes, each is kept."""
        batch = pa.concat_batches([self.batch, other.batch])
        return in_key_order(batch, RowIds.concat([self.keys, other.keys]))


def in_key_order(batch: pa.RecordBatch, keys: RowIds) -> Rows:
    """Rows and their keys, which may be in any order."""
    if keys.is_ascending():
        return Rows(batch, keys)
    order = keys.order()
    return Rows(batch.take(pa.array(order)), keys.take(order))
