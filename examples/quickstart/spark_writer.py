"""The writer on Spark: a streaming query whose micro-batches go into the table. It may be killed at any moment.

Run as `python -m examples.quickstart.spark_writer <demo folder>`; it ends when its standard input ends and all
files are in the table. The environment may name a fault point to stop at (`hive_ingest.testing`).
"""

from __future__ import annotations

import select
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import hive_ingest as hi
from examples.quickstart.flights import COLUMNS, PARTITION_KEYS
from examples.quickstart.places import COMPACTION, NAME, SINK, connect, input_folder, metastore_uri, warehouse
from examples.quickstart.reports import Report
from examples.quickstart.spark_session import quiet_session
from hive_ingest.streaming.spark import BatchStats, HiveSink
from hive_ingest.testing import arm_from_environment

FILES_PER_BATCH = 4


def stream(spark: SparkSession, demo: Path) -> StreamingQuery:
    """What a program needs: a streaming DataFrame, the sink, a checkpoint."""
    sink = HiveSink(
        metastore=metastore_uri(demo),
        warehouse=str(warehouse(demo)),
        table=str(NAME),
        sink=SINK,
        on_batch=_Sum(_rows_committed(demo)).add,
        maintenance="inline",
        compaction_policy=COMPACTION,
    )
    return sink.start(_arriving_flights(spark, demo), checkpoint=str(demo / "checkpoint"), trigger="200 milliseconds")


def _arriving_flights(spark: SparkSession, demo: Path) -> DataFrame:
    types = {name: type_.replace("timestamp", "timestamp_ntz") for name, type_ in (COLUMNS | PARTITION_KEYS).items()}
    return (
        spark.readStream.schema(", ".join(f"{name} {type_}" for name, type_ in types.items()))
        .option("mode", "FAILFAST")
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .json(str(input_folder(demo)))
    )


def _rows_committed(demo: Path) -> int:
    with connect(demo) as client:
        return hi.read_table(client, str(NAME), columns=["row_number"]).num_rows


class _Sum:
    """Adds up the batches."""

    def __init__(self, rows: int) -> None:
        self._sum = Report(rows, transactions=0)
        self._sum.send()

    def add(self, batch: BatchStats) -> None:
        if not batch.is_skipped:
            self._sum = Report(self._sum.rows + batch.rows, self._sum.transactions + 1)
            self._sum.send()


def _run_until_the_input_ends(query: StreamingQuery) -> None:
    while not select.select([sys.stdin], [], [], 0)[0]:
        query.awaitTermination(0.2)  # type: ignore[arg-type]  # seconds, of which parts are fine
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    arm_from_environment(except_threads="hive-ingest-worker")
    folder = Path(sys.argv[1])
    with quiet_session(folder) as session:
        _run_until_the_input_ends(stream(session, folder))
