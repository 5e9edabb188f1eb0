"""A driver script: spark_writer.py FOLDER CHECKPOINT METASTORE TABLE streams Parquet files, one a batch."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from hive_ingest.streaming.spark import HiveSink


def main(folder: str, checkpoint: str, metastore: str, table: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    schema = spark.read.parquet(folder).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(folder).repartition(3)
    sink = HiveSink(metastore=metastore, table=table, task_buffer_bytes=1 << 20)
    sink.start(rows, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
