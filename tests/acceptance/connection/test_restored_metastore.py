"""A metastore that was restored from an older copy: refused, until its write ids are raised on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hive_ingest.errors import InvalidTable, PathExists, PathNotFound
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.storage import FileEntry, Location
from hive_ingest.transactions import list_registered, repair
from hive_ingest.transactions.repair import check_write_ids, repair_write_ids
from tests.acceptance.cli.shell import Shell
from tests.support.connections import connect
from tests.support.metastores import connect_in
from tests.support.rows import ids
from tests.support.store_path import remove_tree
from tests.support.tables import create_table, table_folder


def write(client: MetastoreClient, number: int, part: str = "a") -> None:
    with connect(client, "p") as conn, conn.transaction():
        conn.write(b'{"id": %d, "part": "%s"}' % (number, part.encode()))


@pytest.fixture
def restored(tmp_path: Path) -> MetastoreClient:
    """Row 1 was committed before the copy was made, 2 and 3 after it."""
    with connect_in(tmp_path) as client:
        client.create_database("web")
        client.create_table("web.p", columns={"id": "int"}, partition_keys={"part": "string"})
        write(client, 1)
    shutil.copy(tmp_path / "metastore.db", tmp_path / "copy.db")
    with connect_in(tmp_path) as client:
        write(client, 2, "b")
        write(client, 3, "a")
    restore(tmp_path)
    return connect_in(tmp_path)


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process looks through a partitioned table once, so what was looked at must not outlive a test."""
    monkeypatch.setattr("hive_ingest.transactions.repair._highest_seen", {})


def restore(tmp_path: Path) -> None:
    for path in tmp_path.glob("metastore.db*"):
        path.unlink()
    (tmp_path / "copy.db").rename(tmp_path / "metastore.db")


def test_a_writer_is_refused_before_it_takes_a_write_id(restored: MetastoreClient) -> None:
    """This includes one that writes a new partition: its commit would have shown rows of lost transactions."""
    repair._highest_seen.clear()  # as in another process than the one that made the table
    with restored:
        for part in ("a", "c"):
            with pytest.raises(InvalidTable, match="hive-ingest repair"):
                write(restored, 4, part)
        assert ids(restored, "p") == [1]
        repair_write_ids(restored, "web.p")
        write(restored, 4, "c")
        assert ids(restored, "p") == [1, 2, 3, 4]


def test_a_process_that_ran_through_the_restore_notices_it_too(restored: MetastoreClient) -> None:
    with restored:
        with pytest.raises(InvalidTable, match="has write id 2"):
            write(restored, 4, "c")
        repair_write_ids(restored, "web.p")
        write(restored, 4, "c")


def test_a_write_id_that_is_taken_while_the_folders_are_listed_is_not_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect_in(tmp_path) as client:
        client.create_database("web")
        client.create_table("web.p", columns={"id": "int"}, partition_keys={"part": "string"})
        with connect(client, "p") as other:

            def commit_and_list(location: Location) -> list[FileEntry]:
                with other.transaction():
                    other.write(b'{"id": 1, "part": "a"}')
                return list_registered(location)

            repair._highest_seen.clear()
            monkeypatch.setattr(repair, "list_registered", commit_and_list)
            connect(client, "p").close()


def test_a_metastore_that_does_not_say_its_highest_write_id_has_no_folder_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive 3 does not report write ids, so there is nothing to compare the folders with."""
    with connect_in(tmp_path) as client:
        client.create_database("web")
        client.create_table("web.p", columns={"id": "int"}, partition_keys={"part": "string"})
        write(client, 1)
        repair._highest_seen.clear()
        monkeypatch.setattr(type(client), "get_max_allocated_write_id", lambda *_: None)
        with monkeypatch.context() as listing:
            listing.setattr(repair, "list_registered", lambda _: pytest.fail("a folder was listed"))
            write(client, 2)
        assert ids(client, "p") == [1, 2]
        remove_tree(table_folder(client, "p"))
        with pytest.raises(PathNotFound, match="mount its file system"):
            connect(client, "p")


def test_a_table_that_is_created_again_starts_with_low_write_ids(restored: MetastoreClient) -> None:
    with restored:
        repair_write_ids(restored, "web.p")
        write(restored, 4)
        restored.drop_table("web.p")
        restored.create_table("web.p", columns={"id": "int"}, partition_keys={"part": "string"})
        write(restored, 5)
        assert ids(restored, "p") == [5]


def test_an_open_connection_does_not_join_a_delta_that_the_metastore_has_forgotten(
    restored: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_ingest.connection.connecting.refuse_unknown_write_ids", lambda *_: None)
    with restored:
        write(restored, 4)  # write id 2, which the lost commit had in another partition
        with pytest.raises(PathExists, match="hive-ingest repair"):
            write(restored, 5)
        assert ids(restored, "p") == [1, 4]


def test_raised_write_ids_bring_the_rows_back_and_let_writers_continue(restored: MetastoreClient) -> None:
    with restored:
        before = check_write_ids(restored, "web.p")
        assert (before.highest_allocated, before.highest_found, len(before.folders)) == (1, 3, 2)
        assert ids(restored, "p") == [1]
        assert repair_write_ids(restored, "web.p").folders == before.folders
        write(restored, 4)
        assert ids(restored, "p") == [1, 2, 3, 4]
        assert check_write_ids(restored, "web.p").folders == ()


def test_partitions_that_the_copy_does_not_know_are_registered(restored: MetastoreClient) -> None:
    """Their rows would be lost otherwise: a sink's progress says that they are committed."""
    with restored:
        assert check_write_ids(restored, "web.p").unregistered_partitions == ("part=b",)
        assert restored.list_partition_names("web.p") == ["part=a"]
        repair_write_ids(restored, "web.p")
        assert restored.list_partition_names("web.p") == ["part=a", "part=b"]
        assert check_write_ids(restored, "web.p").unregistered_partitions == ()
        write(restored, 4, "b")
        assert ids(restored, "p") == [1, 2, 3, 4]


def test_an_interrupted_repair_can_be_repeated(restored: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with restored:
        with monkeypatch.context() as failing:
            failing.setattr(type(restored), "raise_write_ids", lambda *_: pytest.fail("interrupted"))
            with pytest.raises(pytest.fail.Exception, match="interrupted"):
                repair_write_ids(restored, "web.p")
        assert ids(restored, "p") == [1]
        repair_write_ids(restored, "web.p")
        assert ids(restored, "p") == [1, 2, 3]


def test_a_folder_that_is_not_a_partition_of_the_table_is_not_registered(
    restored: MetastoreClient, tmp_path: Path
) -> None:
    """The name of another key, or of a value that the table would write in another way."""
    with restored:
        folder = table_folder(restored, "p")
        for name in ("other=x", "part=%61"):
            (folder / name / "delta_0000009_0000009_0000").mkdir(parents=True)
        repair_write_ids(restored, "web.p")
        assert restored.list_partition_names("web.p") == ["part=a", "part=b"]


def test_a_sink_is_refused_before_it_takes_a_write_id(tmp_path: Path) -> None:
    """Its progress is older than its rows then, and its input would be committed once more."""

    def commit(client: MetastoreClient, number: int) -> None:
        with connect(client, "p", sink="s", sources=["a"]) as conn:
            conn.begin_transaction()
            conn.write(b'{"id": %d, "part": "a"}' % number)
            conn.commit_transaction(positions={"a": number})

    with connect_in(tmp_path) as client:
        client.create_database("web")
        client.create_table("web.p", columns={"id": "int"}, partition_keys={"part": "string"})
        commit(client, 1)
    shutil.copy(tmp_path / "metastore.db", tmp_path / "copy.db")
    with connect_in(tmp_path) as client:
        commit(client, 2)
    restore(tmp_path)
    repair._highest_seen.clear()
    with connect_in(tmp_path) as client:
        with pytest.raises(InvalidTable, match=r"(s__progress|p) has write id 2 in its folders.*hive-ingest repair"):
            commit(client, 2)
        repair_write_ids(client, "web.p")
        with pytest.raises(InvalidTable, match=r"s__progress has write id 2 in its folders.*hive-ingest repair"):
            commit(client, 2)
        repair_write_ids(client, "web.s__progress")
        with connect(client, "p", sink="s", sources=["a"]) as conn:
            conn.begin_transaction()
            last = conn.progress["a"]
            assert last is not None
            assert last.position == 2
        assert ids(client, "p") == [1, 2]


def test_the_command_repairs_all_tables(
    restored: MetastoreClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(monkeypatch, capsys)
    with restored:
        restored.create_database("shop")
        create_table(restored, "missing")
        restored.create_table("shop.plain", columns={"id": "int"}, properties={"transactional": "false"})
        restored.create_table("shop.t", columns={"id": "int"})
        remove_tree(table_folder(restored, "missing"))
        done = shell("repair", "--all", "--apply", "--metastore", restored.uri)
        assert done.code == 1
        assert "web.missing: not checked: " in done.err
        assert "shop.plain" not in done.out
        assert "shop.t: no folder is above write id 0" in done.out
        assert "web.p: 2 folders are above write id 1" in done.out
        assert ids(restored, "p") == [1, 2, 3]
        restored.drop_table("web.missing")
        shell.done("repair", "--all", "--metastore", restored.uri)
        for wrong in ((), ("web.p", "--all")):
            refused = shell("repair", *wrong, "--metastore", restored.uri)
            assert (refused.code, "give tables, or --all" in refused.err) == (2, True)


def test_the_command_reports_the_folders_and_raises_only_when_asked(
    restored: MetastoreClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(monkeypatch, capsys)
    with restored:
        reported = shell.done("repair", "web.p", "--metastore", restored.uri)
        assert "2 folders are above write id 1" in reported.out
        assert "--apply raises the write ids to 4" in reported.out
        assert "--apply registers the partition part=b" in reported.out
        assert ids(restored, "p") == [1]
        assert "raised the write ids to 4" in shell.done("repair", "web.p", "--apply", "--metastore", restored.uri).out
        assert ids(restored, "p") == [1, 2, 3]
        assert "no folder is above" in shell.done("repair", "web.p", "--metastore", restored.uri).out
