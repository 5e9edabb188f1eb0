"""A driver script: streaming queries that read numbered files into tables, each until its input is used up.

Run with the path of a JSON file that has `metastore` (URI), `warehouse`, `metastore_options`, `resume_file` and
`streams`. Each stream has `table`, `input`, `checkpoint`, `columns`, `sink` (arguments of HiveSink), and, to be held at
a fault point, `point` and `batch_id`. Prints a line for each batch, and the outcome of each query when it ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hive_ingest.metastore_client import connect_metastore
from hive_ingest.streaming.spark import BatchStats, HiveSink
from hive_ingest.testing import AnswerLost, arm_from_environment
from tests.spark import held
from tests.spark.numbers import SCHEMA


def start(spark: SparkSession, job: dict[str, Any], stream: dict[str, Any], client: AnswerLost) -> StreamingQuery:
    table = stream["table"]

    def report_batch(batch: BatchStats) -> None:
        print("batch", table, batch.batch_id, "skipped" if batch.is_skipped else "committed", flush=True)

    options = {"metastore": client, "table": table, "on_batch": report_batch, **stream["sink"]}
    sink = (
        held.HeldSink(
            point=stream["point"], batch_id=stream["batch_id"], resume_file=Path(job["resume_file"]), **options
        )
        if "point" in stream
        else HiveSink(**options)
    )
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).json(stream["input"])
    rows = rows.selectExpr(*stream["columns"].split(", "))
    return sink.start(rows, checkpoint=stream["checkpoint"], trigger={"availableNow": True})


def main(job: dict[str, Any]) -> None:
    spark = SparkSession.builder.getOrCreate()
    for key, value in job["conf"].items():
        spark.conf.set(key, value)
    metastore = connect_metastore(job["metastore"], warehouse=job["warehouse"], **job["metastore_options"], create=True)
    with AnswerLost(metastore) as client:
        if any("point" in stream for stream in job["streams"]):
            held.arm()
        else:
            arm_from_environment()
        queries = {stream["table"]: start(spark, job, stream, client) for stream in job["streams"]}
        for table, query in queries.items():
            try:
                query.awaitTermination()
                print("ended", table, flush=True)
            except StreamingQueryException as error:
                print("failed", table, str(error).replace("\n", " "), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
