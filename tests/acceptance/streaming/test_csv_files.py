"""CSV files stream into a table exactly once, whatever is in their fields."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.connection import CommitInfo
from hive_ingest.errors import SerializationError, SinkConflict, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.reader import read_table
from hive_ingest.record_writer import CsvWriter
from hive_ingest.streaming import IngestResult, ingest_files
from tests.support.rows import ids

TABLE = "web.events"


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={"id": "int", "msg": "string"}, partition_keys={"part": "string"})
    return metastore


def message(i: int) -> str:
    """Text that needs quotes, with newlines in most of them."""
    return f'row {i}, "quoted"\nid,msg,part\r\n{i},"' if i % 4 else f"row {i}"


def csv_of(ids: Iterable[int], *, header: bool = True, names: tuple[str, ...] = ("id", "msg", "part")) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if header:
        writer.writerow(names)
    for i in ids:
        values = {"id": i, "msg": message(i), "part": f"p{i % 2}"}
        writer.writerow([values.get(name.strip().lower(), "?") for name in names])
    return text.getvalue()


def ingest(client: MetastoreClient, *paths: Path, **options: Any) -> IngestResult:
    defaults: dict[str, Any] = {"sink": "events", "record_writer": CsvWriter(), "rows_per_transaction": 7}
    return ingest_files(client, TABLE, paths, **(defaults | options))


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def rows(client: MetastoreClient) -> list[tuple[int, str]]:
    return sorted((row["id"], row["msg"]) for row in read_table(client, TABLE).to_pylist())


def test_every_record_of_files_with_different_headers_is_one_row(ms: MetastoreClient, tmp_path: Path) -> None:
    first = written(tmp_path / "a.csv", "\ufeff" + csv_of(range(20)))
    second = written(tmp_path / "b.csv", csv_of(range(20, 30), names=("Part", "unknown", " MSG ", "ID")))
    empty = written(tmp_path / "c.csv", "")
    only_header = written(tmp_path / "d.csv", "id,msg,part\n")
    result = ingest(ms, first, second, empty, only_header)
    assert rows(ms) == [(i, message(i)) for i in range(30)]
    assert [position.records for position in result.positions.values()] == [20, 10, 0, 0]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_run_that_was_interrupted_continues_after_its_last_record(
    ms: MetastoreClient, tmp_path: Path, suffix: str
) -> None:
    """Between two lines of no record, and with the header; then with further records."""
    text = csv_of(range(25)).encode()
    path = written(tmp_path / f"a.csv{suffix}", gzip.compress(text) if suffix else text)

    def interrupt(info: CommitInfo) -> None:
        raise KeyboardInterrupt

    for committed in (7, 14):
        with pytest.raises(KeyboardInterrupt):
            ingest(ms, path, on_commit=interrupt)
        assert ids(ms, TABLE) == list(range(committed))
    assert ingest(ms, path).positions[str(path)].offset == len(text)
    more = csv_of(range(25, 40), header=False).encode()
    with path.open("ab") as file:
        file.write(gzip.compress(more) if suffix else more)
    ingest(ms, path)
    assert rows(ms) == [(i, message(i)) for i in range(40)]
    assert ingest(ms, path).finished_before == (str(path),)


def test_a_pipe_is_continued_when_it_comes_again(ms: MetastoreClient, tmp_path: Path) -> None:
    for count in (10, 30):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        thread = threading.Thread(target=path.write_text, args=(csv_of(range(count)),), kwargs={"newline": ""})
        thread.start()
        ingest(ms, path)
        thread.join()
        path.unlink()
        assert rows(ms) == [(i, message(i)) for i in range(count)]


def test_a_bad_record_has_its_line_and_byte_in_the_file_also_after_newlines_in_fields(
    ms: MetastoreClient, tmp_path: Path
) -> None:
    before = "# a note\n" + csv_of(range(10))
    after = csv_of(range(11, 15), header=False)
    text = before + "x,bad,p0\r\n" + after + 'y,"bad\nagain",p1'
    path, bad = written(tmp_path / "a.csv", text), tmp_path / "bad.jsonl"
    with pytest.raises(
        SerializationError, match=rf"a\.csv', line {before.count(chr(10)) + 1} \(at byte {len(before)}\)"
    ):
        ingest(ms, path, header_lines=1)
    result = ingest(ms, path, header_lines=1, record_writer=CsvWriter(on_error="skip"), bad_records=bad)
    found = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [(each["line"], each["offset"], each["data"]) for each in found] == [
        (before.count("\n") + 1, len(before), "x,bad,p0"),
        (text.count("\n"), text.index('y,"bad'), 'y,"bad\nagain",p1'),
    ]
    assert (result.stats.records_skipped, ids(ms, TABLE)) == (2, [*range(10), *range(11, 15)])


def test_a_file_that_ends_inside_quotes_is_continued_once_it_is_whole(ms: MetastoreClient, tmp_path: Path) -> None:
    """Also where it ends with a newline, which is not the end of a record."""
    whole = csv_of(range(10))
    path = written(tmp_path / "a.csv", whole[: whole.rindex("id,msg,part\r\n") + 13])
    for _ in range(2):
        with pytest.raises(StreamingIOFailure, match="a quote that is not closed at the end of the file"):
            ingest(ms, path, record_writer=CsvWriter(on_error="skip"))
        assert ids(ms, TABLE) == list(range(9))
    written(path, whole)
    ingest(ms, path)
    assert rows(ms) == [(i, message(i)) for i in range(10)]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("id,msg", r"lacks 'part'.*missing_partition_keys='null'"),
        ("id,part", r"lacks 'msg'.*missing_columns='null'"),
        ("id,ID,msg,part", "'id' twice"),
        ("id;msg;part", "names no column"),
        ('"id,msg,part', "a quote that is not closed"),
        ('"id"x,msg,part', "text after its closing quote"),
    ],
)
def test_a_header_that_does_not_suit_the_table_names_the_file(
    ms: MetastoreClient, tmp_path: Path, header: str, why: str
) -> None:
    path = written(tmp_path / "a.csv", header + "\n1,a,b\n")
    with pytest.raises((SerializationError, StreamingIOFailure), match=rf"a\.csv'.*{why}"):
        ingest(ms, path)
    assert ids(ms, TABLE) == []


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_file_whose_lines_end_with_carriage_returns_alone_is_not_taken_for_a_header(
    name: str, ms: MetastoreClient, tmp_path: Path
) -> None:
    """As spreadsheets on old Macs write it: it is one line, and a header without records is no error."""
    text = b"id,msg,part\r1,a,x\r2,b,y\r"
    path = written(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    for header_lines in (0, 1):
        if header_lines:
            path = written(tmp_path / "b.csv", b"# exported\n" + text)
        with pytest.raises(SerializationError, match=r"\.csv.*carriage returns alone"):
            ingest(ms, path, header_lines=header_lines)
    quoted = written(tmp_path / "c.csv", b'id,msg,"more\rwords",part\r\n1,a,,x\r\n')
    ingest(ms, quoted)
    assert rows(ms) == [(1, "a")]


def test_another_file_of_the_same_name_is_refused(ms: MetastoreClient, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", csv_of(range(5)))
    ingest(ms, path)
    written(path, csv_of(range(5), names=("part", "msg", "id")))
    with pytest.raises(SinkConflict, match="replaced or edited"):
        ingest(ms, path)


def test_files_without_a_header_have_the_order_of_the_columns(ms: MetastoreClient, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "\ufeffp1;'a;''b''\n';7\n")
    writer = CsvWriter(header=False, columns=["part", "msg", "id"], field_delimiter=";", quote="'")
    ingest(ms, path, record_writer=writer)
    assert rows(ms) == [(7, "a;'b'\n")]


@pytest.mark.parametrize("rows_per_transaction", [1, 3, 1000])
def test_blank_lines_are_left_out_and_files_are_still_finished(
    ms: MetastoreClient, tmp_path: Path, rows_per_transaction: int
) -> None:
    path = written(tmp_path / "a.csv", "id,msg,part\n1,a,p\n\n\r\n2,b,p\n\n\n\n\n")
    writer = CsvWriter(blank_lines="skip")
    first = ingest_files(ms, TABLE, path, record_writer=writer, rows_per_transaction=rows_per_transaction)
    assert (first.stats.records_skipped, rows(ms)) == (0, [(1, "a"), (2, "b")])
    path.write_bytes(path.read_bytes() + b"3,c,p\n\n")
    ingest_files(ms, TABLE, path, record_writer=CsvWriter(blank_lines="skip"))
    again = ingest_files(ms, TABLE, path, record_writer=CsvWriter(blank_lines="skip"))
    assert (again.stats.transactions_committed, rows(ms)) == (0, [(1, "a"), (2, "b"), (3, "c")])
