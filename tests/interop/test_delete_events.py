"""Delete events that are written here delete the rows for Hive too, and Hive compacts them away."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.acid.names import BucketFileName, DeleteDeltaName
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, WriteId
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.writer.acid_writer import write_acid_version
from hive_ingest.orc.writer.delete_writer import DeleteEventWriter
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import LocalStore
from tests.interop.agreement import BOTH_MODES, assert_agreement
from tests.interop.hive import RealHive
from tests.interop.tables import allocate, orc_properties, write_delta
from tests.support.tables import folder_of

COLUMNS = {"id": "int", "msg": "string", "who": "struct<name:string,ages:array<int>>"}
ROWS_OF_A_DELTA = 5_000


def rows(start: int) -> pa.Table:
    numbers = range(start, start + ROWS_OF_A_DELTA)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "msg": [f"row {i}" for i in numbers],
            "who": pa.array([{"name": str(i), "ages": [i]} if i % 5 else None for i in numbers]).cast(
                pa.struct([("name", pa.string()), ("ages", pa.list_(pa.int32()))])
            ),
        }
    )


def delete(table: Table, events: RowIds, *, write_id: int, compression: str) -> None:
    folder = folder_of(table) / str(DeleteDeltaName(WriteId(write_id), WriteId(write_id), 0))
    LocalStore().make_folder(str(folder))
    write_acid_version(LocalStore(), [str(folder)], sync=False)
    with DeleteEventWriter(
        LocalStore(),
        str(folder / str(BucketFileName(0))),
        schema=arrow_schema(table.columns),
        write_id=WriteId(write_id),
        compression=compression,
        sync=False,
    ) as writer:
        writer.write(events)
        writer.close()


def test_rows_that_we_delete_are_gone_for_hive(hive: RealHive, client: MetastoreClient, database: str) -> None:
    properties = orc_properties(hive)
    table = client.create_table(f"{database}.t", columns=COLUMNS, properties=properties)
    compression = properties["orc.compress"]
    for write_id in (1, 2):
        write_delta(folder_of(table), rows(write_id * ROWS_OF_A_DELTA), write_id=write_id, compression=compression)
    numbers = np.arange(2 * ROWS_OF_A_DELTA)
    gone = np.random.default_rng(1).random(len(numbers)) < 0.6
    events = RowIds(
        1 + numbers[gone] // ROWS_OF_A_DELTA,
        np.full(gone.sum(), encode_bucket(0, 0), np.int32),
        numbers[gone] % ROWS_OF_A_DELTA,
    )
    delete(table, events, write_id=3, compression=compression)
    allocate(client, table.name, ["commit"] * 3)

    found = assert_agreement(hive, client, str(table.name), modes=BOTH_MODES)

    left = (ROWS_OF_A_DELTA + numbers[~gone]).tolist()
    assert sorted(cells[0] for cells in found.values()) == left
    hive.sql(f"update {table.name} set msg = 'changed' where id % 7 = 0")
    found = assert_agreement(hive, client, str(table.name), modes=BOTH_MODES)
    assert sorted(cells[0] for cells in found.values()) == left
    hive.compact(str(table.name), "major")
    assert assert_agreement(hive, client, str(table.name)).keys() == found.keys()
