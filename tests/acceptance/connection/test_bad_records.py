"""Skipped records reach their handler in order and before the commit, and limits end the transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from hive_ingest import BadRecordFile, BadRecordTable, append, read_table
from hive_ingest.connection import JoinedTransaction, StreamingConnection, TransactionState
from hive_ingest.errors import ConfigurationError, TooManyBadRecords
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import BadRecord, StrictJsonWriter
from tests.support import connections
from tests.support.rows import ids


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.t", columns={"id": "int"})
    return metastore


def connect(client: MetastoreClient, **options: Any) -> StreamingConnection:
    writer = StrictJsonWriter(on_error=options.pop("on_error", "skip"), block_bytes=options.pop("block_bytes", 1 << 20))
    return connections.connect(client, record_writer=writer, **options)


def record(id: object) -> bytes:
    return json.dumps({"id": id}).encode()


class Handler:
    """Notes each call, and what was committed when it came."""

    def __init__(self, seen: Callable[[], object] = lambda: None) -> None:
        self.calls: list[Any] = []
        self._seen = seen

    def handle(self, records: Sequence[BadRecord]) -> None:
        self.calls += [bad.data for bad in records]

    def flush(self) -> None:
        self.calls.append(("flush", self._seen()))


def test_bad_records_come_in_the_order_in_which_they_were_written(ms: MetastoreClient) -> None:
    found: list[BadRecord] = []
    with connect(ms, bad_records=found.append, block_bytes=1000) as conn, conn.transaction():
        for i in range(20_000):
            conn.write(record(i if i % 100 else f"bad {i}"))
    assert [bad.record for bad in found] == list(range(0, 20_000, 100))
    assert [bad.data for bad in found] == [record(f"bad {i}") for i in range(0, 20_000, 100)]
    assert len(ids(ms, "web.t")) == 20_000 - 200


def test_a_handler_is_flushed_before_the_rows_are_visible(ms: MetastoreClient) -> None:
    handler = Handler(lambda: ids(ms, "web.t"))
    with connect(ms, bad_records=handler) as conn:
        with conn.transaction():
            conn.write([record(1), record("x"), record(3)])
        with conn.transaction():
            conn.write(record(4))
    assert handler.calls == [record("x"), ("flush", [])]
    assert ids(ms, "web.t") == [1, 3, 4]


def test_what_is_written_again_after_an_abort_is_handed_on_again_and_counted_once(ms: MetastoreClient) -> None:
    handler = Handler()
    with connect(ms, bad_records=handler, max_bad_records=1) as conn:
        for _ in range(3):
            conn.begin_transaction()
            conn.write(record("x"))
            conn.flush()
            conn.abort_transaction()
        with conn.transaction():
            conn.write(record("x"))
        assert conn.stats.records_skipped == 1
    assert handler.calls == [*[record("x")] * 4, ("flush", None)]


@pytest.mark.parametrize("call", ["handle", "flush"])
def test_an_error_of_the_handler_fails_the_transaction(
    ms: MetastoreClient, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    handler = Handler()
    monkeypatch.setattr(handler, call, fail)
    with connect(ms, bad_records=handler) as conn:
        conn.begin_transaction()
        conn.write([record(1), record("x")])
        with pytest.raises(OSError, match="disk full"):
            conn.commit_transaction()
        assert conn.state is TransactionState.FAILED
    assert ids(ms, "web.t") == []


def test_more_bad_records_than_allowed_since_connect_fail_the_transaction(ms: MetastoreClient) -> None:
    handler = Handler()
    with connect(ms, bad_records=handler, max_bad_records=2) as conn:
        with conn.transaction():
            conn.write([record(1), record("a"), record("b")])
        conn.begin_transaction()
        conn.write([record(2), record("c")])
        with pytest.raises(
            TooManyBadRecords, match=r"^record 1 \(at byte 10\): column 'id': .* opened: 3, more than max_bad_records=2"
        ) as caught:
            conn.commit_transaction()
        assert caught.value.record == 1
        assert conn.state is TransactionState.FAILED
    assert handler.calls[-2:] == [record("c"), ("flush", None)]
    assert ids(ms, "web.t") == [1]


def test_no_bad_record_is_allowed_with_a_limit_of_none(ms: MetastoreClient) -> None:
    with connect(ms, max_bad_records=0) as conn:
        with conn.transaction():
            conn.write(record(1))
        with pytest.raises(TooManyBadRecords), conn.transaction():
            conn.write(record("x"))


def test_a_larger_share_of_bad_records_than_allowed_fails_the_transaction(ms: MetastoreClient) -> None:
    with connect(ms, max_bad_record_share=0.1) as conn:
        with conn.transaction():
            conn.write([*(record(i) for i in range(9)), record("x")])
        conn.begin_transaction()
        conn.write([*(record(i) for i in range(8)), record("x")])
        with pytest.raises(
            TooManyBadRecords, match=r"^1 of the 9 records of the transaction .*max_bad_record_share=0\.1"
        ):
            conn.commit_transaction()
    assert len(ids(ms, "web.t")) == 9


def test_what_writers_that_joined_have_skipped_counts_too(ms: MetastoreClient) -> None:
    with connect(ms, max_bad_records=0) as conn:
        conn.begin_transaction()
        shared = conn.share_transaction()
        with JoinedTransaction(shared, StrictJsonWriter(on_error="skip"), writer_bucket=1) as writer:
            writer.write([record(1), record("x")])
            prepared = writer.prepare()
        with pytest.raises(TooManyBadRecords, match=r"^bad records skipped .*: 1, more than max_bad_records=0"):
            conn.commit_transaction(prepared=[prepared])
    assert ids(ms, "web.t") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bad_records": "bad.jsonl"}, "bad_records='bad.jsonl': pass a function"),
        ({"max_bad_records": 5, "on_error": "fail"}, "max_bad_records has no effect, .* give it on_error='skip'"),
        ({"max_bad_records": -1}, "max_bad_records=-1 is not valid: use 0 or more"),
        ({"max_bad_record_share": 1.5}, "max_bad_record_share=1.5 is not valid: use a number from 0 to 1"),
    ],
)
def test_an_invalid_argument_is_refused_at_connect(ms: MetastoreClient, options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        connect(ms, **options)


@pytest.mark.one_embedded
@pytest.mark.parametrize("coerce", ["strict", "lossless"])
def test_a_row_that_python_cannot_represent_is_skipped_and_kept(
    coerce: Literal["strict", "lossless"], ms: MetastoreClient, tmp_path: Path
) -> None:
    """Text that is not UTF-8, and dates that Python has not: such rows are bad, and each handler takes them."""
    ms.create_table("web.rows", columns={"id": "int", "name": "string", "day": "date"})
    offsets = b"".join(offset.to_bytes(4, "little") for offset in (0, 1, 3, 4))
    names = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xff\xfec")])
    days = pa.array([0, 1, 2**31 - 1], pa.int32()).cast(pa.date32())
    ids_ = pa.array([1, 2, 3], pa.int32()) if coerce == "strict" else pa.array(["1", "2", "3"])
    data = pa.table({"id": ids_, "name": names, "day": days})
    file = BadRecordFile(tmp_path / "bad.jsonl")
    for target in (file, BadRecordTable("web.bad")):
        append(ms, "web.rows", data, on_error="skip", coerce=coerce, bad_records=target)
    file.close()
    assert [row["id"] for row in read_table(ms, "web.rows").to_pylist()] == [1, 1]
    lines = [json.loads(line)["data"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(line["name"], line["day"]) for line in lines] == [
        ("\\xff\\xfe", "1970-01-02"),
        ("c", "<value out of range: 2147483647>"),
    ]
    assert [json.loads(row["record"]) for row in read_table(ms, "web.bad").to_pylist()] == lines


@pytest.mark.one_embedded
def test_a_text_that_is_not_utf8_is_no_number(ms: MetastoreClient) -> None:
    offsets = b"".join(offset.to_bytes(4, "little") for offset in (0, 1, 3))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"7\xff\xfe")])
    found: list[BadRecord] = []
    append(ms, "web.t", pa.table({"id": texts}), on_error="skip", coerce="lossless", bad_records=found.append)
    assert ids(ms, "web.t") == [7]
    assert [bad.record for bad in found] == [1]
