"""Which files of a folder are read, and how much of each."""

import shutil

import pytest

from hive_ingest.acid.write_ids import ValidTxnList, ValidWriteIdList
from hive_ingest.errors import CorruptFile, StreamingIOFailure
from hive_ingest.model import TableName, TxnId, WriteId
from hive_ingest.reader.folder import FolderToRead
from hive_ingest.storage import Location


@pytest.fixture
def folder(tmp_path):
    class Folder:
        path = tmp_path

        def put(self, name, content=b"rows"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)

        def of(self, hwm=9, open_=(), aborted=()):
            write_ids = ValidWriteIdList(TableName("web", "t"), WriteId(hwm), open_, aborted)
            return FolderToRead.of(Location.of(str(tmp_path)), write_ids, ValidTxnList(TxnId(99)))

        def data(self, **snapshot):
            return [
                (f.path.removeprefix(f"{tmp_path}/"), f.length_bytes, f.check_write_ids)
                for f in self.of(**snapshot).data_files()
            ]

    return Folder()


def lengths(*values):
    return b"".join(value.to_bytes(8, "big") for value in values)


def test_base_deltas_and_buckets_come_in_order(folder):
    for name in (
        "delta_0000003_0000003_0000/bucket_00001",
        "delta_0000003_0000003_0000/bucket_00000_0",
        "delta_0000003_0000003_0000/_orc_acid_version",
        "base_0000002/bucket_00000",
        "base_0000002/_metadata_acid",
        "delete_delta_0000004_0000004_0000/bucket_00000",
        ".hive_ingest/7_x/bucket_00000",
    ):
        folder.put(name)
    assert [path for path, _, _ in folder.data()] == [
        "base_0000002/bucket_00000",
        "delta_0000003_0000003_0000/bucket_00000_0",
        "delta_0000003_0000003_0000/bucket_00001",
    ]
    assert [f.path for f in folder.of().delete_event_files()] == [
        f"{folder.path}/delete_delta_0000004_0000004_0000/bucket_00000"
    ]


def test_the_newest_folder_can_come_first_and_the_rest_is_not_listed(folder):
    for name in ("base_0000002_v0000001/bucket_00000", "delta_0000003_0000003_0000/bucket_00000"):
        folder.put(name)
    folder.put("delta_0000004_0000004_0000/bucket_00000")
    newest_first = folder.of().data_files(newest_first=True)
    assert next(newest_first).path.endswith("delta_0000004_0000004_0000/bucket_00000")
    (folder.path / "delta_0000003_0000003_0000/foreign").write_bytes(b"")
    with pytest.raises(CorruptFile, match="foreign"):
        next(newest_first)


def test_a_folder_that_disappears_during_a_scan_is_an_error(folder):
    folder.put("delta_0000003_0000003_0000/bucket_00000")
    files = folder.of().data_files()
    shutil.rmtree(folder.path / "delta_0000003_0000003_0000")
    with pytest.raises(StreamingIOFailure, match=r"delta_0000003_0000003_0000.*was removed"):
        next(files)


def test_a_delta_without_rows_has_no_files(folder):
    (folder.path / "delta_0000003_0000003_0000").mkdir()
    folder.put("base_0000002/_orc_acid_version", b"2")
    assert folder.data() == []


def test_a_missing_folder_has_no_files(folder):
    assert folder.data() == []


def test_rows_are_checked_only_where_a_write_id_may_be_invisible(folder):
    folder.put("base_0000002_v0000003/bucket_00000")
    folder.put("delta_0000003_0000005/bucket_00000")
    folder.put("delta_0000006_0000006_0000/bucket_00000")
    assert [check for _, _, check in folder.data()] == [False, False, False]
    assert [check for _, _, check in folder.data(hwm=6, aborted=(2, 4))] == [True, True, False]
    assert [check for _, _, check in folder.data(hwm=4)] == [False, True]


def test_of_a_batch_that_is_being_written_only_the_flushed_length_is_read(folder):
    folder.put("delta_0000001_0000005/bucket_00000", b"x" * 500)
    folder.put("delta_0000001_0000005/bucket_00000_flush_length", lengths(0, 100, 300) + b"\0\0")
    folder.put("delta_0000001_0000005/bucket_00001", b"x" * 500)
    assert folder.data() == [
        ("delta_0000001_0000005/bucket_00000", 300, False),
        ("delta_0000001_0000005/bucket_00001", None, False),
    ]


def test_a_batch_that_has_flushed_nothing_has_no_rows(folder):
    folder.put("delta_0000001_0000005/bucket_00000", b"")
    folder.put("delta_0000001_0000005/bucket_00000_flush_length", b"")
    folder.put("delta_0000001_0000005/bucket_00001", b"")
    folder.put("delta_0000001_0000005/bucket_00002", b"ORC")
    folder.put("delta_0000001_0000005/bucket_00002_flush_length", lengths(0))
    assert folder.data() == []


def test_a_damaged_side_file_is_an_error_and_not_a_loss(folder):
    folder.put("delta_0000001_0000005/bucket_00000", b"x" * 500)
    folder.put("delta_0000001_0000005/bucket_00000_flush_length", b"")
    with pytest.raises(StreamingIOFailure, match="bucket_00000_flush_length"):
        folder.data()
    folder.put("delta_0000001_0000005/bucket_00000_flush_length", lengths(501))
    with pytest.raises(StreamingIOFailure, match="500 bytes"):
        folder.data()


def test_a_side_file_of_a_single_write_id_is_ignored_as_in_hive(folder):
    folder.put("delta_0000001_0000001_0000/bucket_00000", b"x" * 500)
    folder.put("delta_0000001_0000001_0000/bucket_00000_flush_length", lengths(100))
    assert folder.data() == [("delta_0000001_0000001_0000/bucket_00000", None, False)]


@pytest.mark.parametrize("name", ["part-00000.orc", "sub/000000_0.orc"])
def test_files_that_hive_gives_no_bucket_are_refused_by_name(folder, name):
    folder.put(name)
    with pytest.raises(CorruptFile, match=name.rpartition("/")[2]):
        folder.data()


@pytest.mark.parametrize("name", ["delete_delta_0000001_0000001_0000", "delta_0000001_0000003"])
def test_a_file_without_acid_columns_has_no_row_ids_in_a_folder_of_hives_updates(folder, name):
    folder.put(f"{name}/000000_0")
    with pytest.raises(CorruptFile, match=r"000000_0.*without the ACID columns"):
        [*folder.of().data_files(), *folder.of().delete_event_files()]


def test_hidden_files_below_a_foreign_folder_do_not_count(folder):
    folder.put("sub/_SUCCESS")
    folder.put("sub/.staging/000000_0")
    assert folder.data() == []


def test_original_files_below_a_base_are_obsolete(folder):
    folder.put("000000_0")
    folder.put("base_0000001_v0000002/bucket_00000")
    assert [path for path, _, _ in folder.data()] == ["base_0000001_v0000002/bucket_00000"]


def test_a_foreign_file_in_a_delta_is_refused_by_name(folder):
    folder.put("delta_0000001_0000001_0000/part-0.orc")
    with pytest.raises(CorruptFile, match=r"in '.*/delta_0000001_0000001_0000': 'part-0\.orc'"):
        folder.data()
