"""A driver script: connect_job.py METASTORE WAREHOUSE CHECKPOINT writes a batch, then a stream, by Spark Connect."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hive_ingest.streaming.spark import HiveSink, write_dataframe


def main(metastore: str, warehouse: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    place = {"metastore": metastore, "warehouse": warehouse}
    rows = spark.range(100).select("id", (F.col("id") % 3).cast("int").alias("part"))
    write_dataframe(rows, "web.batch", **place)  # type: ignore[arg-type]
    source = str(Path(checkpoint).with_name("source"))
    for start in (0, 10, 20):
        spark.range(start, start + 10).coalesce(1).write.mode("append").parquet(source)
    stream = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", "1").parquet(source)
    # The function runs on the server, in a process that cannot be asked for the query's id.
    sink = HiveSink(table="web.stream", query_id="the-query", **place)  # type: ignore[arg-type]
    sink.start(stream, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
