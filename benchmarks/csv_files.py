"""CSV files with quotes, plain and compressed by gzip, beside pyarrow and polars.

    python benchmarks/csv_files.py               medians of three runs, each in a process of its own
    python benchmarks/csv_files.py --rows 200000 --repeats 1

`ours` is `ingest_files`: parse, check every value, encode, and commit one transaction for all rows, without fsync.
`pyarrow` reads the file by `pyarrow.csv` with threads and writes an ORC file with the same compression. `polars` only
reads it (`polars.read_csv`, which needs `pip install polars`), since polars writes no ORC.
"""

from __future__ import annotations

import argparse
import gzip
import json
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

sys.path.insert(0, str(Path(__file__).parent))
from records import COLUMNS, make_input, make_quoted

CACHE = Path(tempfile.gettempdir()) / "hive-ingest-benchmarks"


def ours(source: Path, folder: Path) -> int:
    """Ingest the file into a new table. Returns its rows."""
    import hive_ingest as hi

    with hi.connect_metastore(f"sqlite:///{folder}/metastore.db", create=True) as metastore:
        metastore.create_database("bench")
        metastore.create_table("bench.events", columns=COLUMNS)
        started = Timer()
        result = hi.ingest_files(
            metastore,
            "bench.events",
            source,
            record_writer=hi.CsvWriter(header=False),
            rows_per_transaction=10**9,
            settings={"fsync": False},
        )
        started.report(result.stats.rows_committed)
    return result.stats.rows_committed


def by_pyarrow(source: Path, folder: Path) -> int:
    """Read the file and write its rows as ORC. Returns their number."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.orc

    types = {"bigint": pa.int64(), "string": pa.string(), "double": pa.float64()}
    schema = {name: types[type_] for name, type_ in COLUMNS.items()}
    started = Timer()
    table = pyarrow.csv.read_csv(
        source,  # gzip is recognised by the name
        pyarrow.csv.ReadOptions(column_names=list(schema)),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        pyarrow.csv.ConvertOptions(column_types=schema),
    )
    pyarrow.orc.write_table(table, str(folder / "events.orc"), compression="zstd")
    started.report(table.num_rows)
    return int(table.num_rows)


def by_polars(source: Path, folder: Path) -> int:
    """Read the file. Returns the number of rows."""
    import polars as pl

    types = {"bigint": pl.Int64, "string": pl.String, "double": pl.Float64}
    started = Timer()
    frame = pl.read_csv(source, has_header=False, schema={name: types[type_] for name, type_ in COLUMNS.items()})
    started.report(frame.height)
    return frame.height


SIDES: dict[str, Callable[[Path, Path], int]] = {"ours": ours, "pyarrow": by_pyarrow, "polars": by_polars}


class Timer:
    """Measures from its creation on."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def report(self, rows: int) -> None:
        """Print the figures of this process as JSON."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        print(json.dumps({"rows": rows, "seconds": seconds, "cpu": cpu, "peak_mib": peak / 1024}))


def measured(side: str, source: Path) -> dict[str, Any]:
    """The figures of one run in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--source", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compressed(source: Path) -> Path:
    """The file compressed by gzip, made once."""
    path = source.with_suffix(source.suffix + ".gz")
    if not path.exists():
        with source.open("rb") as plain, gzip.open(path.with_suffix(".part"), "wb", compresslevel=6) as packed:
            shutil.copyfileobj(plain, packed)
        path.with_suffix(".part").rename(path)
    return path


def main() -> None:
    """Measure all, or one side in a child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--source", type=Path)
    arguments = parser.parse_args()
    if arguments.side:
        with tempfile.TemporaryDirectory() as folder:
            SIDES[arguments.side](arguments.source, Path(folder))
        return
    plain = make_quoted(make_input(CACHE, arguments.rows)[1])
    print("| file | side | rows/s | processor time, µs/row | peak RSS, MiB |\n|---|---|---|---|---|")
    for source in (plain, compressed(plain)):
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for _ in range(arguments.repeats):
            for side, found in runs.items():
                found.append(measured(side, source))
        for side, found in runs.items():
            seconds, cpu, peak = (
                statistics.median(run[key] for run in found) for key in ("seconds", "cpu", "peak_mib")
            )
            rows = found[0]["rows"]
            name = "gzip" if source.suffix == ".gz" else "plain"
            print(f"| {name} | {side} | {rows / seconds:,.0f} | {cpu / rows * 1e6:.2f} | {peak:,.0f} |")


if __name__ == "__main__":
    main()
