"""How fast records become committed rows, beside the serial limit of the same machine in the same run.

    python benchmarks/ingest.py                    everything (about ten minutes)
    python benchmarks/ingest.py throughput         1M records a transaction: JSON, text, CSV, partitions, one a call
    python benchmarks/ingest.py commits            1,000-row commits a second, synced
    python benchmarks/ingest.py progress           what exactly once adds to a commit

The serial limit reads the same input from memory by pyarrow's own parser, with threads, then writes the user's
columns by `pyarrow.orc.write_table` with the same compression: no transaction, no partitions, no sync on either
side. Each run is a process of its own, the two sides take turns, medians are reported.
"""

from __future__ import annotations

import argparse
import atexit
import io
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc

from hive_ingest.schema import arrow_schema

sys.path.insert(0, str(Path(__file__).parent))
from records import COLUMNS, COUNTRIES, make_input, make_quoted

ROWS = 1_000_000
RUNS = 5
BLOCK_BYTES = 1 << 20
#: Case -> (input format, partitioned, records a call, ratio to reach).
CASES = {
    "json": ("json", False, False, 1.05),
    "delimited": ("csv", False, False, 1.0),
    "csv_with_quotes": ("quoted", False, False, 1.0),
    "json_50_partitions": ("json", True, False, 0.8),
    "json_one_record_a_call": ("json", False, True, 0.5),
}


# -- one run, in a process of its own ------------------------------------------------------------------


def user_schema() -> pa.Schema:
    from hive_ingest.model import columns_of

    return arrow_schema(columns_of(COLUMNS))


def serial_limit(data: bytes, kind: str, folder: Path) -> tuple[float, int]:
    """Seconds and files of parse, then write, one after the other."""
    schema = user_schema()
    start = time.perf_counter()
    if kind == "json":
        options = pyarrow.json.ParseOptions(explicit_schema=schema)
        table = pyarrow.json.read_json(io.BytesIO(data), pyarrow.json.ReadOptions(use_threads=True), options)
    else:
        table = pyarrow.csv.read_csv(
            io.BytesIO(data),
            pyarrow.csv.ReadOptions(use_threads=True, column_names=schema.names),
            pyarrow.csv.ParseOptions(quote_char='"' if kind == "quoted" else False),
            pyarrow.csv.ConvertOptions(column_types=schema),
        )
    pyarrow.orc.write_table(table, str(folder / "limit.orc"), compression="zstd")
    seconds = time.perf_counter() - start
    assert table.num_rows == ROWS
    return seconds, 1


def connect(folder: Path, kind: str, partitioned: bool, **options: Any) -> Any:
    import hive_ingest as hi

    ms = hi.connect_metastore(f"sqlite:///{folder}/metastore.db", warehouse=str(folder / "warehouse"), create=True)
    ms.create_database("bench", if_not_exists=True)
    columns = dict(COLUMNS)
    keys = {"country": columns.pop("country")} if partitioned else None
    ms.create_table("bench.events", columns=columns, partition_keys=keys, if_not_exists=True)
    writers = {"json": hi.StrictJsonWriter(), "csv": hi.StrictDelimitedInputWriter(field_delimiter=",")}
    writer = writers.get(kind) or hi.CsvWriter(header=False)
    return hi.StreamingConnection.connect(ms, database="bench", table="events", record_writer=writer, **options)


def ours(data: bytes, kind: str, partitioned: bool, one_a_call: bool, folder: Path) -> tuple[float, int]:
    """Seconds and files from the first call of begin to the end of commit, in one transaction."""
    records: list[bytes]
    if one_a_call:
        records = data.splitlines()
    else:
        ends = range(0, len(data), BLOCK_BYTES)
        cuts = [0, *(data.index(b"\n", end + BLOCK_BYTES - 1) + 1 for end in ends if end + BLOCK_BYTES < len(data))]
        records = [data[a:b] for a, b in zip(cuts, [*cuts[1:], len(data)], strict=True)]
    with connect(folder, kind, partitioned, settings={"fsync": False}) as conn:
        start = time.perf_counter()
        conn.begin_transaction()
        write = conn.write
        for record in records:
            write(record)
        conn.commit_transaction()
        seconds = time.perf_counter() - start
        assert conn.stats.rows_committed == ROWS
        return seconds, conn.stats.files_committed


def run_child(case: str, side: str, source: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "child", "--case", case, "--side", side, "--source", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def child(case: str, side: str, source: Path) -> None:
    kind, partitioned, one_a_call, _ = CASES[case]
    data = source.read_bytes()
    # Where pandas is installed, pyarrow loads it at the first call of pa.array: 0.6 s once a process, on either side.
    pa.array([0])
    folder = Path(tempfile.mkdtemp(prefix="hive-ingest-bench-", dir=source.parent))
    try:
        if side == "limit":
            seconds, files = serial_limit(data, kind, folder)
        else:
            seconds, files = ours(data, kind, partitioned, one_a_call, folder)
    finally:
        shutil.rmtree(folder)
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "files": files, "rss_mib": rss_mib, "input_mib": len(data) / 2**20}))


# -- the cases -----------------------------------------------------------------------------------------


def throughput(cache: Path) -> None:
    as_json, as_text = make_input(cache, ROWS)
    inputs = {"json": as_json, "csv": as_text, "quoted": make_quoted(as_text)}
    print(f"\n{ROWS:,} records a transaction, median of {RUNS} runs; ratio = our rows/s to the serial limit's")
    print(
        f"{'case':26} {'ours rows/s':>12} {'limit rows/s':>13} {'ratio':>6} {'to reach':>8} "
        f"{'RSS MiB':>16} {'files':>6}"
    )
    for case, (kind, _, _, target) in CASES.items():
        runs: dict[str, list[dict[str, Any]]] = {"ours": [], "limit": []}
        for _ in range(RUNS):
            for side, found in runs.items():
                found.append(run_child(case, side, inputs[kind]))
        rate = {side: ROWS / statistics.median(r["seconds"] for r in found) for side, found in runs.items()}
        ratios = [b["seconds"] / a["seconds"] for a, b in zip(runs["ours"], runs["limit"], strict=True)]
        rss = " / ".join(f"{statistics.median(r['rss_mib'] for r in runs[side]):.0f}" for side in runs)
        print(
            f"{case:26} {rate['ours']:12,.0f} {rate['limit']:13,.0f} {statistics.median(ratios):6.2f} {target:8.2f} "
            f"{rss:>16} {runs['ours'][0]['files']:6}",
            flush=True,
        )


def probe_fsync(folder: Path, times: int = 200) -> float:
    """Median milliseconds to append a page to a file and sync it."""
    path = folder / "probe"
    spent = []
    with path.open("wb") as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            spent.append(time.perf_counter() - start)
    path.unlink()
    return statistics.median(spent) * 1000


def in_folder(cache: Path, measure: Callable[[Path], None]) -> None:
    """A new folder for each measurement, removed at the very end because freshly freed inodes cost time."""
    folder = Path(tempfile.mkdtemp(prefix="hive-ingest-bench-", dir=cache))
    atexit.register(shutil.rmtree, folder)
    measure(folder)


def commits(cache: Path) -> None:
    lines = make_input(cache, ROWS)[0].read_bytes().splitlines(keepends=True)

    def measure(folder: Path, partitioned: bool, target: float) -> None:
        with connect(folder, "json", partitioned) as conn:
            start = time.perf_counter()
            done = 0
            while time.perf_counter() - start < 10 or done < 20:
                with conn.transaction():
                    conn.write(b"".join(lines[done * 1000 % ROWS : done * 1000 % ROWS + 1000]))
                done += 1
            rate = done / (time.perf_counter() - start)
        what = f"over {COUNTRIES} partitions" if partitioned else "unpartitioned"
        print(f"  1,000 rows a commit, {what:20} {rate:7.1f} commits/s (to reach {target:.0f})", flush=True)

    print("\nsynced commits on SQLite")
    in_folder(cache, lambda folder: print(f"  probe: fsync of a 4 KiB append, median {probe_fsync(folder):.3f} ms"))
    in_folder(cache, lambda folder: measure(folder, False, 100))
    in_folder(cache, lambda folder: measure(folder, True, 15))


def progress(cache: Path) -> None:
    times = 1000
    line = make_input(cache, ROWS)[0].read_bytes().splitlines(keepends=True)[0]

    def medians(folder: Path, connections: list[Any], positions: bool) -> float:
        spent = []
        for i in range(times):
            conn = connections[i % len(connections)]
            start = time.perf_counter()
            conn.begin_transaction()
            conn.write(line)
            conn.commit_transaction(**({"positions": {f"s{i % len(connections)}": i}} if positions else {}))
            spent.append(time.perf_counter() - start)
        for conn in connections:
            conn.close()
        return statistics.median(spent) * 1000

    def measure(folder: Path) -> None:
        plain = medians(folder / "a", [connect(folder / "a", "json", False)], False)
        one = medians(folder / "b", [connect(folder / "b", "json", False, sink="s", sources=["s0"])], True)
        pair = [connect(folder / "c", "json", False, sink="s", sources=[f"s{i}"]) for i in range(2)]
        two = medians(folder / "c", pair, True)
        print(f"  without progress        {plain:6.2f} ms a transaction (begin, one row, commit), median of {times}")
        print(f"  one source              {one:6.2f} ms: {one - plain:+.2f} ms (to reach 10)")
        print(f"  two alternating sources {two:6.2f} ms: {two - plain:+.2f} ms (to reach 10)", flush=True)

    print("\nwhat exactly once costs, synced, on SQLite")
    in_folder(cache, measure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="all", choices=["all", "throughput", "commits", "progress", "child"])
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "hive-ingest-benchmarks")
    for name in ("--case", "--side"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what == "child":
        child(arguments.case, arguments.side, arguments.source)
        return
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, pyarrow {pa.__version__}"
    )
    for name, measure in (("throughput", throughput), ("commits", commits), ("progress", progress)):
        if arguments.what in ("all", name):
            measure(arguments.cache)


if __name__ == "__main__":
    main()
