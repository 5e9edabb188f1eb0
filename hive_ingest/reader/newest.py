"""The rows of a small unpartitioned table, newest folder first: a caller that wants the latest can stop early."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table
from hive_ingest.reader.partitions import whole_table
from hive_ingest.reader.rows import Projection, Snapshot, full_schema, read_partition


def newest_rows(client: MetastoreClient, table: Table, snapshot: ValidWriteIdList) -> Iterator[pa.RecordBatch]:
    """Batches of the table's columns and `row__id`, the highest write ids first, without deleted rows.

    For a caller whose own transaction keeps the files: nothing is locked or kept alive here. Raises what
    `read_partition` does.
    """
    projection = Projection(table, tuple(full_schema(table).names), None)
    seen = Snapshot(snapshot, client.get_valid_txns())
    return read_partition(whole_table(table), projection, seen, newest_first=True)
