"""Bad records in a table, which commit with the rows that were written beside them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.connection import BAD_RECORD_COLUMNS
from hive_ingest.errors import ConfigurationError, TooManyBadRecords
from hive_ingest.faults import FAULT_POINTS
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import MappingWriter
from hive_ingest.streaming.kafka import KafkaMessage, MessageColumns, MessageWriter
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.support.rows import ids

TABLE, BAD = "web.events", "web.bad"


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={"id": "int"})
    return metastore


def connect(client: MetastoreClient, **options: Any) -> hi.StreamingConnection:
    writer = hi.StrictJsonWriter(on_error="skip")
    options = {"bad_records": hi.BadRecordTable(BAD)} | options
    return hi.StreamingConnection.connect(client, table=TABLE, record_writer=writer, **options)


def bad_rows(client: MetastoreClient) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = hi.read_table(client, BAD).to_pylist()
    return sorted(rows, key=lambda row: (row["file"] or "", row["line"] or 0, row["record_number"]))


def test_bad_records_of_files_are_rows_with_their_file_and_line(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"id": 1}\n{"id": "x"}\n{"id": 3}\n\xff\n')
    result = hi.ingest_files(
        ms,
        TABLE,
        path,
        record_writer=hi.StrictJsonWriter(on_error="skip"),
        rows_per_transaction=3,
        bad_records=hi.BadRecordTable(BAD),
    )
    assert result.stats.records_skipped == 2
    assert ids(ms, TABLE) == [1, 3]
    first, second = bad_rows(ms)
    assert first.pop("written_at") is not None
    assert first == {
        "table_name": TABLE,
        "file": str(path),
        "line": 2,
        "record_number": 1,
        "byte_offset": 10,
        "reason": "column 'id': 'x' is a string, int requires a JSON number",
        "record": b'{"id": "x"}',
    }
    assert (second["line"], second["record"]) == (4, b"\xff")


def test_an_aborted_transaction_leaves_no_bad_records_and_a_repeated_one_has_each_once(ms: MetastoreClient) -> None:
    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write([b'{"id": 1}', b"bad"])
        conn.flush()
        conn.abort_transaction()
        assert bad_rows(ms) == []
        with conn.transaction():
            conn.write([b'{"id": 1}', b"bad"])
        with conn.transaction():
            conn.write([b'{"id": 2}'])
    assert ids(ms, TABLE) == [1, 2]
    assert [row["record"] for row in bad_rows(ms)] == [b"bad"]


def test_a_transaction_of_bad_records_alone_commits_them(ms: MetastoreClient) -> None:
    with connect(ms) as conn, conn.transaction():
        conn.write(b"bad")
    assert ids(ms, TABLE) == []
    assert [row["record"] for row in bad_rows(ms)] == [b"bad"]


def test_too_many_bad_records_leave_none_of_them(ms: MetastoreClient) -> None:
    with connect(ms, max_bad_records=1) as conn, pytest.raises(TooManyBadRecords), conn.transaction():
        conn.write([b"bad", b'{"id": 1}', b"worse"])
    assert bad_rows(ms) == []
    assert ids(ms, TABLE) == []


def test_the_positions_of_a_sink_commit_with_both_tables(ms: MetastoreClient) -> None:
    with connect(ms, sink="app", sources=["s"]) as conn:
        conn.begin_transaction()
        conn.write([b"bad", b'{"id": 1}'])
        conn.commit_transaction(positions={"s": 7})
        assert conn.progress["s"] is not None
    assert (ids(ms, TABLE), len(bad_rows(ms))) == ([1], 1)


def test_an_overwrite_replaces_the_table_and_adds_bad_records(ms: MetastoreClient) -> None:
    for number in (1, 2):
        with connect(ms, overwrite=True) as conn, conn.transaction():
            conn.write([b'{"id": %d}' % number, b"bad"])
    assert (ids(ms, TABLE), len(bad_rows(ms))) == ([2], 2)


def test_rows_and_objects_are_kept_as_json(ms: MetastoreClient) -> None:
    writer = hi.ArrowWriter(on_error="skip")
    with (
        hi.StreamingConnection.connect(
            ms, table=TABLE, record_writer=writer, bad_records=hi.BadRecordTable(BAD)
        ) as conn,
        conn.transaction(),
    ):
        conn.write(pa.table({"id": [1, 2**40]}))
    assert [row["record"] for row in bad_rows(ms)] == [b'{"id": %d}' % 2**40]


def test_a_reason_that_is_not_utf8_is_kept_readable(ms: MetastoreClient) -> None:
    def refuse(record: bytes) -> dict[str, Any]:
        raise ValueError("half a pair \ud800")

    writer = MappingWriter(refuse, on_error="skip")
    with (
        hi.StreamingConnection.connect(
            ms, table=TABLE, record_writer=writer, bad_records=hi.BadRecordTable(BAD)
        ) as conn,
        conn.transaction(),
    ):
        conn.write(b"x")
    assert [row["reason"] for row in bad_rows(ms)] == ["ValueError: half a pair \\ud800"]


def test_a_bad_message_is_kept_with_its_origin_and_its_value(ms: MetastoreClient) -> None:
    writer = MessageWriter(hi.StrictJsonWriter(on_error="skip"), MessageColumns())
    with (
        hi.StreamingConnection.connect(
            ms, table=TABLE, record_writer=writer, bad_records=hi.BadRecordTable(BAD)
        ) as conn,
        conn.transaction(),
    ):
        conn.write([KafkaMessage("events", 3, 7, value=b'{"id": 1}'), KafkaMessage("events", 3, 8, value=b"bad\xff")])
        conn.write([KafkaMessage("events", 3, 9)])
    first, second = bad_rows(ms)
    assert (first["record"], second["record"]) == (b"bad\xff", None)
    assert first["reason"].startswith("events, partition 3, offset 8: ")
    assert second["reason"].startswith("events, partition 3, offset 9: ")


def test_a_table_that_exists_may_lack_columns_but_not_have_others(ms: MetastoreClient) -> None:
    ms.create_table(BAD, columns={"reason": "string", "record": "binary"})
    with connect(ms) as conn, conn.transaction():
        conn.write(b"bad")
    [row] = hi.read_table(ms, BAD).to_pylist()
    assert (set(row), row["record"]) == ({"reason", "record"}, b"bad")
    ms.create_table("web.other", columns={"reason": "string", "id": "int"})
    with pytest.raises(ConfigurationError, match=r"web\.other cannot hold bad records, because of its column 'id'"):
        connect(ms, bad_records=hi.BadRecordTable("web.other"))
    ms.create_table("web.parts", columns={"record": "binary"}, partition_keys={"file": "string"})
    with pytest.raises(ConfigurationError, match="neither partitions nor buckets"):
        connect(ms, bad_records=hi.BadRecordTable("web.parts"))
    with pytest.raises(ConfigurationError, match="is the table that the records are for"):
        connect(ms, bad_records=hi.BadRecordTable(TABLE))
    assert set(BAD_RECORD_COLUMNS) > {"file", "line", "reason", "record"}


@pytest.mark.one_embedded
@pytest.mark.parametrize(
    "point", [point for point in FAULT_POINTS if point not in ("lock_waiting", "after_spill", "commit_before_answer")]
)
def test_a_repeated_append_neither_loses_nor_doubles_a_bad_record(
    point: str, metastore: MetastoreClient, tmp_path: Path
) -> None:
    """Wherever the first attempt fails; a file of bad records may have them twice, but never lacks one."""
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={"id": "int"}, partition_keys={"day": "string"})
    data = pa.table({"id": ["1", "x", "3", "y"], "day": ["a"] * 4})
    bad = [{"id": "x", "day": "a"}, {"id": "y", "day": "a"}]
    file = hi.BadRecordFile(tmp_path / "bad.jsonl")
    for position, target in enumerate([hi.BadRecordTable(BAD), file]):
        options: dict[str, Any] = {"on_error": "skip", "coerce": "lossless", "bad_records": target}
        options |= {"sink": "app", "source": f"source {position}", "position": 1}
        # What fails after the commit was confirmed is not raised.
        with faults(CrashPoint(point)) as recorder, suppress(FaultError):
            hi.append(metastore, TABLE, data, **options)
        assert recorder.passed[point], f"{point} was never reached: the test tests nothing"
        hi.append(metastore, TABLE, data, **options)
        assert hi.append(metastore, TABLE, data, **options) is None
        assert ids(metastore, TABLE) == sorted([1, 3] * (position + 1))
    assert [json.loads(row["record"]) for row in bad_rows(metastore)] == bad
    file.close()
    lines = [json.loads(line)["data"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert lines in (bad * attempts for attempts in (1, 2))
