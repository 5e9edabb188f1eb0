"""A driver script: writes rows whose partition is another one each time that Spark computes them, as they may be after
`dropDuplicates`, and has an executor die once a task has written its share.

Run with the path of a JSON file that has `metastore`, `warehouse`, `table`, `rows` and `arms`. Prints the number of
rows, or the error of Spark.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from hive_ingest.streaming.spark import write_dataframe
from tests.spark.numbers import FAILED_IN_JAVA

_PARTITIONS = 8
_MIB = 1 << 20


def at_random(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows without a partition of their own."""
    seed = random.SystemRandom()
    for batch in batches:
        ids = batch.column(0).to_pylist()
        rows = {
            "id": ids,
            "text": [f"{seed.getrandbits(800):x}" for _ in ids],
            "part": [f"p{seed.randrange(_PARTITIONS)}" for _ in ids],
        }
        yield pa.RecordBatch.from_pydict(rows)


def kill_later(arms: Path) -> None:
    """Kill the executor of a task that begins after another one has ended."""
    while not (arms / "after_prepare.hit").exists():
        time.sleep(0.01)
    (arms / ".after_join").write_text("kill-executor")
    (arms / ".after_join").rename(arms / "after_join")


def main(job: dict[str, Any]) -> None:
    spark = SparkSession.builder.getOrCreate()
    rows = spark.range(0, job["rows"], 1, 4).mapInArrow(at_random, "id bigint, text string, part string")
    threading.Thread(target=kill_later, args=[Path(job["arms"])], daemon=True).start()
    place = {"metastore": job["metastore"], "warehouse": job["warehouse"]}
    try:
        print("rows", write_dataframe(rows, job["table"], **place, target_file_bytes=_MIB).rows, flush=True)
    except FAILED_IN_JAVA as error:
        print("failed", str(error).replace("\n", " "), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
