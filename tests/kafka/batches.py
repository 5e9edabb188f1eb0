"""A driver script: batches.py SERVERS TOPIC CHECKPOINT prints each batch of a topic as a line of JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession


def main(servers: str, topic: str, checkpoint: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "6",
    }

    def tell(df: DataFrame, batch_id: int) -> None:
        rows = [[row.partition, row.offset, row.value.decode()] for row in df.collect()]
        print(json.dumps([batch_id, sorted(rows)]), flush=True)

    stream = spark.readStream.format("kafka").options(**options).load()
    writer = stream.writeStream.foreachBatch(tell).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
