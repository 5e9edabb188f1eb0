"""A driver script: streams files into a table on an HDFS that requires Kerberos, one micro-batch for each file.

Run with the path of a JSON file that has `metastore`, `warehouse`, `folder` and `batches`. Each batch waits for a file
`go-<number>` in the folder. Prints a line for each batch, or why it failed, and at the end the rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import hive_ingest as hi
from hive_ingest.errors import StreamingError
from hive_ingest.streaming.spark import HiveSink
from tests.spark.numbers import FAILED_IN_JAVA
from tests.support.waiting import wait_until

_WAIT_SECONDS = 300


def stream_batch(spark: SparkSession, client: hi.MetastoreClient, folder: Path, number: int) -> None:
    """Run the query until its input, which has one file more than before, is used up."""
    (folder / "input" / f"{number}.json").write_text(json.dumps({"id": number}))
    rows = spark.readStream.schema("id bigint").json(str(folder / "input"))
    sink = HiveSink(metastore=client, table="web.t")
    sink.start(rows, checkpoint=str(folder / "checkpoint"), trigger={"availableNow": True}).awaitTermination()


def main(job: dict[str, Any]) -> None:
    folder = Path(job["folder"])
    (folder / "input").mkdir()
    spark = SparkSession.builder.getOrCreate()
    with hi.connect_metastore(job["metastore"], warehouse=job["warehouse"], create=True) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "bigint"})
        for number in range(job["batches"]):
            wait_until((folder / f"go-{number}").exists, f"nobody released batch {number}", _WAIT_SECONDS)
            try:
                stream_batch(spark, client, folder, number)
                print("batch", number, "committed", flush=True)
            except (StreamingError, *FAILED_IN_JAVA) as error:
                print("batch", number, "failed", str(error).replace("\n", " "), flush=True)
        print("rows", *sorted(hi.read_table(client, "web.t").column("id").to_pylist()), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
