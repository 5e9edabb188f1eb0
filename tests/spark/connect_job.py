"""A driver script: connect_job.py METASTORE WAREHOUSE CHECKPOINT writes a batch, then a stream, by Spark Connect.

It compacts what the stream has written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hive_ingest.streaming.spark import HiveSink, SparkCompactor, write_dataframe


def main(metastore: str, warehouse: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    place = {"metastore": metastore, "warehouse": warehouse}
    rows = spark.range(100).select("id", (F.col("id") % 3).cast("int").alias("part"))
    write_dataframe(rows, "web.batch", **place)  # type: ignore[arg-type]
    source = str(Path(checkpoint).with_name("source"))
    for start in (0, 10, 20):
        spark.range(start, start + 10).coalesce(1).write.mode("append").parquet(source)
    stream = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", "1").parquet(source)
    sink = HiveSink(table="web.stream", **place)  # type: ignore[arg-type]
    sink.start(stream, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()
    _replay(sink, stream, checkpoint)
    with SparkCompactor(spark=spark, split_bucket_bytes=1, **place) as compactor:  # type: ignore[arg-type]
        (outcome,) = compactor.compact("web.stream")
        print(outcome.state.text, outcome.message)
    spark.stop()


def _replay(sink: HiveSink, stream: DataFrame, checkpoint: str) -> None:
    """The last batch once more, as if Spark had died before it noted it as done."""
    for name in ("2", ".2.crc"):
        Path(checkpoint, "commits", name).unlink()
    sink.start(stream, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
