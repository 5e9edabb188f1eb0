"""The story of both jobs: prepare, write, kill in the middle, start again, compare with the source."""

from __future__ import annotations

import math
import shutil
import signal
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
from examples.quickstart import flights, picture, places
from examples.quickstart.arrivals import Arrivals
from examples.quickstart.checks import Check, compare
from examples.quickstart.delta_counts import DeltaCounts
from examples.quickstart.jobs import Job
from examples.quickstart.places import NAME
from examples.quickstart.timeline import Commit, Runs, Timeline, commits
from examples.quickstart.writer_process import OnRows, WriterProcess
from hive_ingest.acid import DeltaName
from hive_ingest.cli.deltas import partition_deltas
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import WriteId
from hive_ingest.testing import CrashPoint


class Story:
    """One run of a job, in its own folder."""

    def __init__(self, demo: Path, job: Job) -> None:
        self._demo = demo
        self._job = job
        self._console = Console(highlight=False, soft_wrap=True)
        self._checks: list[Check] = []

    def run(self) -> int:
        """Returns the exit code."""
        self._clear()
        with self._services():
            return self._tell()

    @contextmanager
    def _services(self) -> Iterator[None]:
        """What the job needs besides its writer."""
        yield

    def _tell(self) -> int:
        source = flights.read_source()
        arrivals = self._prepare(source)
        with places.connect(self._demo) as client:
            client.create_database(NAME.database)
            client.create_table(NAME, columns=flights.COLUMNS, partition_keys=flights.PARTITION_KEYS)
            self._title(f"Streaming them into {NAME}, {self._job.what_it_does}")
            with DeltaCounts(client) as deltas:
                runs = self._stream(client, arrivals, source.num_rows)
            landed = hi.read_table(client, str(NAME), row_ids=True)
            timeline = Timeline(arrivals.seen, self._commits(client, landed), deltas.seen, runs)
            self._summarise(client, timeline)
        self._checks += compare(source, landed)
        picture.draw(timeline, self._job.caption, places.picture(self._demo))
        return self._conclude()

    def _commits(self, client: MetastoreClient, landed: pa.Table) -> list[Commit]:
        return commits(client, landed)

    def _clear(self) -> None:
        """Remove the folder of an earlier run, and no other."""
        mark = self._demo / ".hive-ingest-quickstart"
        if self._demo.exists() and any(self._demo.iterdir()) and not mark.exists():
            raise SystemExit(f"{self._demo} holds something else: give an empty folder, or one that does not exist")
        shutil.rmtree(self._demo, ignore_errors=True)
        self._demo.mkdir(parents=True)
        mark.touch()

    def _prepare(self, source: pa.Table) -> Arrivals:
        self._title("Preparing the flights of 2013")
        started = time.monotonic()
        sentence, arrivals = self._job.prepare(source, self._demo)
        self._say(f"{sentence} ({time.monotonic() - started:.1f} s)")
        return arrivals

    # -- streaming, with a kill -9 in the middle -----------------------------------------------------

    def _stream(self, client: MetastoreClient, arrivals: Arrivals, rows: int) -> Runs:
        with self._progress_bar(rows) as on_rows, arrivals:
            with WriterProcess(
                self._job.writer, self._demo, on_rows, stop_at=in_transaction(self._job.transactions + 1)
            ) as first:
                first.wait_until_started()
                arrivals.begin()
                first.wait_until_stopped()
            seen = self._look_at_the_open_transaction(client)
            with WriterProcess(self._job.writer, self._demo, on_rows) as second:
                arrivals.wait()
                second.wait_until_done()
        self._check_the_restart(second, seen, client)
        return Runs(first.started, first.ended or math.nan, second.ended or math.nan)

    @contextmanager
    def _progress_bar(self, rows: int) -> Iterator[OnRows]:
        columns = (BarColumn(), TextColumn("{task.percentage:3.0f} %  {task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task("starting", total=rows)

            def show(committed: int) -> None:
                bar.update(task, completed=committed, description=f"{committed:,} rows")

            yield show

    def _look_at_the_open_transaction(self, client: MetastoreClient) -> int:
        """The writer was killed between publish and commit: its files are there, and no reader sees them."""
        rows = hi.read_table(client, str(NAME), columns=["row_number"], row_ids=True)
        snapshot = client.get_valid_write_ids([NAME])[0]  # later: what is open now was open then
        on_disk = [path for write_id in snapshot.open for path in self._delta_folders(write_id)]
        seen = pc.is_in(pc.struct_field(rows["row__id"], "writeid"), pa.array(snapshot.open, pa.int64()))
        self._say(
            f"Killed by kill -9 inside a transaction: {len(on_disk)} delta folders are published, the commit is not. "
            f"A reader sees {rows.num_rows:,} rows. {self._job.after_the_kill}"
        )
        self._check("the killed transaction had published files and was not committed", bool(on_disk))
        self._check("no reader saw a row of it", not pc.any(seen).as_py())
        return rows.num_rows

    def _delta_folders(self, write_id: WriteId) -> list[Path]:
        name = DeltaName(write_id, write_id, statement_id=0)
        return list(places.warehouse(self._demo).glob(f"{NAME.database}.db/{NAME.table}/*/*/{name}"))

    def _check_the_restart(self, writer: WriterProcess, rows_before: int, client: MetastoreClient) -> None:
        rows, seconds = writer.rows_at_start or 0, writer.seconds_to_first_commit or math.inf
        time_out = client.txn_timeout_seconds  # from the last heartbeat, which was at most a third of it ago
        self._say(f"It continued after {rows:,} rows; its first commit came {seconds:.1f} s after the start.")
        self._check(
            f"the restart took over at once, without waiting for the time-out of {time_out:.0f} s",
            rows == rows_before > 0 and seconds < time_out / 2,
        )

    # -- the end -------------------------------------------------------------------------------------

    def _summarise(self, client: MetastoreClient, timeline: Timeline) -> None:
        self._title("What landed")
        reports = list(partition_deltas(client, NAME, small_bytes=0, count_rows=False))
        rows, seconds = timeline.rows, timeline.seconds
        speed = "" if timeline.arrivals else f", {rows / seconds:,.0f} rows/s"  # else that of the arriving files
        deltas, aborted = sum(report.deltas for report in reports), sum(report.aborted for report in reports)
        most = max(count for _, count in timeline.deltas)
        self._say(f"{rows:,} rows, {len(timeline.commits)} transactions, {len(reports)} partitions")
        self._say(
            f"{timeline.deltas_written} delta folders were written and compacted meanwhile: a reader opened at most "
            f"{most} of them, and opens {deltas} now"
        )
        self._check(
            "compaction went on meanwhile: no reader ever opened as many delta folders as were written",
            most < timeline.deltas_written,
        )
        self._say(f"{seconds:.1f} s{speed}, the kill and the restart included")
        self._say(f"{aborted} delta folders of the killed transaction are left: aborted, never read")

    def _conclude(self) -> int:
        self._title("Checks")
        for check in self._checks:
            self._say(f"{'ok    ' if check.is_kept else 'FAILED'}  {check.promise}")
        failed = sum(not check.is_kept for check in self._checks)
        self._title(f"{failed} of {len(self._checks)} checks FAILED" if failed else "All checks passed")
        self._say(f"The picture: {_short(places.picture(self._demo))}")
        self._say(f"The table is in {_short(places.warehouse(self._demo))}. Read it:")
        command, uri = _short(Path(sys.executable).with_name("hive-ingest")), places.metastore_uri(self._demo)
        self._say(f"  {command} read {NAME} --metastore {uri} --where \"dest = 'HNL'\" --limit 5")
        return 1 if failed else 0

    def _check(self, promise: str, is_kept: bool) -> None:
        self._checks.append(Check(promise, is_kept))

    def _title(self, text: str) -> None:
        self._console.print(f"\n{text}", style="bold", markup=False)

    def _say(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)


def in_transaction(number: int, sent: signal.Signals = signal.SIGSTOP) -> CrashPoint:
    """The writer sends itself a signal there: its files have their visible names, the commit is not requested."""
    return CrashPoint("after_publish", occurrence=number, signal=sent)


def _short(path: Path) -> Path:
    """Relative to the working folder, if it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
