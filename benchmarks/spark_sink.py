"""HiveSink beside Spark's own ORC writer, which has no transactions, in one run on one session.

    python benchmarks/spark_sink.py                 all parts (about eight minutes)
    python benchmarks/spark_sink.py throughput      5M rows from Parquet: rows/s
    python benchmarks/spark_sink.py one-day         the same rows into one partition: by size, and by one task
    python benchmarks/spark_sink.py overhead        what a transaction adds to a tiny micro-batch

Throughput: local[2]; the same Parquet files through `HiveSink` (zstd, synced, committed on SQLite) and through
`df.write.orc` (zstd); the two take turns, medians are reported. Overhead: a stream of tiny batches through HiveSink and
through a foreachBatch that collects the same rows through an identity mapInArrow, median of each.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import hive_ingest as hi
from hive_ingest.model import columns_of
from hive_ingest.schema import arrow_schema
from hive_ingest.streaming.spark import HiveSink
from hive_ingest.streaming.spark.java import use_java

sys.path.insert(0, str(Path(__file__).parent))
from records import COLUMNS, make_input

ROWS = 5_000_000
COPIES = 5
RUNS = 5
DAY_RUNS = 3
TINY_ROWS = 100
TINY_BATCHES = 40


def session() -> SparkSession:
    use_java()
    builder = SparkSession.builder.master("local[2]").appName("hive-ingest benchmark")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_parquet(folder: Path) -> None:
    """The events of `benchmarks/ingest.py`, five times, with consecutive ids."""
    _, text = make_input(Path(tempfile.gettempdir()) / "hive-ingest-benchmarks", ROWS // COPIES)
    types = arrow_schema(columns_of(COLUMNS))
    events = pa.csv.read_csv(
        text, pa.csv.ReadOptions(column_names=types.names), convert_options=pa.csv.ConvertOptions(column_types=types)
    )
    folder.mkdir()
    for copy in range(COPIES):
        ids = pc.add(events["id"], copy * events.num_rows)
        rows = events.set_column(0, "id", ids)
        half = rows.num_rows // 2
        for part in range(2):
            pq.write_table(rows.slice(part * half, half), folder / f"part-{copy}-{part}.parquet")


class Table:
    """A fresh metastore with one table."""

    def __init__(self, folder: Path, columns: dict[str, str], partition_keys: dict[str, str] | None = None) -> None:
        self.uri, self.warehouse = f"sqlite:///{folder}/metastore.db", str(folder / "warehouse")
        folder.mkdir()
        with hi.connect_metastore(self.uri, warehouse=self.warehouse, create=True) as client:
            client.create_database("web")
            client.create_table("web.t", columns=columns, partition_keys=partition_keys or {})

    def sink(self, **more: object) -> HiveSink:
        return HiveSink(metastore=self.uri, warehouse=self.warehouse, table="web.t", **more)  # type: ignore[arg-type]

    def rows(self) -> int:
        with hi.connect_metastore(self.uri, warehouse=self.warehouse, create=True) as client:
            return sum(batch.num_rows for batch in hi.scan(client, "web.t", columns=["id"]))


def timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def planned_batches(folder: Path, batches: int) -> str:
    """A checkpoint as Spark writes it, so that the sink accepts batches that are not from a streaming query."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id": "benchmark"}')
    for batch in range(batches):
        (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs": {batch}}}')
    return str(folder)


def throughput(spark: SparkSession, scratch: Path) -> float:
    make_parquet(scratch / "input")
    df = spark.read.parquet(str(scratch / "input"))
    table = Table(scratch / "hive", COLUMNS)
    sink = table.sink(checkpoint=planned_batches(scratch / "checkpoint", RUNS + 1))
    ours: list[float] = []
    theirs: list[float] = []
    for run in range(RUNS + 1):
        target = str(scratch / f"spark-{run}")
        spark_seconds = timed(lambda target=target: df.write.option("compression", "zstd").orc(target))
        our_seconds = timed(lambda run=run: sink(df, run))
        shutil.rmtree(target)
        if run:  # the first pair warms the JVM and Spark's Python workers
            theirs.append(spark_seconds)
            ours.append(our_seconds)
            print(f"  run {run}: Spark {ROWS / spark_seconds:,.0f} rows/s, sink {ROWS / our_seconds:,.0f} rows/s")
    assert table.rows() == ROWS * (RUNS + 1), "rows are missing"
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(
        f"throughput, {ROWS:,} rows, medians of {RUNS}: df.write.orc {ROWS / statistics.median(theirs):,.0f} rows/s, "
        f"HiveSink {ROWS / statistics.median(ours):,.0f} rows/s, ratio {ratio:.2f} (to reach: 0.9)"
    )
    return ratio


def one_day(spark: SparkSession, scratch: Path) -> None:
    """One partition, as of a daily batch: its rows are spread by size, or clustered into one task."""
    folder = scratch / "input"
    if not folder.exists():
        make_parquet(folder)
    df = spark.read.parquet(str(folder)).withColumn("day", F.lit("2026-11-23"))
    ways: dict[str, bool | None] = {"by size": None, "cluster=True": True}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    tasks: dict[str, int] = {}
    for run in range(DAY_RUNS + 1):
        for way, cluster in ways.items():
            table = Table(scratch / f"day-{run}-{cluster}", COLUMNS, {"day": "string"})
            checkpoint = planned_batches(scratch / f"day-checkpoint-{run}-{cluster}", 1)
            sink = table.sink(checkpoint=checkpoint, cluster=cluster)
            taken = timed(lambda sink=sink: sink(df, 0))
            tasks[way] = sink.last_batch.tasks if sink.last_batch else 0
            if run:  # the first warms the JVM and Spark's Python workers
                seconds[way].append(taken)
    for way, found in seconds.items():
        print(f"one day, {way}: {tasks[way]} tasks, {ROWS / statistics.median(found):,.0f} rows/s")


def identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def overhead(spark: SparkSession, scratch: Path) -> float:
    table = Table(scratch / "tiny", {"id": "bigint", "at": "timestamp"})
    sink = table.sink()
    seconds: dict[str, list[float]] = {"collect": [], "sink": []}

    def collect(df: DataFrame, batch_id: int) -> None:
        seconds["collect"].append(timed(lambda: df.mapInArrow(identity, df.schema).collect()))

    def write(df: DataFrame, batch_id: int) -> None:
        seconds["sink"].append(timed(lambda: sink(df, batch_id)))

    for name, function in {"collect": collect, "sink": write}.items():
        df = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", TINY_ROWS).load()
        df = df.select(F.col("value").alias("id"), F.col("timestamp").alias("at"))
        query = df.writeStream.foreachBatch(function).option("checkpointLocation", str(scratch / f"cp-{name}")).start()
        while len(seconds[name]) < TINY_BATCHES and query.isActive:
            time.sleep(0.05)
        query.stop()
        if query.exception() is not None:
            raise SystemExit(f"{name}: {query.exception()}")
    medians = {name: statistics.median(found[5:TINY_BATCHES]) * 1000 for name, found in seconds.items()}
    added = medians["sink"] - medians["collect"]
    print(
        f"tiny batches of {TINY_ROWS} rows, medians of {TINY_BATCHES - 5}: mapInArrow and collect "
        f"{medians['collect']:.0f} ms, HiveSink {medians['sink']:.0f} ms, added {added:.0f} ms (to reach: 150)"
    )
    return added


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=["throughput", "one-day", "overhead"])
    part = parser.parse_args().part
    spark = session()
    with tempfile.TemporaryDirectory(prefix="hive-ingest-spark-") as folder:
        if part in (None, "overhead"):
            overhead(spark, Path(folder))
        if part in (None, "throughput"):
            throughput(spark, Path(folder))
        if part in (None, "one-day"):
            one_day(spark, Path(folder))
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
