"""A driver script that does a little of what the tests do, so that the classes for it are loaded."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def main(folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.range(0, 100, 1, 2).selectExpr("id", "cast(id AS string) AS text").write.parquet(f"{folder}/rows")

    def collect(df: DataFrame, batch_id: int) -> None:
        df.repartition(2, "text").mapInArrow(lambda batches: batches, df.schema).collect()

    stream = spark.readStream.schema("id bigint, text string").parquet(f"{folder}/rows")
    writer = stream.writeStream.foreachBatch(collect).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
