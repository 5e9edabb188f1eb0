"""A writer that can be killed: streams numbered rows exactly once, some rows a transaction.

Run as `python child.py <metastore uri> <warehouse> <table> <rows>`; the fault to die of is in the environment.
Prints one line for each commit that it was told of.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockRequest, LockType, TableName
from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.testing import AnswerLost, arm_from_environment

SINK, SOURCE = "crash", "numbers"
ROWS_A_TRANSACTION = 300
TXN_TIMEOUT_SECONDS = 4.0
#: So small that every transaction spills.
SETTINGS = {
    "max_buffer_bytes": 1 << 20,
    "spill_chunk_bytes": 1 << 12,
    "min_spill_bytes": 1 << 12,
    "writer_threads": 2,
    "lock_wait_seconds": 30.0,
}


def row(i: int) -> bytes:
    return json.dumps({"id": i, "text": f"row {i} " + "x" * 60, "part": f"p{i % 3}"}).encode()


def get_in_the_way(client: MetastoreClient, table: TableName, seconds: float) -> None:
    """Hold an exclusive lock for a moment, so that the writer has to wait once."""
    (txn,) = client.open_txns(1, agent_info="in the way")
    component = LockComponent(
        LockType.EXCLUSIVE, LockLevel.TABLE, table.database, table.table, operation_type=DataOperationType.NO_TXN
    )
    client.lock(LockRequest((component,), txn))

    def release() -> None:
        time.sleep(seconds)
        with client.clone() as own:
            own.abort_txn(txn)

    threading.Thread(target=release, daemon=True).start()


def main(uri: str, warehouse: str, table: str, rows: int) -> None:
    name = TableName.of(table)
    client = AnswerLost(
        connect_metastore(
            uri, warehouse=warehouse, txn_timeout_seconds=TXN_TIMEOUT_SECONDS, housekeeping_interval_seconds=1.0
        )
    )
    with StreamingConnection.connect(
        client,  # type: ignore[arg-type]  # it forwards every call
        database=name.database,
        table=name.table,
        record_writer=StrictJsonWriter(block_bytes=1 << 12),
        agent_info="child",
        settings=SETTINGS,
        sink=SINK,
        sources=[SOURCE],
    ) as conn:
        arm_from_environment()
        get_in_the_way(client, name, 0.2)  # type: ignore[arg-type]
        while True:
            conn.begin_transaction()
            latest = conn.progress[SOURCE]
            start = latest.position["next"] if latest else 0
            if start >= rows:
                conn.abort_transaction()
                return
            end = min(rows, start + ROWS_A_TRANSACTION)
            for i in range(start, end):
                conn.write(row(i))
            conn.commit_transaction(positions={SOURCE: {"next": end}})
            print(f"committed {end}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
