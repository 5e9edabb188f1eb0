"""How fast a table is read that many small transactions wrote, before and after a major compaction.

    python benchmarks/reading.py                   1,000 and 3,000 small deltas, and one large file of as many rows

Beside `read_table`, a loop over the files by `pyarrow.orc.ORCFile`, which looks at no snapshot, no delete event and no
checksum. The two take turns in one process, after one turn that does not count; medians are reported: seconds, and
seconds of processor time of all threads. The last column of a compacted table is how many times faster it is read.

The last two lines read the hundredth of the rows that was written last: `where` as text, and the same condition as an
Arrow expression, leave out files and stripes by their statistics.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pandas as pd  # noqa: F401  (pyarrow loads it sooner or later: not while the clock runs)
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

import hive_ingest as hi
from hive_ingest.compaction import Cleaner

sys.path.insert(0, str(Path(__file__).parent))
from records import COLUMNS, make_input

RUNS = 5
#: Table -> (commits, rows of each).
TABLES = {"deltas_1000": (1_000, 1_000), "deltas_3000": (3_000, 100), "one_file": (1, 1_000_000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="all by default")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, pyarrow {pa.__version__}"
    )
    print(f"{'table':12} {'what':20} {'seconds':>8} {'processor s':>12} {'rows/s':>12}")
    with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder:
        metastore = f"sqlite:///{folder}/metastore.db"
        with hi.connect_metastore(metastore, create=True) as client:
            client.create_database("bench")
            for name in arguments.tables or TABLES:
                _measure(client, name, Path(folder), arguments.runs)


def _measure(client: hi.MetastoreClient, name: str, folder: Path, runs: int) -> None:
    commits, rows = TABLES[name]
    location = _write(client, name, folder, commits, rows)
    before = _timed(client, name, location, commits * rows, runs)
    for what, (seconds, processor) in before.items():
        _print(name, what, seconds, processor, f"{commits * rows / seconds:12,.0f}")
    if commits == 1:
        return
    assert hi.compact(client, f"bench.{name}", kind="major", wait=True)
    Cleaner(client).run_once(f"bench.{name}")
    after = _timed(client, name, location, commits * rows, runs)
    for what, (seconds, processor) in after.items():
        ratio = f"{before[what][0] / seconds:.1f}x"
        _print("  compacted", what, seconds, processor, f"{commits * rows / seconds:12,.0f} {ratio:>7}")


def _print(name: str, what: str, seconds: float, processor: float, rest: str) -> None:
    print(f"{name:12} {what:20} {seconds:8.3f} {processor:12.3f} {rest}")


def _timed(
    client: hi.MetastoreClient, name: str, location: Path, rows: int, runs: int
) -> dict[str, tuple[float, float]]:
    """Seconds, and seconds of processor time, of each way to read."""
    table = f"bench.{name}"
    few = rows // 100
    last, expression = f"id >= {rows - few}", pc.field("id") >= rows - few
    work: dict[str, tuple[Callable[[], int], int]] = {
        "pyarrow": (lambda: _by_pyarrow(location), rows),
        "read_table": (lambda: hi.read_table(client, table).num_rows, rows),
        "one column": (lambda: hi.read_table(client, table, columns=["id"]).num_rows, rows),
        "1 % by where": (lambda: hi.read_table(client, table, where=last).num_rows, few),
        "1 % by expression": (lambda: hi.read_table(client, table, filter=expression).num_rows, few),
    }
    found: dict[str, list[tuple[float, float]]] = {what: [] for what in work}
    for run in range(runs + 1):
        for what, (read, expected) in work.items():
            start, processor = time.perf_counter(), time.process_time()
            assert read() == expected
            if run:
                found[what].append((time.perf_counter() - start, time.process_time() - processor))
    return {
        what: (statistics.median(time[0] for time in times), statistics.median(time[1] for time in times))
        for what, times in found.items()
    }


def _write(client: hi.MetastoreClient, name: str, folder: Path, commits: int, rows: int) -> Path:
    table = client.create_table(f"bench.{name}", columns=COLUMNS)
    lines = make_input(folder, commits * rows)[0].read_bytes().splitlines(keepends=True)
    with hi.StreamingConnection.connect(
        client, table=table.name, record_writer=hi.StrictJsonWriter(), settings={"fsync": False}
    ) as connection:
        for start in range(0, commits * rows, rows):
            with connection.transaction():
                connection.write(b"".join(lines[start : start + rows]))
    return Path(unquote(urlsplit(table.location).path))


def _by_pyarrow(location: Path) -> int:
    batches = []
    for path in sorted(location.glob("base_*/bucket_00000")) or sorted(location.glob("delta_*/bucket_00000")):
        file = orc.ORCFile(str(path))
        batches += [file.read_stripe(stripe) for stripe in range(file.nstripes)]
    return sum(batch.num_rows for batch in batches)


if __name__ == "__main__":
    main()
