"""How fast files are merged, beside a serial decode and encode by pyarrow in the same run.

    python benchmarks/compaction.py                all cases (about three minutes, 1.5 GB of disk)
    python benchmarks/compaction.py small          1,000 deltas of 1,000 rows: minor, and major with 1 % deleted
    python benchmarks/compaction.py large          20 deltas of one large stripe each: minor
    python benchmarks/compaction.py spark          4,000,000 rows, 1 % deleted: major, by local[2] and in one process

The serial side reads each file's stripes by `pyarrow.orc.ORCFile` and writes them by one `pyarrow.orc.ORCWriter` with
the same compression; it finds no deletes and writes no metadata of Hive's. Neither side syncs. The two take turns in
one process, after one turn that does not count; medians are reported.

`spark` compares `SparkCompactor`'s merge with that of `hive-ingest compactor`, which has two threads: of one bucket,
which Spark's tasks merge in four ranges of row ids, and of four buckets, a task each. Stripes of which rows are deleted
are decoded and encoded again, so nothing is copied but the ranges of the one bucket into their file.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd  # noqa: F401  (pyarrow loads it sooner or later: not while the clock runs)
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc as orc

from hive_ingest.acid import ValidTxnList, ValidWriteIdList, encode_bucket
from hive_ingest.compaction import DistributedMerge, Merger, MergeSettings, merge, plan_major, plan_minor
from hive_ingest.model import Table, TableName, TxnId, WriteId, columns_of
from hive_ingest.orc import AcidOrcWriter, DeleteEventWriter, RowIds
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import LocalStore, Location

sys.path.insert(0, str(Path(__file__).parent))
from records import COLUMNS, make_input

RUNS = 5
NAME = TableName("bench", "t")
STORE = LocalStore()
#: Case -> (deltas, rows of each, ratio to reach).
CASES = {"small": (1000, 1000, 1.5), "large": (20, 500_000, 10.0)}
SPARK = "spark"
#: Layout -> (deltas, buckets, rows of each file).
SPARK_LAYOUTS = {"one bucket": (8, 1, 500_000), "four buckets": (8, 4, 125_000)}
SPARK_RANGES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, SPARK, []], help="all by default")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, pyarrow {pa.__version__}"
    )
    for case in arguments.cases or [*CASES, SPARK]:
        with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder:
            if case == SPARK:
                _run_spark(Path(folder), arguments.runs)
            else:
                _run(case, Path(folder), arguments.runs)


def _run(case: str, folder: Path, runs: int) -> None:
    deltas, rows, ratio = CASES[case]
    table = _table(folder / "t")
    _write_deltas(table, _rows(folder, rows), deltas)
    print(f"\n{case}: {deltas:,} deltas of {rows:,} rows, {_bytes_of(table) / 1e6:.1f} MB")
    _compare("minor", folder, table, deltas, ratio, runs)
    if case == "small":
        _delete_one_percent(table, deltas, rows)
        _compare("major", folder, table, deltas + 1, ratio, runs)


def _table(location: Path) -> Table:
    return Table(NAME, columns_of(COLUMNS), location=str(location), properties={"transactional": "true"})


def _bytes_of(table: Table) -> int:
    return sum(path.stat().st_size for path in Path(table.location).rglob("bucket_*"))


def _rows(folder: Path, rows: int) -> pa.RecordBatch:
    _, path = make_input(folder, rows)
    schema = arrow_schema(columns_of(COLUMNS))
    found = pyarrow.csv.read_csv(
        path,
        pyarrow.csv.ReadOptions(column_names=schema.names),
        convert_options=pyarrow.csv.ConvertOptions(column_types=schema),
    )
    [batch] = found.combine_chunks().to_batches()
    return batch


def _write_deltas(table: Table, batch: pa.RecordBatch, deltas: int, buckets: int = 1) -> None:
    for write_id in range(1, deltas + 1):
        for bucket in range(buckets):
            path = Path(table.location) / f"delta_{write_id:07d}_{write_id:07d}_0000" / f"bucket_{bucket:05d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            with AcidOrcWriter(
                STORE,
                str(path),
                schema=batch.schema,
                write_id=WriteId(write_id),
                bucket_property=encode_bucket(bucket),
                sync=False,
            ) as writer:
                writer.write(batch)
                writer.close()


def _delete_one_percent(table: Table, deltas: int, rows: int, buckets: int = 1) -> None:
    write_id = deltas + 1
    folder = Path(table.location) / f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
    folder.mkdir()
    deleted = np.arange(0, rows, 100)
    count = len(deleted)
    for bucket in range(buckets):
        with DeleteEventWriter(
            STORE,
            str(folder / f"bucket_{bucket:05d}"),
            schema=arrow_schema(table.columns),
            write_id=WriteId(write_id),
            sync=False,
        ) as writer:
            for i in range(1, deltas + 1):
                buckets_of = np.full(count, encode_bucket(bucket), np.int32)
                writer.write(RowIds(np.full(count, i, np.int64), buckets_of, deleted))
            writer.close()


def _run_spark(folder: Path, runs: int) -> None:
    """Both merges write the same base; the one on Spark has its tasks on the cores of this machine."""
    from spark_sink import session  # needs pyspark and Java

    from hive_ingest.streaming.spark.merge_job import SparkTaskRunner

    runner = SparkTaskRunner(session())
    for layout, (deltas, buckets, rows) in SPARK_LAYOUTS.items():
        table = _table(folder / layout.replace(" ", "_"))
        _write_deltas(table, _rows(folder, rows), deltas, buckets)
        _delete_one_percent(table, deltas, rows, buckets)
        size = _bytes_of(table)
        split_bytes = size // (buckets * SPARK_RANGES) if buckets == 1 else size
        mergers: dict[str, Merger] = {
            "one process": merge,
            "local[2]": DistributedMerge(runner, split_bucket_bytes=split_bytes),
        }
        seconds = _take_turns(
            {name: partial(_merged, "major", table, deltas + 1, merger) for name, merger in mergers.items()},
            runs,
            lambda table=table: shutil.rmtree(Path(table.location) / ".hive_ingest"),
        )
        figures = ", ".join(f"{name} {took:.2f} s" for name, took in seconds.items())
        print(f"\n{SPARK}, {layout}: {deltas * buckets * rows:,} rows, {size / 1e6:.1f} MB: {figures}")


def _compare(kind: str, folder: Path, table: Table, write_ids: int, ratio: float, runs: int) -> None:
    seconds = _take_turns(
        {
            "serial": lambda: _serial(table, folder / "serial.orc"),
            "merged": lambda: _merged(kind, table, write_ids),
        },
        runs,
        lambda: shutil.rmtree(Path(table.location) / ".hive_ingest"),
    )
    serial, merged = seconds["serial"], seconds["merged"]
    verdict = "reached" if serial / merged >= ratio else "missed"
    print(f"  {kind}: serial {serial:.2f} s, merged {merged:.2f} s: {serial / merged:.2f}x ({ratio}x {verdict})")


def _take_turns(sides: dict[str, Callable[[], None]], runs: int, clean_up: Callable[[], object]) -> dict[str, float]:
    """The median of the seconds of each side, after one turn that does not count."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for run in range(runs + 1):
        for side, work in sides.items():
            took = _timed(work)
            if run:
                seconds[side].append(took)
        clean_up()
    return {side: statistics.median(times) for side, times in seconds.items()}


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _serial(table: Table, target: Path) -> None:
    writer = None
    with pa.OSFile(str(target), "wb") as out:
        for path in sorted(Path(table.location).glob("delta_*/bucket_00000")):
            file = orc.ORCFile(str(path))
            for stripe in range(file.nstripes):
                writer = writer or orc.ORCWriter(out, compression="zstd")
                writer.write(pa.Table.from_batches([file.read_stripe(stripe)]))
        assert writer is not None
        writer.close()


def _merged(kind: str, table: Table, write_ids: int, merger: Merger = merge) -> None:
    location = Location.of(table.location)
    plan = (plan_minor if kind == "minor" else plan_major)(
        location, ValidWriteIdList(NAME, WriteId(write_ids)), ValidTxnList(TxnId(1)), txn_id=TxnId(1)
    )
    assert plan is not None
    settings = MergeSettings(threads=os.cpu_count() or 1, fsync=False)
    merger(plan, table, staging=location / ".hive_ingest" / f"1_bench_{uuid.uuid4().hex}", settings=settings)


if __name__ == "__main__":
    main()
