"""Files and folders are synced by several threads, and errors and missing threads change nothing."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage import LocalStore
from hive_ingest.storage.sync_threads import run_for_device, run_shares


def test_a_file_is_complete_when_its_future_has_a_result(tmp_path: Path) -> None:
    files = [LocalStore().create(f"{tmp_path}/{number}", sync=True) for number in range(20)]
    for file in files:
        file.write(b"content")
    for closing in [file.begin_close() for file in files]:
        closing.result()
    assert all(file.closed for file in files)
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"content"}


def test_files_are_synced_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(4, timeout=60)
    monkeypatch.setattr(os, "fsync", lambda _: together.wait())
    files = [LocalStore().create(f"{tmp_path}/{number}", sync=True) for number in range(4)]
    for closing in [file.begin_close() for file in files]:
        closing.result()


def test_a_file_that_cannot_be_synced_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    closing = LocalStore().create(f"{tmp_path}/a", sync=True).begin_close()
    with pytest.raises(StreamingIOFailure, match="device reported an error"):
        closing.result()
    assert list(tmp_path.iterdir()) == []


def test_the_caller_does_it_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    queued: list[Any] = []

    def submit(_: ThreadPoolExecutor, function: Any) -> None:
        queued.append(function)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    calls: list[str] = []
    run_shares(1, ["a", "b", "c"], calls.append)
    assert sorted(calls) == ["a", "b", "c"]
    for function in queued:  # a thread that was started before finds it in the queue
        function()
    assert sorted(calls) == ["a", "b", "c"]


def test_the_first_error_is_raised_after_all_have_ended() -> None:
    calls: list[str] = []

    def call(item: str) -> None:
        calls.append(item)
        raise StreamingIOFailure(item)

    with pytest.raises(StreamingIOFailure):
        run_shares(2, ["a", "b", "c"], call)
    assert sorted(calls) == ["a", "b", "c"]


def test_a_forked_child_starts_threads_of_its_own() -> None:
    run_for_device(3, lambda: None).result()
    child = os.fork()
    if not child:
        run_for_device(3, lambda: None).result(timeout=60)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
