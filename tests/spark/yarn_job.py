"""A job for a cluster: a stream of files into one table, then a batch of the same rows into another.

Run with the path of a JSON file that has `metastore`, `warehouse`, `input`, `schema`, `checkpoint` and `hangs_after`: a
batch of the stream after whose commit the driver does nothing more, unless it is a repeated one. Prints a line for
each batch and each executor's Python.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import hive_ingest
from hive_ingest.streaming.spark import BatchStats, HiveSink, write_dataframe


def main(job: dict[str, Any]) -> None:
    spark = SparkSession.builder.getOrCreate()
    place = {"metastore": job["metastore"], "warehouse": job["warehouse"]}

    def report(batch: BatchStats) -> None:
        print("batch", batch.batch_id, "skipped" if batch.is_skipped else "committed", flush=True)
        if batch.batch_id == job["hangs_after"] and not batch.is_skipped:
            time.sleep(600)

    rows = spark.readStream.schema(job["schema"]).option("maxFilesPerTrigger", 2).json(job["input"])
    sink = HiveSink(table="web.stream", on_batch=report, **place)
    sink.start(rows, checkpoint=job["checkpoint"], trigger={"availableNow": True}).awaitTermination()
    info = write_dataframe(spark.read.schema(job["schema"]).json(job["input"]), "web.batch", **place)
    print("batch job", info.rows, flush=True)
    found = spark.sparkContext.parallelize(range(2), 2).map(lambda _: f"{sys.executable} {hive_ingest.__file__}")
    for python in sorted(set(found.collect())):
        print("executor", python, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
