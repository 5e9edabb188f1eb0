"""One writer in one transaction: what remains after an error, and in the next transaction."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.config import StreamingSettings
from hive_ingest.delta.delta_writer import DeltaTarget, DeltaWriter
from hive_ingest.delta.routing import GroupKey
from hive_ingest.delta.transaction_writer import TransactionWriter
from hive_ingest.errors import SerializationError, StreamingIOFailure
from hive_ingest.model import Column, Table, TableName, WriteId
from hive_ingest.record_writer import ArrowWriter, Parsed, StrictJsonWriter
from hive_ingest.record_writer.writer import RecordSchema
from hive_ingest.storage import Location
from hive_ingest.transactions.staging import StagedFile


def test_discard_waits_for_a_thread_that_still_writes_and_removes_its_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(TableName.of("db.t"), (Column("id", "int"),), (Column("p", "string"),), location=f"file:{tmp_path}")
    records = ArrowWriter()
    records.bind(RecordSchema(table.columns, table.partition_keys))
    failed, real = threading.Event(), DeltaWriter.finish

    def finish(self: DeltaWriter, key: GroupKey, *rest: Any, **options: Any) -> StagedFile:
        if key.partition == ("a",):
            failed.set()
            raise StreamingIOFailure("the disk is full")
        assert failed.wait(60)
        threading.Event().wait(0.2)  # long after the error has reached the owner's thread
        return real(self, key, *rest, **options)

    monkeypatch.setattr(DeltaWriter, "finish", finish)
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    with ThreadPoolExecutor(2) as pool:
        writer = TransactionWriter(records, target, StreamingSettings(writer_threads=2), lambda: pool)
        writer.write(pa.table({"id": pa.array([1, 2], pa.int32()), "p": ["a", "b"]}))
        with pytest.raises(StreamingIOFailure, match="disk is full"):
            writer.finish()
        writer.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_cleaning_up_after_a_transaction_keeps_the_records_of_the_next(tmp_path: Path) -> None:
    """The files of a committed transaction are removed on another thread, while the next one is written."""
    table = Table(TableName.of("db.t"), (Column("id", "int"),), location=f"file:{tmp_path}")
    records = StrictJsonWriter()
    records.bind(RecordSchema(table.columns))
    with ThreadPoolExecutor(1) as pool:

        def begin(write_id: int) -> TransactionWriter:
            target = DeltaTarget(table, WriteId(write_id), Location.of(f"{table.location}/.hive_ingest/{write_id}_w"))
            return TransactionWriter(records, target, StreamingSettings(), lambda: pool)

        first = begin(1)
        first.write(b'{"id": 1}\n')
        first.finish()
        second = begin(2)
        second.write(b'{"id": 2}\n{"id": 3}\n')
        pool.submit(first.discard).result()
        second.write(b'{"id": 4}\n')
        [file] = second.finish()
    assert file.rows == second.counts.records == 3


def test_a_custom_writer_cannot_commit_a_value_that_cannot_be_read(tmp_path: Path) -> None:
    """Text that was not UTF-8 was once written, and could not be decoded by any reader."""

    class Latin(ArrowWriter):
        def parse(self, block: Any) -> Parsed:
            data = pa.py_buffer("gutschlächt".encode("latin-1"))
            text = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.array([0, 3, 11], np.int32)), data])
            return Parsed(pa.record_batch({"v": text}), 2)

    table = Table(TableName.of("db.t"), (Column("v", "string"),), location=f"file:{tmp_path}")
    records = Latin()
    records.bind(RecordSchema(table.columns))
    with ThreadPoolExecutor(1) as pool:
        target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
        writer = TransactionWriter(records, target, StreamingSettings(), lambda: pool)
        writer.write(pa.table({"v": ["a", "b"]}))
        with pytest.raises(SerializationError, match="row 1 of a block that Latin parsed cannot be read: column 'v'"):
            writer.finish()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_last_block_is_parsed_by_all_threads_and_keeps_its_order(tmp_path: Path, threads: int) -> None:
    table = Table(TableName.of("db.t"), (Column("id", "int"), Column("text", "string")), location=f"file:{tmp_path}")
    records, blocks = StrictJsonWriter(), []
    records.bind(RecordSchema(table.columns))
    parse = records.parse
    records.parse = lambda block: (blocks.append(block.first_record), parse(block))[1]  # type: ignore[method-assign]
    lines = [b'{"id": %d, "text": "%s"}' % (i, b"x" * 100) for i in range(10_000)]
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    with ThreadPoolExecutor(threads) as pool:
        writer = TransactionWriter(records, target, StreamingSettings(writer_threads=threads), lambda: pool)
        writer.write(b"\n".join(lines))
        (file,) = writer.finish()
    assert len(blocks) == threads
    assert orc.read_table(file.location.path)["row"].combine_chunks().field("id").to_pylist() == list(range(10_000))


def test_a_bad_record_of_a_divided_block_is_named_by_its_number(tmp_path: Path) -> None:
    table = Table(TableName.of("db.t"), (Column("id", "int"),), location=f"file:{tmp_path}")
    records = StrictJsonWriter()
    records.bind(RecordSchema(table.columns))
    lines = [b'{"id": %d, "more": "%s"}' % (i, b"x" * 100) for i in range(10_000)]
    lines[9_000] = b'{"id": "?"}'
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    with ThreadPoolExecutor(4) as pool:
        writer = TransactionWriter(records, target, StreamingSettings(writer_threads=4), lambda: pool)
        writer.write(b"\n".join(lines))
        with pytest.raises(SerializationError, match="record 9000 "):
            writer.finish()
        writer.discard()


def test_a_file_that_the_device_refuses_fails_the_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(TableName.of("db.t"), (Column("id", "int"),), (Column("p", "string"),), location=f"file:{tmp_path}")
    records = ArrowWriter()
    records.bind(RecordSchema(table.columns, table.partition_keys))
    synced = itertools.count(1)

    def fail_at_last(_: int) -> None:
        if next(synced) == 20:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail_at_last)
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    with ThreadPoolExecutor(2) as pool:
        writer = TransactionWriter(records, target, StreamingSettings(writer_threads=2), lambda: pool)
        writer.write(pa.table({"id": pa.array(range(20), pa.int32()), "p": [f"{i}" for i in range(20)]}))
        with pytest.raises(StreamingIOFailure, match="device reported an error"):
            writer.finish()
        writer.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_partition_gets_its_rows_in_their_order_however_many_there_are(tmp_path: Path, threads: int) -> None:
    table = Table(
        TableName.of("db.t"),
        (Column("id", "int"), Column("text", "string")),
        (Column("p", "string"),),
        location=f"file:{tmp_path}",
    )
    records = ArrowWriter()
    records.bind(RecordSchema(table.columns, table.partition_keys))
    counts = {f"p{number}": number % 7 + 1 for number in range(60)} | {"large": 9_000, "wide": 2}
    keys = np.random.default_rng(1).permutation([key for key, count in counts.items() for _ in range(count)])
    ids = np.arange(len(keys), dtype=np.int32)
    texts = ["x" * 400_000 if key == "wide" else str(key) for key in keys]
    rows = pa.table({"id": ids, "text": texts, "p": keys})
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    with ThreadPoolExecutor(threads) as pool:
        writer = TransactionWriter(records, target, StreamingSettings(writer_threads=threads), lambda: pool)
        for at in range(0, len(rows), 1_000):
            writer.write(rows.slice(at, 1_000))
        files = writer.finish()
    assert {file.partition: file.rows for file in files} == {(key,): count for key, count in counts.items()}
    assert len({file.location for file in files}) == len(files)
    for file in files:
        found = orc.read_table(file.location.path).flatten()
        assert found["row.id"].to_pylist() == ids[keys == file.partition[0]].tolist()
        assert found["rowId"].to_pylist() == list(range(file.rows))
        assert os.path.getsize(file.location.path) == file.size_bytes


def test_a_partition_of_large_rows_among_many_small_ones_is_not_read_back_whole(tmp_path: Path) -> None:
    """Its size is not that of the average row: what small groups have spilled is in memory when a file is finished."""
    table = Table(
        TableName.of("db.t"),
        (Column("id", "int"), Column("text", "string")),
        (Column("p", "string"),),
        location=f"file:{tmp_path}",
    )
    records = ArrowWriter()
    records.bind(RecordSchema(table.columns, table.partition_keys))
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    settings = StreamingSettings(writer_threads=2, max_buffer_bytes=8 << 20)
    large, small, batches = 2 << 20, 8_000, 12
    with ThreadPoolExecutor(2) as pool:
        writer = TransactionWriter(records, target, settings, lambda: pool)
        for number in range(batches):
            rows = {
                "id": np.arange(number * small, (number + 1) * small, dtype=np.int32),
                "text": [f"{number:02}" * (large // 2), *["x"] * (small - 1)],
                "p": ["large", *["small"] * (small - 1)],
            }
            writer.write(pa.table(rows))
        writer.flush()
        shared = [path.stat().st_size for path in tmp_path.rglob("*.spill.arrow")]
        files = {file.partition: file for file in writer.finish()}
    assert sum(shared) < batches * settings.min_spill_bytes
    assert {partition: file.rows for partition, file in files.items()} == {
        ("large",): batches,
        ("small",): batches * (small - 1),
    }
    found = orc.read_table(files["large",].location.path).flatten()
    assert found["row.id"].to_pylist() == [number * small for number in range(batches)]
    assert [text[:2] for text in found["row.text"].to_pylist()] == [f"{number:02}" for number in range(batches)]
    assert found["rowId"].to_pylist() == list(range(batches))


def test_a_partition_of_which_little_is_spilled_each_time_is_not_read_back_whole(tmp_path: Path) -> None:
    table = Table(
        TableName.of("db.t"),
        (Column("id", "int"), Column("text", "string")),
        (Column("p", "int"),),
        location=f"file:{tmp_path}",
    )
    records = ArrowWriter()
    records.bind(RecordSchema(table.columns, table.partition_keys))
    target = DeltaTarget(table, WriteId(1), Location.of(f"{table.location}/.hive_ingest/1_w"))
    settings = StreamingSettings(writer_threads=2, spill_chunk_bytes=2 << 20)
    flushes, rows = 8, 3_000
    with ThreadPoolExecutor(2) as pool:
        writer = TransactionWriter(records, target, settings, lambda: pool)
        for flush in range(flushes):
            ids = np.arange(flush * rows, (flush + 1) * rows, dtype=np.int32)
            writer.write(pa.table({"id": ids, "text": [f"{i:0500}" for i in ids], "p": ids % 2}))
            writer.flush()
        spilled = [sum(orc.ORCFile(path).nrows for path in tmp_path.rglob("*.spill.orc"))]
        files = {file.partition: file for file in writer.finish()}
    assert spilled == [6 * rows]  # with the third and the sixth flush, the spills reach 2 MiB
    for parity in (0, 1):
        found = orc.read_table(files[f"{parity}",].location.path).flatten()
        assert found["row.id"].to_pylist() == list(range(parity, flushes * rows, 2))
        assert found["rowId"].to_pylist() == list(range(flushes * rows // 2))
