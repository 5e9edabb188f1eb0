"""Files that are rotated, linked, compressed or begun while they are read: every line is one row."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import CsvWriter, StrictJsonWriter
from hive_ingest.streaming import IngestProgress, IngestResult, follow_files, ingest_files
from tests.acceptance.streaming.log_lines import line, write
from tests.support.rows import ids
from tests.support.tables import create_table

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore, "t", {"id": "int", "msg": "string"})
    return metastore


def follow(client: MetastoreClient, paths: Path, **options: Any) -> Iterator[IngestResult]:
    defaults: dict[str, Any] = {"record_writer": StrictJsonWriter(), "rows_per_transaction": 30, "poll_seconds": 0.01}
    return follow_files(client, "web.t", paths, **(defaults | options))


def once(action: Callable[[], object], after: int) -> Callable[[IngestProgress], None]:
    """A hook that acts when so many transactions are committed, once."""
    done: list[object] = []

    def hook(progress: IngestProgress) -> None:
        if progress.transactions_committed >= after and not done:
            done.append(action())

    return hook


def read_until(client: MetastoreClient, expected: list[int], rounds: Iterator[IngestResult]) -> None:
    """Go on while rows are missing. None may be there twice, so more of them than expected end it."""
    while len(ids(client)) < len(expected):
        next(rounds)
    assert ids(client) == expected


@pytest.mark.parametrize("after", [0, 1, 2])
def test_logs_may_be_renamed_while_a_round_reads_them(ms: MetastoreClient, tmp_path: Path, after: int) -> None:
    log, first, second = (tmp_path / name for name in ("app.log", "app.log.1", "app.log.2"))
    write(log, range(200, 260))
    write(first, range(100, 160))

    def rotate() -> None:
        first.rename(second)
        log.rename(first)
        write(log, range(300, 390))

    expected = [*range(100, 160), *range(200, 260), *range(300, 390)]
    read_until(ms, expected, follow(ms, tmp_path / "app.log*", on_progress=once(rotate, after)))


@pytest.mark.parametrize("after", [0, 1])
def test_a_log_may_be_emptied_and_grow_again_while_a_round_reads_it(
    ms: MetastoreClient, tmp_path: Path, after: int
) -> None:
    log = write(tmp_path / "app.log", range(60))

    def rotate() -> None:
        write(tmp_path / "app.log.1", range(60))
        write(log, range(100, 190))

    expected = [*range(60), *range(100, 190)]
    read_until(ms, expected, follow(ms, tmp_path / "app.log*", on_progress=once(rotate, after)))


def test_a_file_that_is_replaced_while_it_is_read_is_not_committed(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(60))
    replace = once(lambda: write(path, range(100, 190)), after=0)
    with pytest.raises(StreamingIOFailure, match="replaced"):
        ingest_files(ms, "web.t", path, record_writer=StrictJsonWriter(), source_key="content", on_progress=replace)
    assert ids(ms) == []


def test_a_file_and_a_link_to_it_are_one_file(
    ms: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "logs-7/a.json", range(30))
    (tmp_path / "logs").symlink_to("logs-7")
    monkeypatch.chdir(tmp_path / "logs")
    for path in ("a.json", tmp_path / "logs/a.json", tmp_path / "logs-7/a.json"):
        ingest_files(ms, "web.t", path, record_writer=StrictJsonWriter())
        assert ids(ms) == list(range(30))


@pytest.mark.parametrize("source_key", ["path", "name"])
def test_a_file_and_a_link_beside_it_are_not_both_read(ms: MetastoreClient, tmp_path: Path, source_key: Any) -> None:
    write(tmp_path / "logs/a.json", range(30))
    (tmp_path / "logs/current").symlink_to("a.json")
    with pytest.raises(ConfigurationError, match="none of the links to it"):
        ingest_files(ms, "web.t", tmp_path / "logs", record_writer=StrictJsonWriter(), source_key=source_key)
    assert ids(ms) == []


def test_a_log_that_has_just_begun_is_waited_for(ms: MetastoreClient, tmp_path: Path) -> None:
    log = write(tmp_path / "app.log", range(3))
    rounds = follow(ms, log)
    result = next(rounds)
    assert (result.too_short, result.stats.transactions_committed) == ((str(log),), 0)
    write(log, range(30))
    read_until(ms, list(range(30)), rounds)


def test_a_rotated_log_may_be_read_while_it_is_compressed(ms: MetastoreClient, tmp_path: Path) -> None:
    write(tmp_path / "app.log", range(100, 130))
    packed = tmp_path / "app.log.1.gz"
    whole = gzip.compress("".join(map(line, range(30))).encode())
    packed.write_bytes(whole[:-20])
    rounds = follow(ms, tmp_path / "app.log*")

    def finish(record: logging.LogRecord) -> bool:
        packed.write_bytes(whole)
        return "trying again" in record.getMessage()

    logger = logging.getLogger("hive_ingest.streaming.files.follow")
    logger.addFilter(finish)
    read_until(ms, [*range(30), *range(100, 130)], rounds)
    logger.removeFilter(finish)


def test_a_file_that_stays_unreadable_ends_the_iteration(
    ms: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(tmp_path / "app.log", range(30))
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(b"x" * 2_000)[:-8])
    rounds = follow(ms, tmp_path / "app.log*")
    times = iter(range(0, 1_000, 25))

    def clock() -> float:
        with log.open("a") as file:  # the other log goes on
            file.write(line(30))
        return next(times)

    monkeypatch.setattr("hive_ingest.streaming.files.follow.monotonic", clock)
    with pytest.raises(StreamingIOFailure, match=r"app\.log\.1\.gz"):
        next(rounds)
    assert next(times) == 100


def test_a_header_may_be_written_bit_by_bit(ms: MetastoreClient, tmp_path: Path) -> None:
    path, text = tmp_path / "a.csv", "# made today\nmsg,id\na,1\nb,2\n"
    for end in (0, 13, 20, len(text)):
        path.write_text(text[:end])
        ingest_files(ms, "web.t", path, record_writer=CsvWriter(), header_lines=1, unfinished_line="wait")
    assert ids(ms) == [1, 2]


def test_lines_before_the_records_may_be_written_one_by_one(ms: MetastoreClient, tmp_path: Path) -> None:
    path, lines = tmp_path / "a.json", ["one\n", "two\n", line(0)]
    for count in (1, 2, 3):
        path.write_text("".join(lines[:count]))
        ingest_files(ms, "web.t", path, record_writer=StrictJsonWriter(), header_lines=2)
    assert ids(ms) == [0]


@pytest.mark.parametrize("start", ["m", "# made today\n"])
def test_a_header_may_be_finished_during_a_run(ms: MetastoreClient, tmp_path: Path, start: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(start)
    text = "msg,id\na,1\n" if start == "m" else "# made today\nmsg,id\na,1\n"
    options: dict[str, Any] = {"header_lines": 0 if start == "m" else 1, "record_writer": CsvWriter()}
    finish = once(lambda: path.write_text(text), after=0)
    for hook in (finish, None):
        ingest_files(ms, "web.t", path, unfinished_line="wait", on_progress=hook, **options)
    assert ids(ms) == [1]


def test_a_compressed_file_whose_last_line_waits_is_reported(ms: MetastoreClient, tmp_path: Path) -> None:
    """Its end has been read, and what it read is closed, when the progress is asked for."""
    path = tmp_path / "a.json.gz"
    sizes: list[tuple[object, object]] = []
    path.write_bytes(gzip.compress(f"{line(0)}{line(1)}".encode().rstrip()))

    def report(progress: IngestProgress) -> None:
        sizes.append((progress.bytes_committed, progress.bytes_total))

    ingest_files(ms, "web.t", path, record_writer=StrictJsonWriter(), unfinished_line="wait", on_progress=report)
    assert ids(ms) == [0]
    assert sizes[-1] == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize("kind", ["lines", "csv"])
def test_a_last_line_in_a_pipe_can_wait_however_long_the_lines_before_it_are(
    ms: MetastoreClient, metastore_uri: str, kind: str
) -> None:
    long = "x" * 3_000_000
    lines = [line(i).replace("x" * 40, long) for i in range(3)]
    if kind == "csv":
        lines = ["id,msg\n", *(f"{i},{long}\n" for i in range(3))]
    command = [sys.executable, "-m", "hive_ingest", "ingest", "web.t", "-", "--unfinished-line", "wait"]
    command += ["--format", "csv" if kind == "csv" else "json", "--rows-per-transaction", "2"]
    text = "".join(lines) + lines[-1][:10]
    done = subprocess.run([*command, "--metastore", metastore_uri], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert ids(ms) == [0, 1, 2]
