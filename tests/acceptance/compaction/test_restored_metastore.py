"""A metastore that was restored from a copy that is older than compactions of its tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.compaction import compact
from hive_ingest.errors import InvalidTable
from hive_ingest.model import CompactionState
from hive_ingest.storage import FileEntry, Location
from hive_ingest.transactions import repair
from hive_ingest.transactions.repair import check_write_ids, repair_write_ids
from tests.acceptance.cli.shell import Shell
from tests.support.compactions import FAST, NO_GRACE, Compacted, connect_quietly

pytestmark = pytest.mark.only_on(["sqlite"], because="the copy is one of a SQLite file")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Compacted]:
    """Three rows were committed before the copy was made; then they were compacted, and the old files removed."""
    with connect_quietly(tmp_path) as client:
        before = Compacted(client)
        before.inserts(1, 3)
    shutil.copy(tmp_path / "metastore.db", tmp_path / "copy.db")
    with connect_quietly(tmp_path) as client:
        before.client = client
        for txn_id in client.open_txns(20):
            client.commit_txn(txn_id)
        before.compact()
        before.clean()
        assert before.short_folders() == ["delta_1_3_v"]
    for path in tmp_path.glob("metastore.db*"):
        path.unlink()
    (tmp_path / "copy.db").rename(tmp_path / "metastore.db")
    repair._highest_seen.clear()
    with connect_quietly(tmp_path) as client:
        before.client = client
        yield before


def test_a_writer_is_refused_until_the_metastore_knows_the_compactions_transaction(table: Compacted) -> None:
    with pytest.raises(InvalidTable, match=r"delta_0000001_0000003_v\d+.*hive-ingest repair"):
        table.insert(4)
    repair_write_ids(table.client, table.name)
    table.insert(4)
    assert table.ids() == [1, 2, 3, 4]


def test_no_worker_and_no_cleaner_touches_what_it_cannot_judge(table: Compacted) -> None:
    """A merge without those rows would cover their write ids, and a cleaner would then remove them."""
    before = table.folders()
    table.request()
    result = table.work()
    assert result.state is CompactionState.FAILED
    assert "hive-ingest repair" in result.message
    writer, _ = table.begin()
    table.client.abort_txn(writer)
    for cleaned in table.clean():
        assert "hive-ingest repair" in cleaned.message
    assert table.folders() == before


def test_a_repair_brings_compacted_rows_back(table: Compacted) -> None:
    report = check_write_ids(table.client, table.name)
    assert [folder.name for folder in report.compactions] == table.folders()
    assert (report.folders, report.highest_allocated) == ((), 3)
    assert table.ids() == []
    repair_write_ids(table.client, table.name)
    assert check_write_ids(table.client, table.name).compactions == ()
    assert table.ids() == [1, 2, 3]
    table.insert(4)
    (outcome,) = compact(table.client, table.name, wait=True, settings=FAST)
    assert outcome.state is CompactionState.READY_FOR_CLEANING
    table.clean(NO_GRACE)
    assert (table.ids(), table.short_folders()) == ([1, 2, 3, 4], ["base_4_v"])


def test_the_command_raises_the_transactions(
    table: Compacted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(monkeypatch, capsys)
    (name,) = table.folders()
    command = ("repair", str(table.name), "--metastore", table.client.uri)
    reported = shell.done(*command).out
    assert name in reported
    assert "--apply raises the transactions" in reported
    assert "write ids to" not in reported
    assert "raised the transactions" in shell.done(*command, "--apply").out
    assert table.ids() == [1, 2, 3]
    assert "no folder is above" in shell.done(*command).out


def test_a_compaction_that_begins_during_the_look_is_not_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders are listed before the metastore is asked for its highest transaction."""
    with connect_quietly(tmp_path / "other") as client:
        table = Compacted(client)
        table.inserts(1, 3)
        listed = Location.list

        def compact_and_list(self: Location, **options: bool) -> list[FileEntry]:
            monkeypatch.setattr(Location, "list", listed)
            table.compact()
            return listed(self, **options)

        monkeypatch.setattr(Location, "list", compact_and_list)
        repair.refuse_unknown_write_ids(client, client.get_table(table.name))
        assert table.short_folders() == ["delta_1_1", "delta_1_3_v", "delta_2_2", "delta_3_3"]
