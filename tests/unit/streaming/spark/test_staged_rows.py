"""Staged rows: complete or missing, read back unchanged, and removed after a while."""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hive_ingest.errors import CorruptFile, StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.streaming.spark.staged_rows import StagedArrowFile, StagedRows, WriteJob
from hive_ingest.transactions.staging import STAGING_FOLDER

SCHEMA = pa.schema([("id", pa.int64()), ("msg", pa.string())])
DAY = 86_400.0


def batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"m{i}" for i in ids], pa.string())], schema=SCHEMA)


@pytest.fixture
def rows(tmp_path: Path) -> StagedRows:
    staged = pickle.loads(pickle.dumps(StagedRows(Location.of(f"file:{tmp_path}"))))
    staged.make_folder()
    assert isinstance(staged, StagedRows)
    return staged


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / STAGING_FOLDER


QUERY = WriteJob.of_query("4a-2b", 7)


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*.arrow"))


def stage(rows: StagedRows, job: WriteJob, *batches: pa.RecordBatch) -> StagedArrowFile:
    rows.make_folder(job)
    file = rows.write(job, SCHEMA, batches)
    assert file is not None
    return file


@pytest.mark.parametrize("job", [WriteJob.new(), QUERY], ids=["batch write", "micro-batch"])
def test_a_commit_reads_what_a_task_wrote(rows: StagedRows, folder: Path, job: WriteJob) -> None:
    file = stage(rows, job, batch(1, 2), batch(), batch(3))
    assert [b.to_pylist() for b in rows.read(file)] == [batch(1, 2).to_pylist(), batch(3).to_pylist()]
    assert (file.rows, [file.size_bytes]) == (3, [os.path.getsize(path) for path in files(folder)])


def test_a_task_without_rows_stages_nothing(rows: StagedRows, folder: Path) -> None:
    assert rows.write(QUERY, SCHEMA, [batch()]) is None
    assert files(folder) == []


def test_a_task_that_fails_leaves_no_file(rows: StagedRows, folder: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise RuntimeError("upstream")

    with pytest.raises(RuntimeError, match="upstream"):
        rows.write(QUERY, SCHEMA, failing())
    assert files(folder) == []


def test_nothing_is_staged_without_the_folder_that_planning_created(tmp_path: Path) -> None:
    """This is the case on an executor that does not share the table's location."""
    with pytest.raises(StreamingIOFailure, match="no such file or folder"):
        StagedRows(Location.of(f"file:{tmp_path}/elsewhere")).write(QUERY, SCHEMA, [batch(1)])


def test_a_file_that_is_gone_is_named(rows: StagedRows) -> None:
    file = stage(rows, WriteJob.new(), batch(1))
    rows.remove([file])
    with pytest.raises(StreamingIOFailure, match=r"staged_.* are not there.*Run the job again"):
        list(rows.read(file))


@pytest.mark.parametrize("left", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_an_error_and_not_a_missing_row(rows: StagedRows, left: float) -> None:
    file = stage(rows, WriteJob.new(), *(batch(i) for i in range(20)))
    os.truncate(file.location.path, int(file.size_bytes * left))
    with pytest.raises(CorruptFile, match="staged_"):
        list(rows.read(file))


def test_the_end_of_a_job_removes_what_its_lost_attempts_left(rows: StagedRows, folder: Path) -> None:
    job, other = WriteJob.new(), WriteJob.new()
    for _ in range(2):
        stage(rows, job, batch(1))
    kept = stage(rows, other, batch(2))
    rows.remove_finished(job, DAY)
    assert [str(path) for path in folder.rglob("*") if path.is_file()] == [kept.location.path]
    assert [path.name for path in folder.iterdir()] == [other.folder]


def test_an_attempt_that_comes_after_the_end_of_its_job_leaves_nothing(rows: StagedRows, folder: Path) -> None:
    job = WriteJob.new()
    rows.make_folder(job)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        rows.remove_finished(job, DAY)
        yield batch(2)

    rows.write(job, SCHEMA, overtaken())
    with pytest.raises(StreamingIOFailure, match="no such file or folder"):
        rows.write(job, SCHEMA, [batch(1)])
    assert list(folder.iterdir()) == []


def test_a_committed_batch_ends_the_earlier_ones_of_its_query(rows: StagedRows, folder: Path) -> None:
    kept = [stage(rows, WriteJob.of_query("4a-2b", 8), batch(1)), stage(rows, WriteJob.of_query("4a-2c", 7), batch(1))]
    for number in (6, 7):
        stage(rows, WriteJob.of_query("4a-2b", number), batch(1))
    rows.remove_finished(QUERY, DAY)
    assert files(folder) == sorted(file.location.path for file in kept)


@pytest.mark.parametrize("job", [WriteJob.new, lambda: QUERY], ids=["batch write", "micro-batch"])
def test_entries_older_than_the_retention_are_removed(
    rows: StagedRows, folder: Path, monkeypatch: pytest.MonkeyPatch, job: Callable[[], WriteJob]
) -> None:
    now = time.time()
    for age in (2 * DAY, DAY / 2):
        monkeypatch.setattr(time, "time", lambda age=age: now - age)
        young = stage(rows, job(), batch(1))
    monkeypatch.setattr(time, "time", lambda: now)
    rows.remove_finished(WriteJob.new(), DAY)
    assert files(folder) == [young.location.path]
    assert len(list(folder.iterdir())) == 1


def test_hidden_files_of_transactions_are_kept(rows: StagedRows, folder: Path) -> None:
    (folder / "17_0123456789abcdef.0.orc").touch()
    rows.remove_finished(WriteJob.new(), 1e-9)
    assert len(list(folder.iterdir())) == 1


def test_a_failed_clean_up_is_reported_and_hides_nothing(
    rows: StagedRows, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = stage(rows, QUERY, batch(1))
    os.unlink(file.location.path)
    os.mkdir(file.location.path)
    with caplog.at_level(logging.WARNING):
        rows.remove([file])
    assert "were not removed" in caplog.text
