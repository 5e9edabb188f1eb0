"""How fast files are merged, beside a serial decode and encode by pyarrow in the same run.

    python benchmarks/compaction.py                both cases (about two minutes, 1.5 GB of disk)
    python benchmarks/compaction.py small          1,000 deltas of 1,000 rows: minor, and major with 1 % deleted
    python benchmarks/compaction.py large          20 deltas of one large stripe each: minor

The serial side reads each file's stripes by `pyarrow.orc.ORCFile` and writes them by one `pyarrow.orc.ORCWriter` with
the same compression; it finds no deletes and writes no metadata of Hive's. Neither side syncs. The two take turns in
one process, after one turn that does not count; medians are reported.
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
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd  # noqa: F401  (pyarrow loads it sooner or later: not while the clock runs)
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc as orc

from hive_ingest.acid import ValidTxnList, ValidWriteIdList, encode_bucket
from hive_ingest.compaction import MergeSettings, merge, plan_major, plan_minor
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="all by default")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, pyarrow {pa.__version__}"
    )
    for case in arguments.cases or CASES:
        deltas, rows, ratio = CASES[case]
        with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder:
            _run(case, Path(folder), deltas, rows, ratio, arguments.runs)


def _run(case: str, folder: Path, deltas: int, rows: int, ratio: float, runs: int) -> None:
    table = Table(NAME, columns_of(COLUMNS), location=str(folder / "t"), properties={"transactional": "true"})
    _write_deltas(table, _rows(folder, rows), deltas)
    size = sum(path.stat().st_size for path in Path(table.location).rglob("bucket_*"))
    print(f"\n{case}: {deltas:,} deltas of {rows:,} rows, {size / 1e6:.1f} MB")
    _compare("minor", folder, table, deltas, ratio, runs)
    if case == "small":
        _delete_one_percent(table, deltas, rows)
        _compare("major", folder, table, deltas + 1, ratio, runs)


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


def _write_deltas(table: Table, batch: pa.RecordBatch, deltas: int) -> None:
    for write_id in range(1, deltas + 1):
        path = Path(table.location) / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
        path.parent.mkdir(parents=True)
        with AcidOrcWriter(
            STORE,
            str(path),
            schema=batch.schema,
            write_id=WriteId(write_id),
            bucket_property=encode_bucket(0),
            sync=False,
        ) as writer:
            writer.write(batch)
            writer.close()


def _delete_one_percent(table: Table, deltas: int, rows: int) -> None:
    write_id = deltas + 1
    path = Path(table.location) / f"delete_delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
    path.parent.mkdir()
    deleted = np.arange(0, rows, 100)
    count = len(deleted)
    with DeleteEventWriter(
        STORE, str(path), schema=arrow_schema(table.columns), write_id=WriteId(write_id), sync=False
    ) as writer:
        for i in range(1, deltas + 1):
            bucket = np.full(count, encode_bucket(0), np.int32)
            writer.write(RowIds(np.full(count, i, np.int64), bucket, deleted))
        writer.close()


def _compare(kind: str, folder: Path, table: Table, write_ids: int, ratio: float, runs: int) -> None:
    seconds: dict[str, list[float]] = {"serial": [], "merged": []}
    for run in range(runs + 1):
        for side, work in (
            ("serial", lambda: _serial(table, folder / "serial.orc")),
            ("merged", lambda: _merged(kind, table, write_ids)),
        ):
            took = _timed(work)
            if run:
                seconds[side].append(took)
        shutil.rmtree(Path(table.location) / ".hive_ingest")
    serial, merged = (statistics.median(seconds[side]) for side in ("serial", "merged"))
    verdict = "reached" if serial / merged >= ratio else "missed"
    print(f"  {kind}: serial {serial:.2f} s, merged {merged:.2f} s: {serial / merged:.2f}x ({ratio}x {verdict})")


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


def _merged(kind: str, table: Table, write_ids: int) -> None:
    location = Location.of(table.location)
    plan = (plan_minor if kind == "minor" else plan_major)(
        location, ValidWriteIdList(NAME, WriteId(write_ids)), ValidTxnList(TxnId(1)), txn_id=TxnId(1)
    )
    assert plan is not None
    settings = MergeSettings(threads=os.cpu_count() or 1, fsync=False)
    merge(plan, table, staging=location / ".hive_ingest" / "1_staged", settings=settings)


if __name__ == "__main__":
    main()
