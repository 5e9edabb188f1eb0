"""A writer that can be killed: streams numbered rows exactly once, some rows a transaction.

Run as `python child.py <metastore uri> <its options as JSON> <warehouse> <table> <rows>`; the fault to die of is in
the environment.
Prints one line for each commit that the call has confirmed.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    TableName,
)
from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.testing import AnswerLost, arm_from_environment

SINK, SOURCE = "crash", "numbers"
ROWS_A_TRANSACTION = 300
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


class ContendedMetastore(AnswerLost):
    """A metastore where another client holds the table until shortly after the writer starts to wait for it."""

    def hold_exclusive_lock(self, table: TableName) -> None:
        (self._other,) = self._client.open_txns(1, agent_info="in the way")
        component = LockComponent(
            LockType.EXCLUSIVE, LockLevel.TABLE, table.database, table.table, operation_type=DataOperationType.NO_TXN
        )
        self._client.lock(LockRequest((component,), self._other))

    def lock(self, request: LockRequest) -> LockResponse:
        answer = self._client.lock(request)
        if answer.state is LockState.WAITING:
            threading.Timer(0.1, self._release_lock).start()
        return answer

    def _release_lock(self) -> None:
        with self._client.clone() as own:
            own.abort_txn(self._other)


def main(uri: str, options: dict[str, Any], warehouse: str, table: str, rows: int) -> None:
    name = TableName.of(table)
    client = ContendedMetastore(connect_metastore(uri, warehouse=warehouse, **options, create=True))
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
        client.hold_exclusive_lock(name)
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
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
