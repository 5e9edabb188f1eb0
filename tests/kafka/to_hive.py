"""A driver script: to_hive.py SERVERS TOPIC CHECKPOINT METASTORE WAREHOUSE streams a topic into web.events."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hive_ingest.streaming.spark import HiveSink
from hive_ingest.testing import arm_from_environment


def main(servers: str, topic: str, checkpoint: str, metastore: str, warehouse: str) -> None:
    arm_from_environment()
    spark = SparkSession.builder.getOrCreate()
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20",
    }
    records = spark.readStream.format("kafka").options(**options).load()
    events = records.select(
        F.col("value").cast("string").alias("msg"), "offset", F.col("partition").alias("kafka_partition")
    )
    sink = HiveSink(metastore=metastore, warehouse=warehouse, table="web.events", on_batch=tell)
    sink.start(events, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()


def tell(stats: object) -> None:
    print(stats, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
