"""A driver script: compact_job.py METASTORE WAREHOUSE TABLE OPTIONS compacts a table with a `SparkCompactor`.

OPTIONS is JSON: arguments of `SparkCompactor`, and `conf`, settings of the session. Prints "compacting", then the state
of the compaction and its message.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from hive_ingest.compaction import CompactorSettings, JobSettings, MergeSettings
from hive_ingest.streaming.spark import SparkCompactor
from hive_ingest.testing import arm_from_environment


def main(metastore: str, warehouse: str, table: str, options: dict[str, Any]) -> None:
    conf = options.pop("conf", {})
    stripe_bytes = options.pop("stripe_bytes", 1_000_000)
    spark = SparkSession.builder.getOrCreate()
    for name, value in conf.items():
        spark.conf.set(name, value)
    settings = CompactorSettings(job=JobSettings(merge=MergeSettings(stripe_bytes=stripe_bytes)))
    with SparkCompactor(metastore=metastore, warehouse=warehouse, spark=spark, settings=settings, **options) as it:
        arm_from_environment()
        print("compacting", flush=True)
        for outcome in it.compact(table):
            print(outcome.state.text, outcome.message.replace("\n", " "), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
