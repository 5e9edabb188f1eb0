"""A group of rows to one ORC file."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.config import StreamingSettings
from hive_ingest.delta.delta_writer import DeltaTarget, DeltaWriter
from hive_ingest.delta.routing import GroupKey
from hive_ingest.errors import SerializationError
from hive_ingest.model import Column, Table, TableName, WriteId
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.storage import Location


def test_small_batches_are_encoded_together_and_all_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    write = AcidOrcWriter.write

    def counted(self: AcidOrcWriter, batch: pa.RecordBatch) -> None:
        encoded.append(batch.num_rows)
        write(self, batch)

    monkeypatch.setattr(AcidOrcWriter, "write", counted)
    table = Table(TableName.of("db.t"), (Column("id", "bigint"),), location=f"file:{tmp_path}")
    delta = DeltaWriter(
        DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w")), StreamingSettings()
    )
    rows = pa.record_batch({"id": pa.array(range(40_000), pa.int64())})
    starts = [*range(0, 10_000, 100), 10_000, 30_000, *range(39_000, 40_000, 10), 40_000]
    batches = [rows.slice(a, b - a) for a, b in itertools.pairwise(starts)]

    file = delta.finish(GroupKey((), 0), [], batches)

    assert encoded == [8_100, 1_900, 20_000, 9_000, 1_000]
    found = orc.read_table(file.location.path).flatten()
    assert found["row.id"].to_pylist() == found["rowId"].to_pylist() == list(range(40_000))


def delta_writer(folder: Path, column_type: str) -> DeltaWriter:
    table = Table(TableName.of("db.t"), (Column("id", column_type),), location=f"file:{folder}")
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    return DeltaWriter(target, StreamingSettings(writer_threads=3))


def test_the_rows_of_a_large_group_are_encoded_in_parts_and_keep_their_order(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": pa.array(range(500_000), pa.int64())})
    batches = [rows.slice(a, b - a) for a, b in itertools.pairwise([0, 100, 300_000, 300_000, 499_999, 500_000])]

    with ThreadPoolExecutor(3) as pool:
        file = delta_writer(tmp_path, "bigint").finish(GroupKey((), 0), [], batches, pool)

    found = orc.ORCFile(file.location.path)
    assert [found.read_stripe(number).num_rows for number in range(found.nstripes)] == [166_667, 166_667, 166_666]
    table = found.read().flatten()
    assert file.rows == 500_000
    assert table["rowId"].to_pylist() == table["row.id"].to_pylist() == list(range(500_000))


def test_a_part_that_cannot_be_encoded_leaves_nothing(tmp_path: Path) -> None:
    texts = pa.array(["1"] * 600_000 + ["no number"])
    delta = delta_writer(tmp_path, "int")

    with ThreadPoolExecutor(3) as pool, pytest.raises(SerializationError):
        delta.finish(GroupKey((), 0), [], [pa.record_batch({"id": texts})], pool)

    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
