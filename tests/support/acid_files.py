"""ACID files and tables written with pyarrow alone, independently of the writer under test."""

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

from hive_ingest.acid.bucket_codec import encode_bucket
from tests.support.tables import folder_of


class TableOnDisk:
    """A table whose deltas a test writes itself."""

    def __init__(self, client, name, columns, **options):
        self.client = client
        self.table = client.create_table(name, columns=columns, **options)
        self.name = name
        self.path = folder_of(self.table)

    def commit(self):
        """The next write id, committed."""
        return self._end(self.client.commit_txn)

    def abort(self):
        """The next write id, aborted."""
        return self._end(self.client.abort_txn)

    def open(self):
        """The next write id, left open."""
        return self._end(lambda txn_id: None)

    def _end(self, end):
        (txn_id,) = self.client.open_txns()
        (allocated,) = self.client.allocate_table_write_ids(self.name, [txn_id])
        end(txn_id)
        return allocated.write_id

    def insert(self, write_id, rows, *, folder=None, partition="", bucket=0, statement=0, first=0, **options):
        """Rows as one bucket file of a delta."""
        events = len(rows)
        ids = [(write_id, encode_bucket(bucket, statement), first + i) for i in range(events)]
        folder = folder or f"delta_{write_id:07d}_{write_id:07d}_{statement:04d}"
        return write_acid_file(self.path / partition / folder / f"bucket_{bucket:05d}", ids, rows=rows, **options)

    def delete(self, write_id, ids, *, folder=None, partition="", bucket=0, row_type=None):
        """Delete events for (write id, bucket property, row id) of rows."""
        folder = folder or f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
        row_type = row_type or pa.struct([("id", pa.int32()), ("msg", pa.string())])
        rows = pa.nulls(len(ids), row_type)
        path = self.path / partition / folder / f"bucket_{bucket:05d}"
        return write_acid_file(path, ids, rows=rows, operation=2, current=[write_id] * len(ids))


def write_acid_file(path, ids, *, rows, operation=0, current=None, **options):
    """`rows`: a struct array. `current` are the write ids that wrote the events, by default the rows' own."""
    write_ids, buckets, row_ids = ([i[k] for i in ids] for k in range(3))
    table = pa.table(
        {
            "operation": pa.array(np.full(len(ids), operation, np.int32)),
            "originalTransaction": pa.array(write_ids, pa.int64()),
            "bucket": pa.array(buckets, pa.int32()),
            "rowId": pa.array(row_ids, pa.int64()),
            "currentTransaction": pa.array(current or write_ids, pa.int64()),
            "row": rows,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        orc.write_table(table, file, **options)
    return path
