"""`hive-ingest compact`, `compactor`, `purge` and `show compactions` from the shell."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState
from hive_ingest.storage import LocalStore
from tests.acceptance.cli.shell import Shell
from tests.support.compactions import Compacted, connect_quietly
from tests.support.warehouses import warehouse_in

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own roles"),
    pytest.mark.one_embedded,
]


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def table(ms: EmbeddedMetastoreClient) -> Compacted:
    return Compacted(ms)


def test_compact_waits_and_show_compactions_has_the_numbers(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 3)
    out = shell.done("compact", "web.t", "minor", "--wait").out
    assert out == "web.t: minor compaction 1 is ready for cleaning\n"
    (row,) = shell.done("show", "compactions", "web.t", "-o", "json").rows
    assert (row["type"], row["state"]) == ("minor", "ready for cleaning")
    assert (row["files_before"], row["files_after"]) == (3, 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(row["start"]))


def test_a_request_may_have_properties_which_are_shown(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 3)
    shell.done("compact", "web.t", "major", "--property", "tblprops.orc.compress=ZLIB", "--wait")
    (row,) = shell.done("show", "compactions", "web.t", "-o", "json").rows
    assert row["properties"] == "tblprops.orc.compress=ZLIB"
    assert str(row["job"]).startswith("hive-ingest-txn-")


def test_a_request_without_a_worker_is_shown_as_waiting(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 3)
    planned = shell.done("compact", "web.t", "major", "--dry-run").out
    assert planned == "would request a major compaction of web.t\n"
    assert shell.done("show", "compactions", "-o", "json").rows == []
    assert "is initiated" in shell.done("compact", "web.t", "major").out
    assert "in the queue already" in shell.done("compact", "web.t", "major").out
    (row,) = shell.done("show", "compactions", "-o", "json").rows
    assert not row["remark"]
    table.client.clock_offset_seconds = -120
    table.client.drop_table("web.t")
    other = Compacted(table.client, "other")
    other.request()
    (row,) = shell.done("show", "compactions", "web.other", "-o", "json").rows
    assert "no worker has taken it" in str(row["remark"])


def test_what_keeps_a_cleaner_waiting_is_shown(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 2)
    (reader,) = table.client.open_txns()
    table.compact()
    (row,) = shell.done("show", "compactions", "-o", "json").rows
    assert row["remark"] == f"open transaction {reader} may read the old files"
    table.client.commit_txn(reader)
    (row,) = shell.done("show", "compactions", "-o", "json").rows
    assert not row["remark"]


def test_having_nothing_to_merge_is_not_an_error(shell: Shell, table: Compacted) -> None:
    """So that a command of cron can be repeated."""
    table.insert(1)
    outcome = shell.done("compact", "web.t", "minor", "--wait")
    assert outcome.out == "web.t: minor compaction 1 was refused: there is nothing to merge\n"
    table.insert(2)
    shell.done("compact", "web.t", "minor", "--wait")
    outcome = shell.done("compact", "web.t", "minor")
    assert outcome.out == "web.t: minor compaction 2 is ready for cleaning (nothing was written since)\n"
    assert outcome.err == "", "no worker has anything to do"


def test_a_table_whose_compactions_fail_stays_an_error_until_it_is_mended(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 6)
    file = table.folder / table.folders()[0] / "bucket_00000"
    good = file.read_bytes()
    file.write_bytes(b"ORC")
    for _ in range(2):
        assert "failed: " in shell("compactor", "--once").out
    outcome = shell("compactor", "--once")
    assert (outcome.code, "web.t is not compacted: the last 2 compactions failed" in outcome.out) == (1, True)
    file.write_bytes(good)
    shell.done("compact", "web.t", "major", "--wait")
    assert shell("compactor", "--once").code == 0


def test_a_compaction_that_fails_ends_with_an_error(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 2)
    (table.folder / table.folders()[0] / "bucket_00000").write_bytes(b"ORC")
    outcome = shell("compact", "web.t", "major", "--wait")
    assert (outcome.code, "compaction 1 failed: " in outcome.out) == (1, True)


def test_a_failure_is_written_once(table: Compacted, metastore_uri: str, tmp_path: Path) -> None:
    """It was on stdout, and on stderr as a warning of the worker."""
    table.inserts(1, 2)
    (table.folder / table.folders()[0] / "bucket_00000").write_bytes(b"ORC")
    other = Compacted(table.client, "other")
    other.inserts(1, 2)
    (other.folder / other.folders()[0] / "bucket_00000").write_bytes(b"ORC")
    other.request()
    command = [sys.executable, "-m", "hive_ingest", "compact", "web.t", "major", "--wait"]
    command += ["--metastore", metastore_uri, "--warehouse", warehouse_in(tmp_path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert (outcome.stdout + outcome.stderr).count("compaction 2") == 1
    assert outcome.stdout.startswith("web.t: major compaction 2 failed: ")
    # The queue has the requests of all tables; those that the command does not name are only in the log.
    assert outcome.stderr.startswith("compaction 1 of web.other failed: ")


def test_the_output_says_what_carries_out_a_request(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 2)
    assert "hive-ingest compactor, or this command with --wait" in shell.done("compact", "web.t", "major").err


def test_a_table_without_partitions_yet_is_named(shell: Shell, table: Compacted) -> None:
    Compacted(table.client, "p", partition_keys={"part": "string"})
    for command in (("compact", "web.p", "major", "--wait"), ("purge", "web.p")):
        assert "web.p has no partitions yet" in shell.done(*command).err


def test_a_round_with_a_failure_ends_with_an_error(
    shell: Shell, table: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"compactorthreshold.hive.compactor.delta.num.threshold": "many"}
    Compacted(table.client, "wrong", properties=wrong).insert(1)
    outcome = shell("compactor", "--once")
    assert outcome.code == 1
    assert "whether web.wrong needs a compaction is not known: table property" in outcome.out
    table.client.drop_table("web.wrong")
    table.inserts(1, 2)
    table.compact()

    def refuse(self: LocalStore, path: str) -> None:
        raise StreamingIOFailure(f"cannot remove {path!r}: busy")

    monkeypatch.setattr(LocalStore, "delete_folder", refuse)
    outcome = shell("compactor", "--once")
    assert outcome.code == 1
    assert "web.t was not cleaned: attempt 1 of 5: cannot remove" in outcome.out


def test_one_round_of_the_compactor_does_all_that_is_due(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 6)
    before = table.rows()
    lines = shell.done("compactor", "--once").out.splitlines()
    assert lines == [
        "requested web.t: 6 deltas (> 5), and there is no base",
        "compaction 1 of web.t is ready for cleaning",
        "cleaned web.t: 6 folders removed",
    ]
    assert table.short_folders() == ["base_6_v"]
    assert table.rows() == before


def test_a_role_alone_can_be_chosen(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 6)
    shell.done("compactor", "--once", "--roles", "initiator")
    assert [info.state for info in table.history()] == [CompactionState.INITIATED]
    shell.done("compactor", "--once", "--roles", "worker")
    assert [info.state for info in table.history()] == [CompactionState.READY_FOR_CLEANING]


def test_purge_says_what_is_left(shell: Shell, table: Compacted) -> None:
    table.inserts(1, 2)
    reader, *_ = table.client.open_txns()
    outcome = shell("purge", "web.t", "--wait-seconds", "0")
    assert outcome.code == 1
    assert "still there: delta_" in outcome.out
    assert f"because open transactions may read them: {reader}" in outcome.out
    table.client.commit_txn(reader)
    assert shell.done("purge", "web.t").out == "web.t: purged\n"


def test_the_compactor_runs_until_it_is_ended(table: Compacted, metastore_uri: str, tmp_path: Path) -> None:
    table.inserts(1, 6)
    before = table.rows()
    command = [sys.executable, "-m", "hive_ingest.cli", "compactor", "--metastore", metastore_uri]
    command += ["--warehouse", warehouse_in(tmp_path), "--workers", "2"]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while table.short_folders() != ["base_6_v"]:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert table.rows() == before
