"""Tables that are written here and read by real Hive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.acid.names import BucketFileName, DeltaName
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    TableName,
    TxnId,
    WriteId,
)
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter, write_acid_version
from hive_ingest.storage import Location
from tests.interop.hive import RealHive

Outcome = Literal["commit", "abort", "open"]


def orc_properties(hive: RealHive) -> dict[str, str]:
    """What a table needs so that this Hive can read it."""
    return {"orc.compress": "ZLIB" if hive.version == "3.1.3" else "ZSTD"}


def allocate(
    client: MetastoreClient, table: TableName, outcomes: Sequence[Outcome], *, partitions: Sequence[str] = ()
) -> list[TxnId]:
    """One transaction with one write id of `table` for each outcome, in that order; their files come from elsewhere.

    With `partitions` ("a=1/b=2") each of them registers these as written, as a dynamic insert does. An "open" one
    stays open: for the server's timeout, 300 s.
    """
    component = LockComponent(
        *(LockType.SHARED_READ, LockLevel.TABLE, table.database, table.table),
        operation_type=DataOperationType.INSERT,
        is_dynamic_partition_write=bool(partitions),
    )
    txns = client.open_txns(len(outcomes))
    for txn, outcome in zip(txns, outcomes, strict=True):
        [allocated] = client.allocate_table_write_ids(table, [txn])
        client.lock(LockRequest((component,), txn))
        if partitions:
            client.add_dynamic_partitions(txn, allocated.write_id, table, list(partitions))
        if outcome == "commit":
            client.commit_txn(txn)
        elif outcome == "abort":
            client.abort_txn(txn)
    return txns


def write_delta(
    folder: Path,
    rows: pa.Table,
    *,
    write_id: int,
    bucket: int = 0,
    statement_id: int = 0,
    compression: str = "ZLIB",
) -> Path:
    """Write `rows` as one file of a delta of the table or partition at `folder`, visible or not; gives the file."""
    delta = folder / str(DeltaName(WriteId(write_id), WriteId(write_id), statement_id))
    location = Location.of(str(delta))
    if not location.exists():
        location.make_folder()
        write_acid_version(location.store, [location.path], sync=False)
    file = delta / str(BucketFileName(bucket))
    with AcidOrcWriter(
        location.store,
        str(file),
        schema=rows.schema,
        write_id=WriteId(write_id),
        bucket_property=encode_bucket(bucket, statement_id),
        compression=compression,
        sync=False,
    ) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        writer.close()
    return file
