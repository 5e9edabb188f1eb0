"""Bad records of files: where they are, what they were, and when there are too many."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.errors import StreamingIOFailure, TooManyBadRecords
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import BadRecord, StrictJsonWriter
from hive_ingest.streaming import BadRecordFile, IngestResult, ingest_files
from tests.support.rows import ids

TABLE = "web.events"


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={"id": "int"})
    return metastore


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(b"%s\n" % line for line in lines))
    return path


def record(i: int) -> bytes:
    return b'{"id": %d}' % i


def ingest(client: MetastoreClient, *paths: Path, **options: Any) -> IngestResult:
    writer = StrictJsonWriter(on_error="skip")
    return ingest_files(client, TABLE, paths, record_writer=writer, rows_per_transaction=3, **options)


def test_a_skipped_record_is_logged_with_its_file_and_line(
    ms: MetastoreClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.json", b"# header", *(record(i) for i in range(4)), b"bad")
    ingest(ms, path, header_lines=1)
    first, second = [each.getMessage() for each in caplog.records if "skipped" in each.getMessage()]
    assert first.startswith(f"skipped line 6 of {str(path)!r}: ")
    assert second == f"1 bad record skipped in the transaction from line 5 of {str(path)!r} on"


def test_each_bad_record_is_a_line_with_its_file_line_and_bytes(ms: MetastoreClient, tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", b"# header", record(1), b'{"id": "x"}', record(3), record(4), b"\xff")
    second = write(tmp_path / "b.json", b"# header", b"")
    bad = tmp_path / "bad.jsonl"
    result = ingest(ms, first, second, bad_records=bad, header_lines=1)
    assert result.stats.records_skipped == 3
    lines = [json.loads(line) for line in bad.read_text().splitlines()]
    reasons = [line.pop("reason") for line in lines]
    assert lines == [
        {"file": str(first), "line": 3, "offset": 19, "data": '{"id": "x"}'},
        {"file": str(first), "line": 6, "offset": 51, "data_base64": base64.b64encode(b"\xff").decode()},
        {"file": str(second), "line": 2, "offset": 9, "data": ""},
    ]
    assert reasons[0] == "column 'id': 'x' is a string, int requires a JSON number"
    assert reasons[1].startswith("not UTF-8")
    assert ids(ms, TABLE) == [1, 3, 4]


def test_a_function_gets_the_file_and_line_too(ms: MetastoreClient, tmp_path: Path) -> None:
    found: list[BadRecord] = []
    path = write(tmp_path / "a.json", record(1), b"x", record(3))
    ingest(ms, path, bad_records=found.append)
    assert [(bad.file, bad.line, bad.byte_offset, bad.data) for bad in found] == [(str(path), 2, 10, b"x")]


def test_a_run_ends_with_too_many_bad_records_and_a_higher_limit_continues(ms: MetastoreClient, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    path = write(tmp_path / "a.json", record(1), b"x", record(2), record(3), b"y", record(4))
    with pytest.raises(TooManyBadRecords, match=r"a\.json', line 5 \(at byte \d+\): .*max_bad_records=1"):
        ingest(ms, path, bad_records=bad, max_bad_records=1)
    assert ids(ms, TABLE) == [1, 2]
    ingest(ms, path, bad_records=bad, max_bad_records=1)
    assert ids(ms, TABLE) == [1, 2, 3, 4]
    # The second transaction was written twice: at least once.
    assert [json.loads(line)["data"] for line in bad.read_text().splitlines()] == ["x", "y", "y"]


def test_a_share_is_that_of_one_transaction(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", record(1), b"x", record(2), b"y", b"z", record(4))
    with pytest.raises(TooManyBadRecords, match="2 of the 3 records of the transaction"):
        ingest(ms, path, max_bad_record_share=0.5)
    assert ids(ms, TABLE) == [1, 2]


def test_a_file_that_cannot_be_opened_is_an_error_before_anything_is_written(
    ms: MetastoreClient, tmp_path: Path
) -> None:
    with pytest.raises(StreamingIOFailure, match=r"missing/bad\.jsonl"):
        ingest(ms, write(tmp_path / "a.json", record(1)), bad_records=tmp_path / "missing" / "bad.jsonl")
    assert ids(ms, TABLE) == []


def test_records_of_any_kind_have_a_line(tmp_path: Path) -> None:
    row = pa.record_batch({"n": [1.5], "at": pa.array([0], pa.timestamp("s")), "b": [b"\xff"]})
    circular: dict[str, Any] = {}
    circular["self"] = circular
    with BadRecordFile(tmp_path / "bad.jsonl") as file:
        for data in (row, {"a": 1}, "text", circular, float("nan")):
            file.handle([BadRecord(0, "why", data)])
        file.flush()
    lines = [json.loads(line)["data"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert lines == [
        {"n": 1.5, "at": "1970-01-01 00:00:00", "b": "\\xff"},
        {"a": 1},
        "text",
        "{'self': {...}}",
        "nan",
    ]


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    for _ in range(2):
        with BadRecordFile(tmp_path / "bad.jsonl") as file:
            file.handle([BadRecord(0, "why", b"x", 5)])
            file.close()
    line = '{"record": 0, "offset": 5, "reason": "why", "data": "x"}\n'
    assert (tmp_path / "bad.jsonl").read_text() == line * 2
