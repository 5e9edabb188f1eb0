"""One transaction into many partitions, flushed many times; prints its peak memory. Run as a script.

python many_partitions.py <folder> <partitions> <flushes> <buffer MiB>
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hive_ingest as hi

ROWS_A_PARTITION_AND_FLUSH = 5


def peak_memory_mib() -> float:
    """The peak of this process alone: `ru_maxrss` starts with that of the process that forked it."""
    [kilobytes] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    return int(kilobytes) / 1024


def main(folder: Path, partitions: int, flushes: int, buffer_mib: int) -> dict[str, Any]:
    with hi.connect_metastore(
        f"sqlite:///{folder}/metastore.db", warehouse=str(folder / "warehouse"), create=True
    ) as ms:
        ms.create_database("many", if_not_exists=True)
        ms.create_table("many.parts", columns={"id": "bigint", "msg": "string"}, partition_keys={"p": "int"})
        settings = {"max_buffer_bytes": buffer_mib << 20, "max_partitions_per_transaction": partitions}
        with hi.StreamingConnection.connect(
            ms, database="many", table="parts", record_writer=hi.ArrowWriter(), settings=settings
        ) as conn:
            with conn.transaction():
                for number in range(flushes):
                    conn.write(rows(number, partitions))
                    conn.flush()
            stats = conn.stats
    return {
        "rss_mib": peak_memory_mib(),
        "rows": stats.rows_committed,
        "files": stats.files_committed,
        "partitions": stats.partitions_created,
        "spills": stats.spills,
    }


def rows(number: int, partitions: int) -> pa.Table:
    """Five rows of about 100 bytes for each partition, in no order."""
    count = partitions * ROWS_A_PARTITION_AND_FLUSH
    ids = np.random.default_rng(number).permutation(count)
    messages = pa.array([f"{i:>90}" for i in ids])
    return pa.table(
        {"id": pa.array(ids + number * count), "msg": messages, "p": pa.array((ids % partitions).astype("int32"))}
    )


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
