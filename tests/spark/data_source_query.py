"""A driver script: one streaming query through the data source, until its input is used up; then the table is read.

Arguments: the options of the data source (JSON), the folder of input files, the checkpoint, and a folder for marks.
The first attempt at the first task fails half-way. With PAUSE_AT in the environment, the second transaction to pass
that fault point leaves the mark "paused" and stays there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from hive_ingest.faults import set_hook
from hive_ingest.streaming.spark.data_source import HiveDataSource


def main(options: dict[str, str], source: str, checkpoint: str, marks: Path) -> None:
    pause_at = os.environ.get("PAUSE_AT")

    def first_time(mark: str) -> bool:
        try:
            (marks / mark).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def pause(point: str) -> None:
        if point == pause_at and not first_time(point) and first_time("paused"):
            time.sleep(600)

    class PausingSource(HiveDataSource):
        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            set_hook(pause)
            return super().streamWriter(schema, overwrite)

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, 5)
            if first_time("failed"):
                raise RuntimeError("the first attempt fails")
            yield batch.slice(5)

    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(PausingSource)
    rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(source)
    query = (
        rows.mapInArrow(fail_once, "id bigint")
        .writeStream.format("hive_ingest")
        .options(**options)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(type(rows).__module__)
    place = {name: options[name] for name in ("metastore", "warehouse", "table")}
    print(sorted(row.id for row in spark.read.format("hive_ingest").options(**place).load().collect()))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
