"""Logs are followed while they grow, are rotated and are emptied: every line is one row."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, TooManyBadRecords
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.streaming import IngestResult, follow_files
from tests.acceptance.streaming.log_lines import line, write
from tests.support.rows import ids
from tests.support.tables import create_table

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore, "t", {"id": "int", "msg": "string"})
    return metastore


def follow(client: MetastoreClient, folder: Path) -> Iterator[IngestResult]:
    return follow_files(client, "web.t", folder / "app.log*", record_writer=StrictJsonWriter(), poll_seconds=0.01)


def append(path: Path, *numbers: int, end: str = "") -> None:
    with path.open("a") as file:
        file.write("".join(map(line, numbers)) + end)


def test_lines_are_ingested_as_they_come(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "app.log", range(30))
    rounds = follow(ms, tmp_path)
    next(rounds)
    append(path, 30, 31, end=line(32)[:10])
    next(rounds)
    assert ids(ms) == list(range(32))
    append(path, end=line(32)[10:])
    next(rounds)
    assert ids(ms) == list(range(33))


def test_a_log_is_rotated_by_renaming(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "app.log", range(30))
    rounds = follow(ms, tmp_path)
    next(rounds)
    append(path, 30)
    path.rename(tmp_path / "app.log.1")
    append(tmp_path / "app.log.1", 31)
    write(path, range(100, 130))
    next(rounds)
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    path.rename(tmp_path / "app.log.1")
    write(path, range(200, 230))
    next(rounds)
    assert ids(ms) == [*range(32), *range(100, 130), *range(200, 230)]


def test_a_log_is_rotated_by_copying_and_emptying_it(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "app.log", range(30))
    rounds = follow(ms, tmp_path)
    next(rounds)
    append(path, 30)
    shutil.copy(path, tmp_path / "app.log.1")
    next(rounds)  # both are there, with one content
    path.write_text("")
    append(path, *range(100, 103))
    next(rounds)  # too short yet
    append(path, *range(103, 130))
    next(rounds)
    assert ids(ms) == [*range(31), *range(100, 130)]


def test_a_file_that_is_not_there_yet_is_waited_for(ms: MetastoreClient, tmp_path: Path) -> None:
    stop, found = threading.Event(), []

    def run() -> None:
        for result in follow_files(
            ms, "web.t", tmp_path / "app.log", record_writer=StrictJsonWriter(), poll_seconds=0.01, stop=stop
        ):
            found.append(result)
            if result.stats.rows_committed:  # the first round may see the file empty
                stop.set()

    thread = threading.Thread(target=run)
    thread.start()
    write(tmp_path / "app.log", range(30))
    thread.join(60)
    assert not thread.is_alive()
    assert sum(result.stats.rows_committed for result in found) == 30


def test_a_bad_record_ends_the_iteration(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "app.log", range(30))
    rounds = follow(ms, tmp_path)
    next(rounds)
    append(path, end="no json\n")
    with pytest.raises(SerializationError, match="line 31"):
        next(rounds)
    with pytest.raises(ConfigurationError, match="poll_seconds"):
        next(follow_files(ms, "web.t", path, record_writer=StrictJsonWriter(), poll_seconds=0))
    with pytest.raises(ConfigurationError, match="standard input"):
        next(follow_files(ms, "web.t", "-", record_writer=StrictJsonWriter()))


def test_the_command_follows_until_it_is_terminated(ms: MetastoreClient, metastore_uri: str, tmp_path: Path) -> None:
    path = write(tmp_path / "app.log", range(30))
    command = [sys.executable, "-m", "hive_ingest", "ingest", "web.t", str(tmp_path / "app.log*"), "--follow"]
    command += ["--poll-seconds", "0.05", "--metastore", metastore_uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # The line of a round comes after its commit is visible: only who has read the line knows that it is there.
        assert process.stdout.readline().split(" in ")[0] == "web.t: 30 rows"
        append(path, 30)
        assert process.stdout.readline().split(" in ")[0] == "web.t: 1 row"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + signal.SIGTERM, ""), err
    assert ids(ms) == list(range(31))
    assert ms.get_valid_txns().open == ()


def test_a_limit_of_bad_records_is_one_for_all_rounds(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "app.log", range(30))
    commits: list[int] = []
    rounds = follow_files(
        *(ms, "web.t", path),
        record_writer=StrictJsonWriter(on_error="skip"),
        poll_seconds=0.01,
        max_bad_records=3,
        on_commit=lambda info: commits.append(info.records_skipped),
    )
    for bad in (1, 2):
        with path.open("a") as file:
            file.write("bad\n" * bad)
        next(rounds)
    with path.open("a") as file:
        file.write("bad\n")
    with pytest.raises(TooManyBadRecords) as raised:
        next(rounds)
    assert raised.value.__notes__ == ["3 were skipped in earlier rounds, of the 3 that are allowed in all"]
    assert (commits, ids(ms)) == ([1, 2], list(range(30)))
