"""Run as `python -m examples.quickstart [folder]`. Exit code 1 when a check fails."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import hive_ingest as hi
from examples.quickstart import flights
from examples.quickstart.checks import Check, compare
from examples.quickstart.load import ROWS_PER_TRANSACTION
from examples.quickstart.places import NAME, connect, input_folder, metastore_uri
from examples.quickstart.writer_process import ROOT, STOP, OnProgress, WriterProcess
from hive_ingest.acid.names import DeltaName
from hive_ingest.cli.deltas import partition_deltas
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import WriteId

#: A restart that waited for the time-out of the killed transaction would take minutes.
MOST_SECONDS_TO_FIRST_COMMIT = 60.0


def main(arguments: list[str] | None = None) -> int:
    """The whole story. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/quickstart", description=__doc__)
    default = ROOT / "demo" / "quickstart"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help="removed and made anew")
    demo = parser.parse_args(arguments).folder.absolute()
    return Quickstart(demo).run()


class Quickstart:
    """One run, in a folder of its own."""

    def __init__(self, demo: Path) -> None:
        self._demo = demo
        self._console = Console(highlight=False, soft_wrap=True)
        self._checks: list[Check] = []

    def run(self) -> int:
        self._clear()
        self._title("Preparing the flights of 2013")
        started = time.monotonic()
        source = flights.read_source()
        json_files, text_files = flights.prepare(source, input_folder(self._demo))
        self._say(
            f"{source.num_rows:,} flights: {len(json_files)} files of JSON lines, {len(text_files)} of delimited text, "
            f"each record with its row number ({time.monotonic() - started:.1f} s)"
        )
        with connect(self._demo) as client:
            client.create_database(NAME.database)
            client.create_table(NAME, columns=flights.COLUMNS, partition_keys=flights.PARTITION_KEYS)
            self._title(f"Streaming them into {NAME}, {ROWS_PER_TRANSACTION:,} rows a transaction")
            seconds = self._stream(client)
            self._title("What landed")
            landed = hi.read_table(client, str(NAME), row_ids=True)
            self._tell_what_landed(client, landed, seconds)
        self._checks += compare(source, landed)
        return self._conclude()

    def _clear(self) -> None:
        """Only a folder of ours is removed."""
        mark = self._demo / ".hive-ingest-quickstart"
        if self._demo.exists() and any(self._demo.iterdir()) and not mark.exists():
            raise SystemExit(f"{self._demo} holds something else: give a folder that is empty or not there")
        shutil.rmtree(self._demo, ignore_errors=True)
        self._demo.mkdir(parents=True)
        mark.touch()

    # -- streaming, with a kill -9 in the middle -----------------------------------------------------

    def _stream(self, client: MetastoreClient) -> float:
        """Returns the seconds that both runs of the writer took."""
        with self._progress_bar() as on_progress:
            first = WriterProcess(self._demo, on_progress, stop_at=STOP)
            try:
                first.wait_until_stopped()
                self._look_at_the_open_transaction(client)
            finally:
                first.kill()
            self._say("Killed it with SIGKILL, and started it again.")
            second = WriterProcess(self._demo, on_progress)
            try:
                second.wait_until_done()
            finally:
                second.kill()
        self._check_the_restart(second, client)
        return first.seconds + second.seconds

    @contextmanager
    def _progress_bar(self) -> Iterator[OnProgress]:
        total = sum(path.stat().st_size for path in input_folder(self._demo).iterdir())
        columns = (BarColumn(), TextColumn("{task.percentage:3.0f} %  {task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task("", total=total)

            def show(bytes_: int, rows: int) -> None:
                bar.update(task, completed=bytes_, description=f"{rows:,} rows")

            yield show

    def _look_at_the_open_transaction(self, client: MetastoreClient) -> None:
        """The writer stands between publish and commit: its files are there, and no reader sees them."""
        snapshot = client.get_valid_write_ids([NAME])[0]
        on_disk = [path for write_id in snapshot.open for path in self._delta_folders(write_id)]
        rows = hi.read_table(client, str(NAME), columns=["row_number"], row_ids=True)
        seen = pc.is_in(pc.struct_field(rows["row__id"], "writeid"), pa.array(snapshot.open, pa.int64()))
        self._say(
            f"The writer is stopped inside a transaction: {len(on_disk)} delta folders are published, the commit is "
            f"not. A reader sees {rows.num_rows:,} rows."
        )
        self._check("the killed transaction had published files and was not committed", bool(on_disk))
        self._check("no reader saw a row of it", not pc.any(seen).as_py())

    def _delta_folders(self, write_id: WriteId) -> list[Path]:
        name = DeltaName(write_id, write_id, statement_id=0)
        return list((self._demo / "warehouse").glob(f"{NAME.database}.db/{NAME.table}/*/*/{name}"))

    def _check_the_restart(self, writer: WriterProcess, client: MetastoreClient) -> None:
        rows, seconds = writer.rows_at_start or 0, writer.seconds_to_first_commit or math.inf
        self._say(f"It went on behind record {rows:,}; its first commit came {seconds:.1f} s after the start.")
        self._check(
            f"the restart took over at once, without waiting for the time-out of {client.txn_timeout_seconds:.0f} s",
            rows > 0 and seconds < MOST_SECONDS_TO_FIRST_COMMIT,
        )

    # -- the end -------------------------------------------------------------------------------------

    def _tell_what_landed(self, client: MetastoreClient, landed: pa.Table, seconds: float) -> None:
        reports = list(partition_deltas(client, NAME, small_bytes=0, count_rows=False))
        transactions = pc.count_distinct(pc.struct_field(landed["row__id"], "writeid")).as_py()
        deltas, aborted = sum(report.deltas for report in reports), sum(report.aborted for report in reports)
        self._say(f"{landed.num_rows:,} rows, {transactions} transactions, {len(reports)} partitions, {deltas} deltas")
        self._say(f"{seconds:.1f} s, {landed.num_rows / seconds:,.0f} rows/s, the kill and the restart included")
        self._say(f"{aborted} delta folders of the killed transaction are left: aborted, read by nobody")

    def _conclude(self) -> int:
        self._title("Checks")
        for check in self._checks:
            self._say(f"{'ok    ' if check.is_kept else 'FAILED'}  {check.promise}")
        failed = sum(not check.is_kept for check in self._checks)
        self._title(f"{failed} of {len(self._checks)} checks FAILED" if failed else "All checks passed")
        demo, command = _short(self._demo), _short(Path(sys.executable).with_name("hive-ingest"))
        self._say(f"The table lies in {demo / 'warehouse'}. Look at it:")
        self._say(f"  {command} read {NAME} --metastore {metastore_uri(demo)} --where \"dest = 'HNL'\" --limit 5")
        return 1 if failed else 0

    def _check(self, promise: str, is_kept: bool) -> None:
        self._checks.append(Check(promise, is_kept))

    def _title(self, text: str) -> None:
        self._console.print(f"\n{text}", style="bold", markup=False)

    def _say(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)


def _short(path: Path) -> Path:
    """Relative to the working folder, when it lies in there."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main())
