"""The rows of a small unpartitioned table, newest folder first: whoever wants the latest can stop early."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.orc as orc

from hive_ingest.acid.directory import ListedEntry, acid_directory
from hive_ingest.acid.names import is_hidden
from hive_ingest.acid.write_ids import ValidWriteIdList
from hive_ingest.errors import CorruptFile
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.model import Table, WriteId
from hive_ingest.storage.filesystem import FileStore, open_store


def newest_rows(client: MetastoreClient, table: Table, snapshot: ValidWriteIdList) -> Iterator[pa.RecordBatch]:
    """Batches of the table's columns and `row__id`, the highest write ids first. Delete events are not applied."""
    store, folder = open_store(table.location)
    entries = [ListedEntry(entry.name, entry.is_folder, entry.size_bytes) for entry in store.list(folder)]
    directory = acid_directory(entries, snapshot, client.get_valid_txns())
    newest_first = sorted(directory.deltas, key=lambda delta: -delta.max_write_id)
    for name in (*newest_first, *([directory.base] if directory.base else [])):
        for entry in store.list(f"{folder}/{name}"):
            if not entry.is_folder and not is_hidden(entry.name):
                yield _read(store, entry.path, snapshot)


def _read(store: FileStore, path: str, snapshot: ValidWriteIdList) -> pa.RecordBatch:
    with store.open_input(path) as source:
        try:
            rows = orc.ORCFile(source).read()
        except (pa.ArrowException, OSError) as error:
            raise CorruptFile(f"{path!r} cannot be read as ORC: {error}") from error
    batch = rows.combine_chunks().to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], rows.schema)
    write_ids = batch.column("currentTransaction").to_pylist()
    seen = pa.array([snapshot.is_valid(WriteId(write_id)) for write_id in write_ids], pa.bool_())
    row_id = pa.StructArray.from_arrays(
        [batch.column("originalTransaction"), batch.column("bucket"), batch.column("rowId")],
        ["writeid", "bucketid", "rowid"],
    )
    row = batch.column("row")
    columns = [*row.flatten(), row_id]
    names = [*(field.name for field in row.type), "row__id"]
    return pa.RecordBatch.from_arrays(columns, names).filter(seen)
