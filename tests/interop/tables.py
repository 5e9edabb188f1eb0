"""Tables that are written here and read by real Hive."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.acid.names import BucketFileName, DeltaName
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Column, Table, WriteId
from hive_ingest.storage.filesystem import open_store
from hive_ingest.storage.orc_file import AcidOrcWriter, write_acid_version
from tests.interop.hive import Allocated, Outcome, RealHive


def adopt(hive: RealHive, metastore: MetastoreClient, table: str) -> list[Allocated]:
    """Tell Hive's metastore of a table of ours: same name, location, partitions, and fate of every write id.

    Its database must be there. An open write id stays open in Hive until `hive.finish`.
    """
    ours = metastore.get_table(table)
    hive.sql(create_statement(ours))
    partitions = {partition.values: partition.location for partition in metastore.list_partitions(table)}
    if partitions:
        hive.add_partitions(table, partitions)
    return hive.allocate(table, _outcomes(metastore, table))


def create_statement(table: Table) -> str:
    """HiveQL for a table with the definition and the location of `table`."""
    clauses = [f"create table {table.name} ({_definitions(table.columns)})"]
    if table.partition_keys:
        clauses.append(f"partitioned by ({_definitions(table.partition_keys)})")
    if table.is_bucketed:
        columns = ", ".join(f"`{name}`" for name in table.bucket_columns)
        clauses.append(f"clustered by ({columns}) into {table.num_buckets} buckets")
    properties = ", ".join(f"'{key}'='{value}'" for key, value in table.properties.items())
    return " ".join([*clauses, f"stored as orc location '{table.location}' tblproperties ({properties})"])


def _definitions(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def _outcomes(metastore: MetastoreClient, table: str) -> list[Outcome]:
    [snapshot] = metastore.get_valid_write_ids([table], metastore.get_valid_txns())
    outcomes: list[Outcome] = []
    for write_id in range(1, snapshot.high_water_mark + 1):
        if snapshot.is_aborted(WriteId(write_id)):
            outcomes.append("abort")
        else:
            outcomes.append("commit" if snapshot.is_valid(WriteId(write_id)) else "open")
    return outcomes


def location_of(folder: Path) -> str:
    """As Hive writes locations: nothing percent-encoded, as `Path.as_uri` does even to the = of a partition."""
    return f"file://{folder}"


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
    store, path = open_store(str(delta))
    if not delta.exists():
        store.make_folder(path)
        write_acid_version(store, [path], sync=False)
    file = delta / str(BucketFileName(bucket))
    with AcidOrcWriter(
        store,
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
