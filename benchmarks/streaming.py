"""How fast a table is read, and written, while small commits stream into it and compaction keeps up.

    python benchmarks/streaming.py                     ten minutes with the policy on, twice one without
    python benchmarks/streaming.py --mode inline       the compactor's threads run in the writing process
    python benchmarks/streaming.py --seconds 120       shorter
    python benchmarks/streaming.py --nice 10           `nice -n 10 hive-ingest compactor`

A process commits records as fast as it can, synced, with a sink's progress. Meanwhile this process reads the whole
table again and again, taking turns with a second table of the same columns that was compacted before and does not
change: both are read under the same load, and their rows a second are compared. The writer's commits a second are
compared with those of the same process without compaction, before and after. There the reader reads the compacted table
twice, because a table of thousands of deltas would take it far longer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import hive_ingest as hi
from hive_ingest.compaction import MaintenanceMode

sys.path.insert(0, str(Path(__file__).parent))
from records import COLUMNS, make_input

#: Read time to stay within, as a multiple of a compacted table's, and the least share of the commits a second.
MOST_READ_TIME, LEAST_COMMITS = 1.5, 0.85
REFERENCE_ROWS = 2_000_000
#: Samples of a smaller table would measure how long a scan takes to begin.
LEAST_ROWS = 200_000
_PAUSE_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="with the policy on")
    parser.add_argument("--baseline-seconds", type=float, default=60.0, help="without it, before and after")
    parser.add_argument("--rows-per-commit", type=int, default=100)
    parser.add_argument("--nice", type=int, default=0, help="of the compactor's process")
    parser.add_argument("--mode", choices=["request", "inline"], default="request")
    parser.add_argument("--write", nargs=4, metavar=("METASTORE", "TABLE", "MODE", "SECONDS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        metastore, table, mode, seconds = arguments.write
        _write(metastore, table, mode, float(seconds), arguments.rows_per_commit)
        return
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, pyarrow {pa.__version__}"
    )
    with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder:
        _compare(Path(folder), arguments)


def _compare(folder: Path, arguments: argparse.Namespace) -> None:
    metastore = f"sqlite:///{folder}/metastore.db"
    with hi.connect_metastore(metastore, warehouse=str(folder / "warehouse"), create=True) as client:
        client.create_database("bench")
        for name in ("before", "live", "after", "reference"):
            client.create_table(f"bench.{name}", columns=COLUMNS)
        _fill_reference(client, folder, arguments.rows_per_commit)
        phases = {}
        for name in ("before", "live", "after"):
            is_live = name == "live"
            seconds = arguments.seconds if is_live else arguments.baseline_seconds
            phases[name] = _phase(client, metastore, name, arguments.mode if is_live else "off", seconds, arguments)
    without = statistics.mean(phases[name]["commits_per_second"] for name in ("before", "after"))
    share = phases["live"]["commits_per_second"] / without
    verdict = _verdict(share >= LEAST_COMMITS)
    print(f"commits/s with the policy on: {share:.2f} of those without ({LEAST_COMMITS} {verdict})")


def _verdict(is_reached: bool) -> str:
    return "reached" if is_reached else "missed"


def _fill_reference(client: hi.MetastoreClient, folder: Path, rows_per_commit: int) -> None:
    """The rows of the other table, so that both compress alike."""
    block = _block(rows_per_commit)
    as_json = folder / "reference.json"
    as_json.write_bytes(block * (REFERENCE_ROWS // rows_per_commit))
    hi.ingest_files(client, "bench.reference", as_json, record_writer=hi.StrictJsonWriter())
    hi.compact(client, "bench.reference", kind="major", wait=True)
    as_json.unlink()


def _phase(
    client: hi.MetastoreClient, metastore: str, table: str, mode: str, seconds: float, arguments: argparse.Namespace
) -> dict[str, float]:
    """One writer for `seconds` seconds, while the tables are read."""
    compactor = _start_compactor(metastore, arguments.nice) if mode == "request" else None
    command = [sys.executable, __file__, "--rows-per-commit", str(arguments.rows_per_commit)]
    writer = subprocess.Popen(
        [*command, "--write", metastore, f"bench.{table}", mode, str(seconds)], stdout=subprocess.PIPE, text=True
    )
    ratios: list[float] = []
    while writer.poll() is None:
        reference = _rows_per_second(client, "bench.reference")[1]
        if mode != "off":
            rows, live = _rows_per_second(client, f"bench.{table}")
            if rows >= LEAST_ROWS:
                ratios.append(reference / live)
                print(f"  {rows:12,} rows: {live:12,.0f} rows/s, compacted {reference:12,.0f}: {ratios[-1]:.2f}x")
        else:
            _rows_per_second(client, "bench.reference")
        _wait(writer, _PAUSE_SECONDS)
    assert writer.stdout is not None
    if writer.returncode:
        raise SystemExit(f"the writer ended with status {writer.returncode}")
    result: dict[str, float] = json.loads(writer.stdout.read())
    if compactor is not None:
        _stop(compactor)
    print(
        f"{table}: compaction {mode}, {result['commits']:,.0f} commits of {arguments.rows_per_commit:,} rows, "
        f"{result['commits_per_second']:.1f}/s, {result['cpu_seconds'] / result['commits'] * 1000:.2f} ms of processor "
        "time each"
    )
    if ratios:
        print(
            f"  reading takes {statistics.median(ratios):.2f}x of a compacted table's time (median of {len(ratios)}, "
            f"highest {max(ratios):.2f}; {MOST_READ_TIME} {_verdict(statistics.median(ratios) <= MOST_READ_TIME)})"
        )
    return result


def _rows_per_second(client: hi.MetastoreClient, table: str) -> tuple[int, float]:
    start = time.perf_counter()
    with hi.scan(client, table) as scan:
        rows = sum(batch.num_rows for batch in scan)
    return rows, rows / (time.perf_counter() - start)


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _start_compactor(metastore: str, nice: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hive_ingest.cli", "compactor", "--metastore", metastore]
    return subprocess.Popen(["nice", "-n", str(nice), *command], stdout=subprocess.DEVNULL)


def _stop(compactor: subprocess.Popen[bytes]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    compactor.send_signal(signal.SIGTERM)
    compactor.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  the compactor used {used:.1f} s of processor time")


def _block(rows: int) -> bytes:
    with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder:
        as_json, _ = make_input(Path(folder), rows)
        return as_json.read_bytes()


def _write(metastore: str, table: str, mode: MaintenanceMode, seconds: float, rows: int) -> None:
    """The writing process: prints its figures as JSON."""
    block = _block(rows)
    commits = 0
    with (
        hi.connect_metastore(metastore) as client,
        hi.Maintenance(client, mode=mode) as maintenance,
        hi.StreamingConnection.connect(
            client,
            table=table,
            record_writer=hi.StrictJsonWriter(),
            sink=table.partition(".")[2],
            sources=["generator"],
            on_commit=maintenance.on_commit,
        ) as connection,
    ):
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            connection.begin_transaction()
            connection.write(block)
            commits += 1
            connection.commit_transaction(positions={"generator": commits})
        took = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {"commits": commits, "commits_per_second": commits / took, "cpu_seconds": used.ru_utime + used.ru_stime}
        )
    )


if __name__ == "__main__":
    main()
