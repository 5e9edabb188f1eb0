"""A writer that dies or stops where the environment says: late_writer.py METASTORE TABLE writes one transaction.

Its rows have ids from 1000 on. It spills half-way.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import hive_ingest as hi
from hive_ingest.model import TableName
from hive_ingest.testing import arm_from_environment

FIRST_ID = 1000
ROWS = 40


def rows(ids: range) -> pa.Table:
    return pa.table({"id": list(ids), "part": ["a"] * len(ids)})


def main(uri: str, table: str) -> None:
    name = TableName.of(table)
    with (
        hi.connect_metastore(uri) as client,
        hi.StreamingConnection.connect(
            client,
            database=name.database,
            table=name.table,
            record_writer=hi.ArrowWriter(),
            settings={"min_spill_bytes": 1},
        ) as conn,
    ):
        arm_from_environment()
        with conn.transaction():
            conn.write(rows(range(FIRST_ID, FIRST_ID + ROWS // 2)))
            conn.flush()
            conn.write(rows(range(FIRST_ID + ROWS // 2, FIRST_ID + ROWS)))


if __name__ == "__main__":
    main(*sys.argv[1:])
