"""Hive Streaming V2 in Java (hive-streaming 3.1.3) beside hive-ingest: the same records, in one run, taking turns.

    python benchmarks/versus_java.py                         all cases (about ten minutes)
    python benchmarks/versus_java.py --cases json delimited  some of them
    python benchmarks/versus_java.py --rows 200000 --repeats 3

Each case starts one JVM, and one Python process for each of our two compressions; all stay alive. After a warm-up
run in each, they take turns. The reported rates are medians, and the ratio is the median of the ratios of the turns.
The time runs from the first begin to the end of close and includes reading the file: Java gets each line as a byte[],
ours gets blocks of bytes with many lines.

The comparison is limited to what both can do: no compression (Java's deltas have none), no sync (Java has none; Derby
runs with durability=test, ours with fsync=False), an embedded metastore (Derby, SQLite), and ten transactions opened at
a time. Java's heap may grow to 2 GiB. The rows of every run are counted in the footers of its files, those of the last
run by a query on each side as well. Our peak RSS should be at most half of Java's.

The shares of each side's steps and its processor time show what limits it: Java reads and encodes row by row in the
thread that calls write; ours parses and encodes on several threads. On a busy machine the ratio falls, because ours
is the side that would use a second core; the ratio of processor times moves less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.orc

import hive_ingest as hi

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1]))
from records import COLUMNS, make_input

from tests.interop.judge import Judge
from tests.interop.runner import runner
from tests.services.fetch import fetch

ROWS = 1_000_000
REPEATS = 5
SMALL = 1_000
BLOCK_BYTES = 1 << 20
STEPS = ("begin", "write", "commit")
TRANSACTION_BATCH_SIZE = 10
JAVA_VERSION = "3.1.3"
JVM = ("-Xmx2g", "-Dderby.system.durability=test")
_SCHEMA_SCRIPT = "hive-schema-3.1.0.derby.sql"
_DATA_FILE = re.compile(r"bucket_\d+")


@dataclass(frozen=True, slots=True)
class Case:
    """`share` of the records go through it; `target` is our rate to Java's."""

    format: str
    partitioned: bool
    rows_per_commit: int
    share: float
    target: float


CASES = {
    "json": Case("json", False, 100_000, 1, 3),
    "delimited": Case("delimited", False, 100_000, 1, 2.5),
    "json_50_partitions": Case("json", True, 100_000, 1, 5),
    "delimited_50_partitions": Case("delimited", True, 100_000, 1, 5),
    "small_commits": Case("delimited", False, SMALL, 0.2, 4),
}


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds: in all, of the calls of each step, of processor time. And the bytes of the table's data files."""

    seconds: float
    begin: float
    write: float
    commit: float
    processor: float
    stored_bytes: int


class Side(Protocol):
    """One process that streams the records of a case into a new table each time."""

    def run(self, number: int) -> Run: ...

    def peak_rss_mib(self) -> float: ...

    def count_rows(self, number: int) -> int: ...

    def close(self) -> None: ...


def peak_rss_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def checked_bytes(folder: Path, rows: int) -> int:
    """The size of a table's data files, which must hold so many rows."""
    files = [path for path in folder.rglob("bucket_*") if _DATA_FILE.fullmatch(path.name)]
    found = sum(pa.orc.ORCFile(path).nrows for path in files)
    if found != rows:
        raise SystemExit(f"{folder} holds {found:,} rows, {rows:,} were streamed into it")
    return sum(path.stat().st_size for path in files)


# -- Java ----------------------------------------------------------------------------------------------


class Java:
    """Hive Streaming V2 and its metastore in one JVM."""

    def __init__(self, case: Case, source: Path, rows: int, folder: Path) -> None:
        self._case, self._source, self._rows, self._folder = case, source, rows, folder
        self._judge = java_hive(folder, f"file:{folder}/warehouse")

    def run(self, number: int) -> Run:
        self._create_table(number)
        found = self._judge.call(
            "stream_file",
            database="default",
            table=f"events_{number}",
            format=self._case.format,
            batch=TRANSACTION_BATCH_SIZE,
            file=str(self._source),
            rows_per_commit=self._case.rows_per_commit,
        )
        return Run(**found, stored_bytes=checked_bytes(self._folder / "warehouse" / f"events_{number}", self._rows))

    def _create_table(self, number: int) -> None:
        columns = [f"`{name}` {type_}" for name, type_ in COLUMNS.items()]
        keys = f"partitioned by ({columns.pop()})" if self._case.partitioned else ""
        table = f"events_{number} ({', '.join(columns)}) {keys}"
        self._judge.call("sql", statement=f"create table {table} stored as orc tblproperties('transactional'='true')")

    def peak_rss_mib(self) -> float:
        return peak_rss_mib(self._judge.pid)

    def count_rows(self, number: int) -> int:
        [[count]] = self._judge.call("sql", statement=f"select count(*) from events_{number}")["rows"]
        return int(count)

    def close(self) -> None:
        self._judge.close()


def java_hive(folder: Path, warehouse: str) -> Judge:
    """A process with Hive and its metastore on Derby in `folder`, and the warehouse at that location."""
    url = f"jdbc:derby:;databaseName={folder}/metastore_db;create=true"
    jvm = (*JVM, f"-Dderby.system.home={folder}")
    make = runner(JAVA_VERSION).java_command("EmbeddedMetastore", [url, str(schema_script(folder))], jvm=jvm)
    subprocess.run(make, check=True, cwd=folder)
    settings = {
        "javax.jdo.option.ConnectionURL": url,
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "hive.metastore.event.db.notification.api.auth": "false",
        "hive.metastore.warehouse.dir": warehouse,
    }
    return Judge(JAVA_VERSION, folder, settings, jvm=jvm)


def schema_script(folder: Path) -> Path:
    """Hive's own script for its metastore on Derby, out of Hive's distribution."""
    with tarfile.open(next(fetch(f"hive-{JAVA_VERSION}").glob("*-bin.tar.gz"))) as archive:
        for member in archive:
            if member.name.endswith(f"/derby/{_SCHEMA_SCRIPT}"):
                file = archive.extractfile(member)
                assert file
                (folder / _SCHEMA_SCRIPT).write_bytes(file.read())
    return folder / _SCHEMA_SCRIPT


# -- ours ----------------------------------------------------------------------------------------------


class Ours:
    """hive-ingest in a separate Python process."""

    def __init__(self, name: str, source: Path, rows: int, folder: Path, compression: str) -> None:
        self._rows, self._folder = rows, folder
        command = [sys.executable, __file__, "--ours", name, str(source), str(rows), str(folder), compression]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, number: int) -> Run:
        found = self._ask("run", number)
        return Run(**found, stored_bytes=checked_bytes(self._folder / f"bench.db/events_{number}", self._rows))

    def peak_rss_mib(self) -> float:
        return peak_rss_mib(self._process.pid)

    def count_rows(self, number: int) -> int:
        return int(self._ask("count", number))

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, question: str, number: int) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        print(question, number, file=self._process.stdin, flush=True)
        if not (answer := self._process.stdout.readline()):
            raise SystemExit("our process died; its traceback stands above")
        return json.loads(answer)


def serve(name: str, source: Path, rows: int, folder: Path, compression: str) -> None:
    """Our process: answers each question on standard input with a line of JSON."""
    with hi.connect_metastore(f"sqlite:///{folder}/metastore.db", warehouse=str(folder), create=True) as metastore:
        metastore.create_database("bench")
        for line in sys.stdin:
            question, number = line.split()
            table = f"bench.events_{number}"
            if question == "run":
                found = stream(metastore, table, CASES[name], source, rows, compression)
            else:
                found = hi.read_table(metastore, table, columns=["id"]).num_rows
            print(json.dumps(found), flush=True)


def stream(metastore: Any, table: str, case: Case, source: Path, rows: int, compression: str) -> dict[str, float]:
    """Seconds of one run, by step."""
    conn = connect(metastore, table, case, compression)
    spent = dict.fromkeys(STEPS, 0.0)
    processor, start = time.process_time(), time.perf_counter()
    with conn, source.open("rb") as file:
        lines = Lines(file, min(BLOCK_BYTES, 64 * case.rows_per_commit))
        for _ in range(0, rows, case.rows_per_commit):
            with timed(spent, "begin"):
                conn.begin_transaction()
            with timed(spent, "write"):
                for block in lines.blocks(case.rows_per_commit):
                    conn.write(block)
            with timed(spent, "commit"):
                conn.commit_transaction()
    return {**spent, "seconds": time.perf_counter() - start, "processor": time.process_time() - processor}


class Lines:
    """The lines of a file, in blocks."""

    def __init__(self, file: BinaryIO, block_bytes: int) -> None:
        self._file, self._block_bytes = file, block_bytes
        self._unread = memoryview(b"")

    def blocks(self, lines: int) -> Iterator[bytes]:
        """The next lines, in blocks of about `block_bytes`, or of all of them if these are fewer."""
        while lines:
            block = bytes(self._unread) or self._file.read(self._block_bytes) + self._file.readline()
            self._unread = memoryview(b"")
            newlines = np.frombuffer(block, np.uint8) == ord("\n")
            if (found := int(np.count_nonzero(newlines))) > lines:
                end = int(np.flatnonzero(newlines)[lines - 1]) + 1
                block, self._unread, found = block[:end], memoryview(block)[end:], lines
            yield block
            lines -= found


@contextmanager
def timed(spent: dict[str, float], step: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    spent[step] += time.perf_counter() - start


def connect(metastore: Any, table: str, case: Case, compression: str) -> hi.StreamingConnection:
    columns = dict(COLUMNS)
    keys = {"country": columns.pop("country")} if case.partitioned else None
    metastore.create_table(table, columns=columns, partition_keys=keys, properties={"orc.compress": compression})
    database, _, name = table.partition(".")
    return hi.StreamingConnection.connect(
        metastore,
        database=database,
        table=name,
        record_writer=hi.StrictJsonWriter()
        if case.format == "json"
        else hi.StrictDelimitedInputWriter(field_delimiter=","),
        transaction_batch_size=TRANSACTION_BATCH_SIZE,
        settings={"fsync": False},
    )


# -- one case ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of one side after its warm-up, in turn, and its process's peak."""

    runs: list[Run]
    rss_mib: float

    def median(self, field: str) -> float:
        return statistics.median(asdict(run)[field] for run in self.runs)


def measure(name: str, rows: int, repeats: int, cache: Path) -> dict[str, Measured]:
    case = CASES[name]
    source = make_input(cache, rows)[0 if case.format == "json" else 1]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache, prefix="versus-java-")))
        sides: dict[str, Side] = {}
        for label, make in {
            "java": lambda at: Java(case, source, rows, at),
            "ours": lambda at: Ours(name, source, rows, at, "NONE"),
            "zstd": lambda at: Ours(name, source, rows, at, "ZSTD"),
        }.items():
            (folder / label).mkdir()
            sides[label] = make(folder / label)
            stack.callback(sides[label].close)
        runs = take_turns(sides, repeats)
        measured = {label: Measured(runs[label], side.peak_rss_mib()) for label, side in sides.items()}
        for label, side in sides.items():
            if (found := side.count_rows(repeats)) != rows:
                raise SystemExit(f"{name}: a query finds {found:,} rows of {label}, {rows:,} were streamed")
    return measured


def take_turns(sides: Mapping[str, Side], repeats: int) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {label: [] for label in sides}
    for number in range(repeats + 1):
        for label, side in sides.items():
            run = side.run(number)
            if number:  # the first warms up
                runs[label].append(run)
    return runs


HEAD = (
    f"{'case':24} {'unit':9} {'Java':>9} {'ours':>9} {'ratio':>6} {'of turns':>11} {'target':>6} {'zstd':>9}  "
    f"{'RSS MiB Java, ours':>18} {'ratio':>5}  {'MB Java, ours, zstd':>19}"
)


def report(name: str, rows: int, measured: Mapping[str, Measured]) -> None:
    case = CASES[name]
    java, ours, zstd = measured.values()
    per_commit = case.rows_per_commit == SMALL
    count, unit, digits = (rows / SMALL, "commits/s", 1) if per_commit else (rows, "rows/s", 0)
    rate = {label: f"{count / side.median('seconds'):,.{digits}f}" for label, side in measured.items()}
    ratios = sorted(one.seconds / other.seconds for one, other in zip(java.runs, ours.runs, strict=True))
    stored = ", ".join(f"{side.runs[0].stored_bytes / 1e6:.1f}" for side in measured.values())
    print(
        f"{name:24} {unit:9} {rate['java']:>9} {rate['ours']:>9} {statistics.median(ratios):6.2f} "
        f"{f'{ratios[0]:.2f}..{ratios[-1]:.2f}':>11} {case.target:6} {rate['zstd']:>9}  "
        f"{f'{java.rss_mib:.0f}, {ours.rss_mib:.0f}':>18} {ours.rss_mib / java.rss_mib:5.2f}  {stored:>19}"
    )
    for label, side in (("Java", java), ("ours", ours), ("zstd", zstd)):
        seconds, processor = side.median("seconds"), side.median("processor")
        steps = ", ".join(f"{step} {side.median(step) / seconds:.0%}" for step in STEPS)
        print(f"    {label}: {seconds:.2f} s: {steps}; {processor:.2f} s of processor time")
    print(f"    by processor time alone: ratio {java.median('processor') / ours.median('processor'):.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"records of a run (default {ROWS:,})")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"runs after the warm-up (default {REPEATS})")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "hive-ingest-benchmarks")
    parser.add_argument("--ours", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ours:
        name, source, rows, folder, compression = arguments.ours
        serve(name, Path(source), int(rows), Path(folder), compression)
        return
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python "
        f"{platform.python_version()}, pyarrow {pa.__version__}; JVM: {' '.join(JVM)}\n"
        f"{arguments.rows:,} records a run; medians of {arguments.repeats} turns after a warm-up, and the lowest and "
        f"highest ratio of a turn\n{HEAD}",
        flush=True,
    )
    for name in arguments.cases:
        rows = max(SMALL, int(arguments.rows * CASES[name].share))
        report(name, rows, measure(name, rows, arguments.repeats, arguments.cache))


if __name__ == "__main__":
    main()
