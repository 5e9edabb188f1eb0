"""How fast records become committed rows, beside the serial limit of the same machine in the same run.

    python benchmarks/ingest.py                    everything (about ten minutes)
    python benchmarks/ingest.py throughput         1M records a transaction: JSON, text, CSV, partitions, one a call
    python benchmarks/ingest.py transactions       JSON and delimited, 1,000 to 1M records a transaction
    python benchmarks/ingest.py commits            1,000-row commits a second, synced
    python benchmarks/ingest.py progress           what exactly once adds to a commit

The serial limit reads the same input from memory by pyarrow's own parser, with threads, then writes the user's
columns by `pyarrow.orc.write_table` with the same compression: no transaction, no partitions, no sync on either
side. Each run is a process of its own, the two sides take turns, medians are reported. A process first runs a few small
transactions that do not count.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import io
import itertools
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
from collections.abc import Iterator, Sequence
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
#: Small transactions of each process before its clock starts.
WARM_UP_TRANSACTIONS = 5
#: Case -> (input format, partitioned, records a call, ratio to reach).
CASES = {
    "json": ("json", False, False, 1.05),
    "delimited": ("csv", False, False, 1.0),
    "csv_with_quotes": ("quoted", False, False, 1.0),
    "json_50_partitions": ("json", True, False, 0.8),
    "json_one_record_a_call": ("json", False, True, 0.5),
}
#: Rows of a transaction, of the whole run, and the ratio to reach.
SIZES = ((1_000, 100_000, None), (10_000, 1_000_000, 0.8), (100_000, 1_000_000, 1.0), (1_000_000, 1_000_000, 1.0))


# -- one run, in a process of its own ------------------------------------------------------------------


def user_schema() -> pa.Schema:
    from hive_ingest.model import columns_of

    return arrow_schema(columns_of(COLUMNS))


def serial_limit(transactions: Sequence[bytes], kind: str, folder: Path) -> int:
    """Parse, then write, one after the other; a file for each transaction. Returns the rows."""
    schema = user_schema()
    rows = 0
    for number, data in enumerate(transactions):
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
        pyarrow.orc.write_table(table, str(folder / f"limit.{number}.orc"), compression="zstd")
        rows += table.num_rows
    return rows


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


def ours(transactions: Sequence[bytes], conn: Any, one_a_call: bool) -> int:
    """Begin, write and commit each transaction. Returns the rows committed."""
    before = conn.stats.rows_committed
    for data in transactions:
        records = data.splitlines() if one_a_call else cut(data, BLOCK_BYTES)
        conn.begin_transaction()
        write = conn.write
        for record in records:
            write(record)
        conn.commit_transaction()
    return int(conn.stats.rows_committed - before)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """Whole lines of about `size` bytes."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at + size - 1) + 1 or len(data)
        yield data[at:end]
        at = end


def cut_rows(data: bytes, rows: int) -> list[bytes]:
    """The lines in parts of `rows`."""
    lines = data.splitlines(keepends=True)
    return [b"".join(lines[at : at + rows]) for at in range(0, len(lines), rows)]


def new_folder(cache: Path) -> Path:
    """Removed at the very end: for five seconds, ext4 searches past freed inodes whenever it creates a file."""
    folder = Path(tempfile.mkdtemp(prefix="hive-ingest-bench-", dir=cache))
    atexit.register(shutil.rmtree, folder)
    return folder


def run_child(case: str, side: str, source: Path, *, rows: int, per_transaction: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "child", "--case", case, "--side", side, "--source", str(source)]
    command += ["--rows", str(rows), "--rows-per-transaction", str(per_transaction)]
    command += ["--folder", str(new_folder(source.parent))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def child(case: str, side: str, source: Path, folder: Path, rows: int, per_transaction: int) -> None:
    kind, partitioned, one_a_call, _ = CASES[case]
    with source.open("rb") as file:
        data = file.read() if rows == ROWS else b"".join(itertools.islice(file, rows))
    transactions = [data] if per_transaction == rows else cut_rows(data, per_transaction)
    # A process loads modules (pandas, where it is installed: 0.6 s) and starts threads at its first transaction.
    first = b"".join(data[: 1 << 16].splitlines(keepends=True)[:-1])
    with contextlib.ExitStack() as stack:
        if side == "limit":
            run = functools.partial(serial_limit, kind=kind, folder=folder)
        else:
            conn = stack.enter_context(connect(folder, kind, partitioned, settings={"fsync": False}))
            run = functools.partial(ours, conn=conn, one_a_call=one_a_call)
        run([first] * WARM_UP_TRANSACTIONS)
        start, processor = time.perf_counter(), time.process_time()
        assert run(transactions) == rows
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "processor": processor, "rss_mib": rss_mib}))


# -- the cases -----------------------------------------------------------------------------------------


def side_by_side(case: str, source: Path, rows: int, per_transaction: int) -> dict[str, list[dict[str, Any]]]:
    """The results of both sides, which take turns."""
    runs: dict[str, list[dict[str, Any]]] = {"ours": [], "limit": []}
    for _ in range(RUNS):
        for side, found in runs.items():
            found.append(run_child(case, side, source, rows=rows, per_transaction=per_transaction))
    return runs


def median_of(runs: Sequence[dict[str, Any]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def report(label: str, runs: dict[str, list[dict[str, Any]]], rows: int, target: float | None) -> None:
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(runs["ours"], runs["limit"], strict=True)]
    rate = [f"{rows / median_of(found, 'seconds'):,.0f}" for found in runs.values()]
    processor = [f"{median_of(found, 'processor') / rows * 1e6:.2f}" for found in runs.values()]
    to_reach = "-" if target is None else f"{target:.2f}"
    rss = " / ".join(f"{median_of(found, 'rss_mib'):.0f}" for found in runs.values())
    print(
        f"{label:30} {rate[0]:>12} {rate[1]:>13} {statistics.median(ratios):6.2f} {to_reach:>8} "
        f"{' / '.join(processor):>15} {rss:>13}",
        flush=True,
    )


def heading(text: str) -> None:
    print(f"\n{text}, median of {RUNS} runs; ratio = our rows/s to the serial limit's; processor time and RSS of both")
    print(
        f"{'case':30} {'ours rows/s':>12} {'limit rows/s':>13} {'ratio':>6} {'to reach':>8} {'processor us/row':>15} "
        f"{'RSS MiB':>13}"
    )


def throughput(cache: Path) -> None:
    as_json, as_text = make_input(cache, ROWS)
    inputs = {"json": as_json, "csv": as_text, "quoted": make_quoted(as_text)}
    heading(f"{ROWS:,} records in one transaction")
    for case, (kind, _, _, target) in CASES.items():
        report(case, side_by_side(case, inputs[kind], ROWS, ROWS), ROWS, target)


def transactions(cache: Path) -> None:
    inputs = dict(zip(("json", "csv"), make_input(cache, ROWS), strict=True))
    heading("records by transaction")
    for case, kind in (("json", "json"), ("delimited", "csv")):
        for per_transaction, rows, target in SIZES:
            runs = side_by_side(case, inputs[kind], rows, per_transaction)
            report(f"{case}, {per_transaction:,} rows", runs, rows, target)


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
    print(f"  probe: fsync of a 4 KiB append, median {probe_fsync(new_folder(cache)):.3f} ms")
    measure(new_folder(cache), False, 100)
    measure(new_folder(cache), True, 25)


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
        print(f"  one source              {one:6.2f} ms: {one - plain:+.2f} ms (to reach 8)")
        print(f"  two alternating sources {two:6.2f} ms: {two - plain:+.2f} ms (to reach 8)", flush=True)

    print("\nwhat exactly once costs, synced, on SQLite")
    measure(new_folder(cache))


MEASURES = {"throughput": throughput, "transactions": transactions, "commits": commits, "progress": progress}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="all", choices=["all", *MEASURES, "child"])
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "hive-ingest-benchmarks")
    for name in ("--case", "--side"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--source", "--folder"):
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    for name in ("--rows", "--rows-per-transaction"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what == "child":
        child(
            arguments.case,
            arguments.side,
            arguments.source,
            arguments.folder,
            arguments.rows,
            arguments.rows_per_transaction,
        )
        return
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, pyarrow {pa.__version__}"
    )
    for name, measure in MEASURES.items():
        if arguments.what in ("all", name):
            measure(arguments.cache)


if __name__ == "__main__":
    main()
