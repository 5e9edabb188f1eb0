"""Commits and rows a second on each file system that a warehouse may lie on, beside the local disk.

    python benchmarks/storage.py                            local disk, HDFS and S3
    python benchmarks/storage.py --stores local hdfs        those
    python benchmarks/storage.py --partitions 1 20          so many partitions a transaction
    python benchmarks/storage.py --large-rows 10000000      so many rows in a large transaction
    python benchmarks/storage.py --stores hdfs --java       and Java's Hive Streaming on the same HDFS
    python benchmarks/storage.py --stores hdfs --java 10    with ten transactions open at a time alone

Small transactions of 1,000 rows with a sink's progress, synced, into 1, 20 and 100 partitions; then large ones of
1,000,000 rows. The metastore is SQLite on the local disk each time. HDFS is a NameNode and a DataNode in one JVM
on this machine, S3 is moto in a process that answers one request at a time, Azure Storage is Azurite: on two cores
they take their share of the wall time. Their processor time has a column of its own.

The last column is what the file system takes at least: the seconds to write and sync as many bytes as such a
transaction stores, in one file each.

Java's Hive Streaming (3.1.3) runs in a warm JVM with its metastore on Derby. It gets the same rows as delimited text,
and opens one transaction at a time, as ours, or ten. It compresses nothing, syncs no file and records no progress.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.csv

import hive_ingest as hi

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1]))
from versus_java import java_hive

from hive_ingest.model import Table
from hive_ingest.storage import Location
from tests.interop.judge import Judge
from tests.support.warehouses import STORES, warehouse_in, warehouses_on

SMALL_ROWS = 1_000
LARGE_ROWS = 1_000_000
#: Connections, thread pools and the pipelines to the DataNodes are warm then.
WARM_UP = 3
JAVA_BATCHES = (1, 10)
#: Java is timed by rounds of transactions, not one by one.
JAVA_ROUNDS = 3
#: So many transactions before the first round: Java compiles what runs often.
JAVA_WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Of one commit."""

    wall_seconds: float
    cpu_seconds: float
    #: Of the service, on this machine.
    service_seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", nargs="+", choices=list(STORES), default=list(STORES))
    parser.add_argument("--partitions", nargs="+", type=int, default=[1, 20, 100])
    parser.add_argument("--commits", type=int, default=15, help="small transactions for each number of partitions")
    parser.add_argument("--large", type=int, default=3, help="large transactions")
    parser.add_argument("--large-rows", nargs="+", type=int, default=[LARGE_ROWS], help="rows of a large transaction")
    parser.add_argument(
        "--java", nargs="*", type=int, metavar="OPEN", help="Java on HDFS, too, so many transactions open at a time"
    )
    arguments = parser.parse_args()
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, pyarrow {pa.__version__}"
    )
    print(
        f"{'store':12} partitions   rows/txn   seconds/commit (least to most)   ms of processor time,"
        " and of the service's     rows/s   files alone"
    )
    for store in arguments.stores:
        with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder, _running(store, Path(folder)):
            _measure(store, Path(folder), arguments)
            if arguments.java is not None and store == "hdfs":
                _measure_java(Path(folder, "java"), arguments)


@contextmanager
def _running(store: str, folder: Path) -> Iterator[None]:
    def new_folder(name: str) -> Path:
        made = folder / name
        made.mkdir()
        return made

    with warehouses_on(store, new_folder):
        yield


def _measure(store: str, folder: Path, arguments: argparse.Namespace) -> None:
    with hi.connect_metastore(
        f"sqlite:///{folder}/metastore.db", warehouse=warehouse_in(folder), create=True
    ) as client:
        client.create_database("bench")
        for partitions in arguments.partitions:
            _cases(store, client, partitions, SMALL_ROWS, WARM_UP, arguments.commits)
        for rows in arguments.large_rows:
            _cases(store, client, 1, rows, 1, arguments.large)


def _cases(store: str, client: hi.MetastoreClient, partitions: int, rows: int, warm_up: int, commits: int) -> None:
    table = f"bench.t{partitions}_{rows}"
    timings = _commits(client, table, _rows(rows, partitions), warm_up + commits)[warm_up:]
    alone = _files_alone(client.get_table(table), partitions, warm_up + commits)
    _print(store, partitions, rows, timings, f"{alone:.3f}")


def _print(what: str, partitions: int, rows: int, timings: Sequence[Timing], alone: str) -> None:
    wall = [timing.wall_seconds for timing in timings]
    median = statistics.median(wall)
    cpu = statistics.median(timing.cpu_seconds for timing in timings)
    service = statistics.median(timing.service_seconds for timing in timings)
    print(
        f"{what:12} {partitions:10,} {rows:10,}   {median:14.3f} ({min(wall):.3f} to {max(wall):.3f})"
        f"   {cpu * 1000:20.0f}   {service * 1000:18.0f}   {rows / median:10,.0f}   {alone:>11}",
        flush=True,
    )


def _rows(rows: int, partitions: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "message": [f"message {number} of a device" for number in range(rows)],
            "value": [number * 0.37 for number in range(rows)],
            "day": [f"d{number % partitions:03}" for number in range(rows)],
        }
    )


def _commits(client: hi.MetastoreClient, table: str, rows: pa.Table, commits: int) -> list[Timing]:
    client.create_table(
        table,
        columns={"id": "bigint", "message": "string", "value": "double"},
        partition_keys={"day": "string"},
    )
    with hi.StreamingConnection.connect(
        client, table=table, record_writer=hi.ArrowWriter(), sink=table.partition(".")[2], sources=["bench"]
    ) as connection:
        return [_timed(partial(_commit, connection, rows, number)) for number in range(commits)]


def _commit(connection: hi.StreamingConnection, rows: pa.Table, number: int) -> None:
    connection.begin_transaction()
    connection.write(rows)
    connection.commit_transaction(positions={"bench": number})


def _files_alone(table: Table, partitions: int, commits: int) -> float:
    """The seconds to write the files of one transaction, one for each partition, on as many threads as a commit has."""
    folder = Location.of(table.location)
    stored = sum(entry.size_bytes for entry in folder.list(recursive=True) if entry.name.startswith("bucket_"))
    content = os.urandom(stored // commits // partitions)

    def write(file: Location) -> None:
        with file.create(sync=True) as out:
            out.write(content)

    def write_all(attempt: int) -> None:
        list(pool.map(write, [folder / f".alone_{attempt}_{number}" for number in range(partitions)]))

    with ThreadPoolExecutor(max(1, min(partitions, folder.store.parallel_files))) as pool:
        return statistics.median(_timed(partial(write_all, attempt)).wall_seconds for attempt in range(3))


# -- Java ----------------------------------------------------------------------------------------------


def _measure_java(folder: Path, arguments: argparse.Namespace) -> None:
    folder.mkdir()
    with java_hive(folder, warehouse_in(folder)) as hive:
        warm_up = JAVA_WARM_UP
        for batch in arguments.java or JAVA_BATCHES:
            for partitions in arguments.partitions:
                commits = -(-arguments.commits // JAVA_ROUNDS // batch) * batch
                _java_cases(hive, folder, partitions, SMALL_ROWS, warm_up, commits, batch)
                warm_up = WARM_UP
        _java_cases(hive, folder, 1, LARGE_ROWS, 1, 1, 1)


def _java_cases(hive: Judge, folder: Path, partitions: int, rows: int, warm_up: int, commits: int, batch: int) -> None:
    table = f"t{partitions}_{rows}_{batch}"
    hive.call(
        "sql",
        statement=f"create table {table} (id bigint, message string, value double) partitioned by (day string) "
        "stored as orc tblproperties('transactional'='true')",
    )

    def stream(commits: int) -> Timing:
        file = _lines(folder, rows, partitions, commits)
        found = hive.call(
            "stream_file",
            database="default",
            table=table,
            format="delimited",
            batch=batch,
            file=str(file),
            rows_per_commit=rows,
        )
        return Timing(found["seconds"] / commits, found["processor"] / commits)

    stream(warm_up)
    timings = [stream(commits) for _ in range(JAVA_ROUNDS)]
    [[count]] = hive.call("sql", statement=f"select count(*) from {table}")["rows"]
    if int(count) != (expected := (warm_up + JAVA_ROUNDS * commits) * rows):
        raise SystemExit(f"Java's table holds {count} rows, {expected:,} were streamed into it")
    _print(f"Java, {batch} open" if batch > 1 else "Java", partitions, rows, timings, "")


def _lines(folder: Path, rows: int, partitions: int, commits: int) -> Path:
    """The rows of so many transactions as delimited text."""
    file = folder / f"{rows}_{partitions}_{commits}.csv"
    if not file.exists():
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        with file.open("wb") as out:
            for _ in range(commits):
                pyarrow.csv.write_csv(_rows(rows, partitions), out, options)
    return file


# ------------------------------------------------------------------------------------------------------


def _timed(call: Callable[[], None]) -> Timing:
    service, wall, cpu = _service_seconds(), time.perf_counter(), time.process_time()
    call()
    wall_seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return Timing(wall_seconds, cpu_seconds, _service_seconds() - service)


def _service_seconds() -> float:
    """The processor time that the processes have taken which this one has started."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
