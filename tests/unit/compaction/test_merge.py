"""Merged files hold the same rows as before, with the same ROW__IDs, and whatever Hive looks for in them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.compaction import MergePlan, MergeProgress
from hive_ingest.errors import CorruptFile, UnsupportedFeature
from hive_ingest.orc.format.tail import read_stripe_statistics
from hive_ingest.storage import LocalStore
from tests.unit.compaction.folders import Folder, tail_of

BUCKET = 1 << 29


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "t").mkdir()
    return Folder(tmp_path / "t")


def acid_items(path: Path) -> dict[str, bytes]:
    items = tail_of(path).footer.user_metadata
    return {name: value for name, value in items.items() if name.startswith("hive.acid.")}


def test_minor_makes_one_delta_with_all_rows(folder: Folder) -> None:
    for write_id in range(1, 6):
        folder.insert(write_id, [(write_id * 10 + i, f"row {i}") for i in range(3)])
    before = folder.rows()
    result = folder.compact("minor")
    assert result is not None
    assert result.folders == ("delta_0000001_0000005_v0000900",)
    assert [(file.folder_name, file.file_name, file.rows) for file in result.files] == [
        ("delta_0000001_0000005_v0000900", "bucket_00000", 15)
    ]
    assert folder.rows() == before
    assert len(before) == 15
    path = folder.path / "delta_0000001_0000005_v0000900" / "bucket_00000"
    assert result.files[0].size_bytes == path.stat().st_size
    assert acid_items(path) == {
        "hive.acid.key.index": f"5,{BUCKET},2;".encode(),
        "hive.acid.stats": b"15,0,0",
        "hive.acid.version": b"2",
    }
    assert tail_of(path).checksums is not None


def test_nobody_sees_the_output_before_the_compaction_has_committed(folder: Folder) -> None:
    folder.insert(1, [(1, "a")])
    folder.insert(2, [(2, "b")])
    before = folder.rows(txn_id=899)
    folder.compact("minor")
    assert folder.rows(txn_id=899) == before
    (folder.path / "delta_0000001_0000002_v0000900" / "bucket_00000").write_bytes(b"damaged")
    assert folder.rows(txn_id=899) == before


def test_minor_keeps_delete_events_apart_and_major_applies_them(folder: Folder) -> None:
    folder.insert(1, [(i, "first") for i in range(10)])
    folder.delete(2, [(1, BUCKET, 3), (1, BUCKET, 4)])
    folder.insert(3, [(i, "third") for i in range(10)])
    folder.delete(4, [(3, BUCKET, 0)])
    before = folder.rows()
    result = folder.compact("minor", 900)
    assert result is not None
    assert result.folders == ("delta_0000001_0000004_v0000900", "delete_delta_0000001_0000004_v0000900")
    assert [file.rows for file in result.files] == [20, 3]
    assert folder.rows() == before
    assert acid_items(folder.path / result.folders[1] / "bucket_00000") == {
        "hive.acid.key.index": f"3,{BUCKET},0;".encode(),
        "hive.acid.stats": b"0,0,3",
        "hive.acid.version": b"2",
    }
    result = folder.compact("major", 901)
    assert result is not None
    assert result.folders == ("base_0000004_v0000901",)
    assert [file.rows for file in result.files] == [17]
    assert folder.rows() == before


def test_a_row_deleted_by_two_transactions_has_one_event(folder: Folder) -> None:
    folder.insert(1, [(1, "a"), (2, "b")])
    folder.delete(2, [(1, BUCKET, 0)])
    folder.delete(3, [(1, BUCKET, 0), (1, BUCKET, 1)])
    folder.compact("minor")
    events = orc.read_table(folder.path / "delete_delta_0000001_0000003_v0000900" / "bucket_00000")
    assert events["rowId"].to_pylist() == [0, 1]
    assert events["currentTransaction"].to_pylist() == [2, 3]
    assert folder.rows() == []


def test_rows_and_events_of_aborted_write_ids_are_left_out_and_their_range_is_covered(folder: Folder) -> None:
    folder.insert(1, [(1, "a")], folder="delta_0000001_0000003")
    (folder.path / "delta_0000001_0000003" / "bucket_00000").unlink()
    table = pa.table(
        {
            "operation": pa.array([0, 0, 0], pa.int32()),
            "originalTransaction": [1, 2, 3],
            "bucket": pa.array([BUCKET] * 3, pa.int32()),
            "rowId": [0, 0, 0],
            "currentTransaction": [1, 2, 3],
            "row": [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "c"}],
        }
    ).cast(
        pa.schema(
            [
                ("operation", pa.int32()),
                ("originalTransaction", pa.int64()),
                ("bucket", pa.int32()),
                ("rowId", pa.int64()),
                ("currentTransaction", pa.int64()),
                ("row", pa.struct([("id", pa.int32()), ("text", pa.string())])),
            ]
        )
    )
    orc.write_table(table, folder.path / "delta_0000001_0000003" / "bucket_00000")
    folder.insert(4, [(4, "d")])
    folder.insert(5, [(5, "e")])
    folder.delete(6, [(4, BUCKET, 0)])
    folder.insert(7, [(7, "g")])
    folder.aborted = {2, 5, 6}
    before = folder.rows()
    result = folder.compact("minor")
    assert result is not None
    assert result.folders == ("delta_0000001_0000007_v0000900",)
    assert folder.rows() == before
    assert [row[1][0] for row in before] == [1, 3, 4, 7]
    assert [file.rows for file in result.files] == [4]


def test_a_delta_that_reaches_beyond_the_snapshot_is_left_alone(folder: Folder) -> None:
    folder.insert(1, [(1, "a")])
    folder.insert(2, [(2, "b")])
    folder.insert(4, [(4, "d")], folder="delta_0000003_0000009")
    folder.high_water_mark = 4
    result = folder.compact("minor")
    assert result is not None
    assert result.folders == ("delta_0000001_0000002_v0000900",)
    assert [row[1][0] for row in folder.rows()] == [1, 2, 4]


def test_an_output_without_rows_still_covers_its_range(folder: Folder) -> None:
    folder.insert(1, [(1, "a")])
    folder.delete(2, [(1, BUCKET, 0)])
    result = folder.compact("major")
    assert result is not None
    assert (result.folders, result.files) == (("base_0000002_v0000900",), ())
    assert folder.rows() == []
    assert folder.staged == []


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_one_folder_alone_is_not_merged(folder: Folder, kind: str) -> None:
    assert folder.plan(kind) is None
    folder.insert(1, [(1, "a")])
    assert folder.plan(kind) is None


def test_buckets_and_statements_stay_apart_and_in_order(folder: Folder) -> None:
    for write_id in (1, 2):
        for bucket in (0, 2):
            for statement in (1, 0):
                folder.insert(write_id, [(write_id, "x")] * 5, bucket=bucket, statement=statement)
    before = folder.rows()
    result = folder.compact("minor")
    assert result is not None
    assert [(file.file_name, file.rows) for file in result.files] == [("bucket_00000", 20), ("bucket_00002", 20)]
    assert folder.rows() == before
    for file in result.files:
        table = orc.read_table(folder.path / file.folder_name / file.file_name)
        keys = list(zip(*(table[name].to_pylist() for name in ("originalTransaction", "bucket", "rowId")), strict=True))
        assert keys == sorted(keys)


def test_files_whose_keys_overlap_are_brought_into_order(folder: Folder) -> None:
    rows = [(i, f"row {i}") for i in range(300)]
    folder.insert(1, rows[:100], first_row_id=0, folder="delta_0000001_0000001_0000")
    folder.insert(1, rows[50:150], first_row_id=50, folder="delta_0000001_0000001_0001")
    folder.insert(1, rows[100:], first_row_id=100, folder="delta_0000001_0000001_0002")
    before = folder.rows()
    folder.compact("minor", stripe_bytes=1000)
    assert folder.rows() == before
    table = orc.read_table(folder.path / "delta_0000001_0000001_v0000900" / "bucket_00000")
    assert table["rowId"].to_pylist() == sorted(table["rowId"].to_pylist())
    assert table.num_rows == 400


# -- stripes ---------------------------------------------------------------------------------------


def large_deltas(folder: Folder, count: int = 3, **options: Any) -> None:
    for write_id in range(1, count + 1):
        folder.insert(
            write_id, [(i, f"text {write_id} {i}") for i in range(20_000)], stripe_size_bytes=64 << 10, **options
        )


def stripe_bytes_of(path: Path) -> list[bytes]:
    content = path.read_bytes()
    return [content[s.offset : s.offset + s.length] for s in tail_of(path).footer.stripes]


def test_small_stripes_become_large_ones(folder: Folder) -> None:
    large_deltas(folder)
    stripes = sum(len(tail_of(path).footer.stripes) for path in folder.path.glob("*/bucket_00000"))
    before = folder.rows()
    folder.compact("minor")
    [path] = folder.path.glob("*_v0000900/bucket_00000")
    assert (stripes, len(tail_of(path).footer.stripes)) != (1, 1)
    assert len(tail_of(path).footer.stripes) == 1
    assert folder.rows() == before


def test_large_stripes_are_copied_by_their_bytes(folder: Folder) -> None:
    large_deltas(folder)
    expected = [s for path in sorted(folder.path.glob("*/bucket_00000")) for s in stripe_bytes_of(path)]
    before = folder.rows()
    folder.compact("minor", stripe_bytes=1000)
    [path] = folder.path.glob("*_v0000900/bucket_00000")
    assert stripe_bytes_of(path) == expected
    assert folder.rows() == before
    keys = acid_items(path)["hive.acid.key.index"].split(b";")[:-1]
    assert len(keys) == len(expected)
    assert keys[-1] == f"3,{BUCKET},19999".encode()
    footer = tail_of(path).footer
    assert len(footer.statistics) == len(footer.types)
    with LocalStore().open_input(str(path)) as source:
        assert read_stripe_statistics(source, tail_of(path), str(path)).count(b"text 1 0") >= 1


@pytest.mark.parametrize(("kind", "copies"), [("minor", True), ("major", False)])
def test_stripes_of_middle_size_are_copied_until_a_major_compaction(folder: Folder, kind: str, copies: bool) -> None:
    for write_id in (1, 2):
        folder.insert(write_id, [(i, f"text {write_id} {i}") for i in range(20_000)])
    before = [s for path in sorted(folder.path.glob("*/bucket_00000")) for s in stripe_bytes_of(path)]
    folder.compact(kind, stripe_bytes=6 << 20)
    [path] = folder.path.glob("*_v0000900/bucket_00000")
    after = stripe_bytes_of(path)
    assert (after == before) is copies
    assert len(after) == (2 if copies else 1)


def test_only_stripes_that_lose_rows_are_encoded_again(folder: Folder) -> None:
    large_deltas(folder)
    [first, second, third] = sorted(folder.path.glob("*/bucket_00000"))
    folder.delete(4, [(2, BUCKET, 7)])
    folder.insert(5, [(5, "small")])
    before = folder.rows()
    folder.compact("major", stripe_bytes=8 << 10)
    [path] = folder.path.glob("*_v0000900/bucket_00000")
    stripes = stripe_bytes_of(path)
    assert set(stripe_bytes_of(first)) <= set(stripes)
    assert set(stripe_bytes_of(third)) <= set(stripes)
    assert len(set(stripe_bytes_of(second)) & set(stripes)) == len(stripe_bytes_of(second)) - 1
    assert folder.rows() == before
    assert len(before) == 60_000


def test_stripes_of_another_compression_are_encoded_again(folder: Folder) -> None:
    large_deltas(folder, compression="ZLIB")
    before = folder.rows()
    folder.properties = {"orc.compress": "SNAPPY"}
    folder.insert(4, [(1, "one more")], compression="SNAPPY")
    folder.compact("major", stripe_bytes=1000)
    [path] = folder.path.glob("base_*/bucket_00000")
    assert tail_of(path).postscript.codec.name == "SNAPPY"
    assert [row for row in folder.rows() if row[0][0] < 4] == before


# -- columns that changed --------------------------------------------------------------------------


def test_files_from_before_a_column_was_added_get_nulls(folder: Folder) -> None:
    folder.insert(1, [(1, "a"), (None, None)])
    folder.columns = {"id": "bigint", "text": "string", "more": "array<struct<x:int>>", "c": "char(5)"}
    folder.insert(2, [(2**40, "b", [{"x": 1}, None, {"x": None}], "ab"), (None, None, None, None)])
    before = folder.rows()
    folder.compact("major", stripe_bytes=10)
    assert folder.rows() == before
    assert [row[1] for row in before] == [
        (1, "a", None, None),
        (None, None, None, None),
        (2**40, "b", [{"x": 1}, None, {"x": None}], "ab   "),
        (None, None, None, None),
    ]


@pytest.mark.parametrize("kind", ["minor", "major"])
@pytest.mark.parametrize("type_", ["varchar(3)", "char(3)"])
def test_a_column_that_was_too_short_for_a_while_cuts_no_text(folder: Folder, type_: str, kind: str) -> None:
    """Readers cut it. Once the column is altered back, they see all of it again."""
    for write_id in (1, 2):
        folder.insert(write_id, [(1, "abcdef"), (2, "ab  "), (3, "   "), (4, None), (5, "äöüß")])
    columns, before = folder.columns, folder.rows()
    folder.columns = columns | {"text": type_}
    cut = folder.rows()
    assert {len(row[1][1] or "") for row in cut} <= {0, 3}
    folder.compact(kind)
    assert folder.rows() == cut
    folder.columns = columns
    assert folder.rows() == before


def test_a_value_that_could_only_be_written_changed_ends_the_compaction(folder: Folder) -> None:
    folder.columns = {"t": "timestamp"}
    folder.insert(1, [(0,)])
    path = folder.insert(2, [(0,)])
    table = orc.read_table(path)
    row = pa.StructArray.from_arrays([pa.array([-1], pa.timestamp("ns"))], ["t"])
    orc.write_table(table.set_column(5, "row", row), path)
    with pytest.raises(UnsupportedFeature, match=r"delta_0000002_0000002_0000/bucket_00000.*without changing it"):
        folder.compact("minor")
    assert folder.staged == []


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_input_ends_the_compaction_by_its_name_and_leaves_nothing(folder: Folder, threads: int) -> None:
    for write_id in range(1, 4):
        for bucket in range(3):
            folder.insert(write_id, [(i, "text") for i in range(100)], bucket=bucket)
    path = folder.path / "delta_0000002_0000002_0000" / "bucket_00001"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    before = sorted(p.name for p in folder.path.iterdir())
    with pytest.raises(CorruptFile, match="delta_0000002_0000002_0000/bucket_00001"):
        folder.compact("minor", threads=threads)
    assert folder.staged == []
    assert sorted(p.name for p in folder.path.iterdir() if p.name != ".hive_ingest") == before


def test_rows_outside_of_what_a_file_says_of_itself_end_the_compaction(folder: Folder) -> None:
    folder.insert(1, [(1, "a")])
    path = folder.insert(2, [(20, "b")])
    # 4 is zigzag for write id 2. The last such statistics are those of the two write ids in the footer.
    orc.write_table(orc.read_table(path), path, compression="uncompressed")
    content = path.read_bytes()
    statistics = b"\x08\x01\x12\x06\x08\x04\x10\x04\x18\x04"
    parts = content.split(statistics)
    changed = b"\x08\x01\x12\x06\x08\x0a\x10\x0a\x18\x0a"
    path.write_bytes(statistics.join(parts[:-2]) + changed + statistics.join(parts[-2:]))
    with pytest.raises(CorruptFile, match=r"holds rows from \(2, "):
        folder.compact("minor")


def test_progress_counts_files_rows_and_bytes(folder: Folder) -> None:
    for write_id in range(1, 4):
        folder.insert(write_id, [(i, "text") for i in range(10)])
    folder.delete(4, [(1, BUCKET, 0)])
    plan = folder.plan("major")
    assert plan is not None
    seen: list[Any] = []
    result = folder.merge(plan, progress=seen.append)
    assert (seen[-1].files_read, seen[-1].bytes_read) == (4, plan.input_bytes)
    assert (seen[-1].rows_written, seen[-1].bytes_written) == (29, result.files[0].size_bytes)


def test_what_the_progress_callback_raises_ends_the_compaction(folder: Folder) -> None:
    for write_id in range(1, 4):
        folder.insert(write_id, [(1, "text")])
    plan = folder.plan("minor")
    assert plan is not None

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.merge(plan, progress=stop)
    assert folder.staged == []


@pytest.mark.parametrize("stripe_bytes", [64 << 20, 1000], ids=["encoded", "copied"])
def test_a_merge_is_ended_in_the_middle_of_a_large_file(folder: Folder, stripe_bytes: int) -> None:
    texts = random.Random(1)  # that compression does not shorten
    for write_id in range(1, 4):
        rows = [(i, texts.randbytes(16).hex()) for i in range(20_000)]
        path = folder.insert(write_id, rows, stripe_size_bytes=64 << 10)
        assert len(tail_of(path).footer.stripes) > 3
    plan = folder.plan("minor")
    assert plan is not None
    assert_ended_before_a_file_is_read(folder, plan, stripe_bytes=stripe_bytes)


def test_a_merge_is_ended_in_the_middle_of_a_large_file_of_delete_events(folder: Folder) -> None:
    for write_id in (1, 2):
        folder.insert(write_id, [(1, "text")])
    numbers = sorted(random.Random(1).sample(range(1 << 40), 300_000))  # that do not become runs
    for write_id in (3, 4):
        path = folder.delete(write_id, [(1, BUCKET, i) for i in numbers], stripe_size_bytes=1 << 10)
        assert len(tail_of(path).footer.stripes) > 3
    plan = folder.plan("major")
    assert plan is not None
    assert_ended_before_a_file_is_read(folder, plan, threads=1)


def assert_ended_before_a_file_is_read(folder: Folder, plan: MergePlan, **settings: Any) -> None:
    seen: list[MergeProgress] = []

    def stop_at_the_third(progress: MergeProgress) -> None:
        seen.append(progress)
        if len(seen) >= 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        folder.merge(plan, progress=stop_at_the_third, **settings)
    assert {progress.files_read for progress in seen} == {0}
    assert folder.staged == []


@pytest.mark.parametrize("stripe_bytes", [64, 1 << 20], ids=["copied", "encoded"])
def test_a_file_of_many_stripes_is_opened_a_few_times_and_closed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, stripe_bytes: int
) -> None:
    """Opening takes time for each stripe, so that a file opened for each of them takes its number squared."""
    rows = pa.record_batch({"id": pa.array(range(40 * 4096), pa.int32()), "text": pa.array(["x" * 40] * 40 * 4096)})
    path = folder.insert_batch(1, rows, compression="NONE", stripe_size_bytes=4096)
    folder.insert(2, [(1, "a")])
    assert len(tail_of(path).footer.stripes) > 20
    opened: list[pa.NativeFile] = []
    open_input = LocalStore.open_input

    def counted(store: LocalStore, name: str) -> pa.NativeFile:
        source = open_input(store, name)
        if name == str(path):
            opened.append(source)
        return source

    monkeypatch.setattr(LocalStore, "open_input", counted)
    folder.compact("major", stripe_bytes=stripe_bytes, threads=2)
    assert len(opened) <= 4, "to find its stripes, by two threads that read, and by the one that writes"
    assert all(source.closed for source in opened)
