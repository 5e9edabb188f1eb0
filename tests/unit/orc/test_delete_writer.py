"""Files of delete events: in order, with the metadata that Hive needs, complete or not there at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.errors import CorruptFile, InvalidOperation, StreamingIOFailure
from hive_ingest.model import WriteId
from hive_ingest.orc.delete_events import DeleteEvents, RowIds
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.writer import delete_writer
from hive_ingest.orc.writer.delete_writer import DeleteEventWriter
from hive_ingest.orc.writer.file_writer import AcidFile, FileOptions
from hive_ingest.storage import LocalStore

SCHEMA = pa.schema([("id", pa.int64()), ("who", pa.struct([("name", pa.string())]))])
BUCKET = 1 << 29


def row_ids(*keys: tuple[int, int, int]) -> RowIds:
    write_ids, buckets, numbers = zip(*keys, strict=True) if keys else ((), (), ())
    return RowIds(np.array(write_ids, np.int64), np.array(buckets, np.int32), np.array(numbers, np.int64))


def scattered(count: int) -> RowIds:
    """Sorted, of many write ids and two statements; they do not compress."""
    random = np.random.default_rng(1)
    buckets = (BUCKET + random.integers(0, 2, count)).astype(np.int32)
    return RowIds(random.integers(1, 900, count), buckets, random.integers(0, 2**40, count)).sorted()


def writer(path: Path, **options: int | str) -> DeleteEventWriter:
    settings: FileOptions = {"sync": False, **options}  # type: ignore[typeddict-item]
    return DeleteEventWriter(LocalStore(), str(path), schema=SCHEMA, write_id=WriteId(9), **settings)


def written(path: Path, *parts: RowIds, **options: int | str) -> AcidFile:
    with writer(path, **options) as out:
        for part in parts:
            out.write(part)
        return out.close()


def metadata(path: Path) -> dict[str, bytes]:
    return {k.decode(): v for k, v in orc.ORCFile(path).metadata.items() if k.startswith(b"hive.")}


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "ZSTD"])
def test_an_event_names_its_row_and_the_transaction_that_deleted_it(compression: str, tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    file = written(path, row_ids((3, BUCKET, 0), (3, BUCKET, 7)), row_ids((4, BUCKET, 1)), compression=compression)
    event = {"operation": 2, "bucket": BUCKET, "currentTransaction": 9, "row": None}
    assert orc.read_table(path).to_pylist() == [
        event | {"originalTransaction": 3, "rowId": 0},
        event | {"originalTransaction": 3, "rowId": 7},
        event | {"originalTransaction": 4, "rowId": 1},
    ]
    assert (file.rows, file.stripe_rows) == (3, (3,))
    assert metadata(path) == {
        "hive.acid.key.index": f"4,{BUCKET},1;".encode(),
        "hive.acid.stats": b"0,0,3",
        "hive.acid.version": b"2",
    }


def test_the_key_index_names_the_last_event_of_each_stripe(tmp_path: Path) -> None:
    events = scattered(300_000)
    parts = [events.select(np.arange(len(events)) // 70_001 == i) for i in range(5)]
    file = written(tmp_path / "a", *parts, stripe_size_bytes=64 * 1024, row_index_stride=1000)
    assert len(file.stripe_rows) > 3
    ends = np.cumsum(file.stripe_rows)
    keys = [events.key(end - 1) for end in ends]
    assert metadata(tmp_path / "a")["hive.acid.key.index"].decode() == "".join(f"{w},{b},{r};" for w, b, r in keys)
    table = orc.read_table(tmp_path / "a")
    assert table["rowId"].to_pylist() == events.row_ids.tolist()
    assert table["row"].null_count == table.num_rows


def test_written_delete_events_delete_rows_for_a_reader(tmp_path: Path) -> None:
    events = scattered(5000)
    file = written(tmp_path / "a", events)
    with AcidFileReader(LocalStore(), FileToRead(file.path, None, False, file.size_bytes)) as reader:
        columns = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]
        found = [reader.read(stripe, columns, []).row_ids() for stripe in range(reader.num_stripes)]
    assert DeleteEvents(RowIds.concat(found)).hits(events).all()


def test_events_of_several_transactions_keep_their_write_ids(tmp_path: Path) -> None:
    with writer(tmp_path / "a") as out:
        out.write(row_ids((1, BUCKET, 0), (1, BUCKET, 1), (2, BUCKET, 0)), write_ids=[7, 5, 6])
        out.close()
    assert orc.read_table(tmp_path / "a")["currentTransaction"].to_pylist() == [7, 5, 6]


def test_a_file_without_events_is_a_complete_file(tmp_path: Path) -> None:
    assert written(tmp_path / "a", row_ids()).stripe_rows == ()
    assert metadata(tmp_path / "a")["hive.acid.stats"] == b"0,0,0"


@pytest.mark.parametrize(
    "parts",
    [
        [[(1, BUCKET, 1), (1, BUCKET, 0)]],
        [[(1, BUCKET + 1, 0), (1, BUCKET, 5)]],
        [[(2, BUCKET, 0), (1, BUCKET, 5)]],
        [[(1, BUCKET, 1), (1, BUCKET, 1)]],
        [[(1, BUCKET, 1)], [(1, BUCKET, 1)]],
        [[(2, BUCKET, 1)], [(1, BUCKET, 9)]],
    ],
)
def test_events_out_of_order_are_refused_and_the_file_is_removed(
    parts: list[list[tuple[int, int, int]]], tmp_path: Path
) -> None:
    out = writer(tmp_path / "a")
    with pytest.raises(InvalidOperation, match="not in ascending order"):  # noqa: PT012 (the last part fails)
        for part in parts:
            out.write(row_ids(*part))
    assert not list(tmp_path.iterdir())
    with pytest.raises(StreamingIOFailure, match="closed"):
        out.write(row_ids((5, BUCKET, 1)))


def test_sorting_puts_rows_into_order_once_each() -> None:
    rows = row_ids((2, BUCKET, 0), (1, BUCKET + 1, 3), (1, BUCKET, 7), (2, BUCKET, 0), (1, BUCKET, 2))
    ordered = rows.sorted()
    keys = [(1, BUCKET, 2), (1, BUCKET, 7), (1, BUCKET + 1, 3), (2, BUCKET, 0)]
    assert [ordered.key(i) for i in range(len(ordered))] == keys
    assert ordered.is_ascending()
    assert not rows.is_ascending()
    assert len(row_ids().sorted()) == 0


def test_a_stripe_that_ends_in_the_wrong_place_is_an_error_and_not_a_wrong_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_writer, "BATCH_ROWS", 1_000_000)
    with pytest.raises(CorruptFile, match="ended a stripe"):
        written(tmp_path / "a", scattered(60_000), stripe_size_bytes=64 * 1024)
    assert not list(tmp_path.iterdir())
