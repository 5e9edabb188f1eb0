"""Files stream into a table exactly once, whatever happens in between."""

from __future__ import annotations

import bz2
import gzip
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.connection import CommitInfo
from hive_ingest.errors import ConfigurationError, NoSuchObject, SerializationError, SinkConflict, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.reader import read_table
from hive_ingest.record_writer import StrictDelimitedInputWriter, StrictJsonWriter, StrictRegexWriter
from hive_ingest.streaming import IngestProgress, IngestResult, ingest_files
from hive_ingest.streaming.files import sources as file_sources
from tests.support.rows import ids

TABLE = "web.events"


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={"id": "int", "msg": "string"}, partition_keys={"part": "string"})
    return metastore


def line(i: int) -> str:
    return json.dumps({"id": i, "msg": f"row {i}", "part": f"p{i % 3}"}) + "\n"


def write(path: Path, ids: Iterable[int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(line, ids)))
    return path


def ingest(client: MetastoreClient, *paths: Path, table: str = TABLE, **options: Any) -> IngestResult:
    defaults: dict[str, Any] = {"sink": "events", "record_writer": StrictJsonWriter(), "rows_per_transaction": 10}
    defaults["source_key"] = "name"
    return ingest_files(client, table, paths, **(defaults | options))


# -- what lands --------------------------------------------------------------------------------------


def test_every_line_of_every_file_is_one_row(ms: MetastoreClient, tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.json", range(25)), write(tmp_path / "b.json", range(25, 40))]
    result = ingest(ms, *paths)
    assert ids(ms, TABLE) == list(range(40))
    assert result.stats.rows_committed == 40
    assert {name: position.records for name, position in result.positions.items()} == {"a.json": 25, "b.json": 15}


def test_a_transaction_takes_lines_of_several_small_files(ms: MetastoreClient, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i:02}.json", [i]) for i in range(25)]
    assert ingest(ms, *paths).stats.transactions_committed == 3
    assert ids(ms, TABLE) == list(range(25))


def test_a_last_line_without_a_newline_counts(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text((line(0) + line(1)).removesuffix("\n"))
    ingest(ms, path)
    assert ids(ms, TABLE) == [0, 1]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("writer", "text"),
    [
        (StrictJsonWriter, '{"msg": "a", "id": 1, "part": "p"}\n{"msg": "b", "id": 2, "part": "p"}\n'),
        (lambda: StrictDelimitedInputWriter(field_delimiter=",", columns=["msg", "id", "part"]), "a,1,p\nb,2,p\n"),
        (lambda: StrictRegexWriter(regex=r"(?P<msg>\S+) (?P<id>\d+) (?P<part>p)"), "a 1 p\nb 2 p\n"),
    ],
)
def test_a_byte_order_mark_belongs_to_no_record(
    ms: MetastoreClient, tmp_path: Path, writer: Any, text: str, packed: bool
) -> None:
    content = b"\xef\xbb\xbf" + text.encode()
    path = tmp_path / ("a.txt.gz" if packed else "a.txt")
    path.write_bytes(gzip.compress(content) if packed else content)

    def interrupt(info: CommitInfo) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(ms, path, record_writer=writer(), rows_per_transaction=1, on_commit=interrupt)
    for expected in (1, 0):
        assert ingest(ms, path, record_writer=writer()).stats.rows_committed == expected
    assert read_table(ms, TABLE).sort_by("id")["msg"].to_pylist() == ["a", "b"]


def test_an_empty_file_is_finished_at_once(ms: MetastoreClient, tmp_path: Path) -> None:
    result = ingest(ms, write(tmp_path / "a.json", []))
    assert (result.stats.transactions_committed, result.finished_before) == (0, ("a.json",))


def test_header_lines_are_not_records(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("id|msg|part\n" + "".join(f"{i}|row {i}|p\n" for i in range(25)))
    options: dict[str, Any] = {"record_writer": StrictDelimitedInputWriter(field_delimiter="|"), "header_lines": 1}
    assert ingest(ms, path, **options).positions["a.txt"].records == 25
    assert ids(ms, TABLE) == list(range(25))
    (tmp_path / "b.txt").write_text("id|msg|part\n")
    ingest(ms, tmp_path / "b.txt", **options)
    assert ingest(ms, tmp_path / "b.txt", **options).finished_before == ("b.txt",)
    assert ids(ms, TABLE) == list(range(25))


def test_files_are_ingested_into_an_unpartitioned_table_too(ms: MetastoreClient, tmp_path: Path) -> None:
    ms.create_table("web.plain", columns={"id": "int"})
    ingest(ms, write(tmp_path / "a.json", range(25)), table="web.plain")
    assert ids(ms, "web.plain") == list(range(25))


def test_progress_is_reported_at_the_start_and_after_each_commit(ms: MetastoreClient, tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.json", range(25)), write(tmp_path / "b.json", range(25, 30))]
    total = sum(path.stat().st_size for path in paths)
    reports: list[IngestProgress] = []
    ingest(ms, *paths, on_progress=reports.append)
    assert [(p.records_committed, p.transactions_committed, p.file) for p in reports] == [
        (0, 0, "a.json"),
        (10, 1, "a.json"),
        (20, 2, "a.json"),
        (30, 3, None),
    ]
    assert [p.bytes_committed for p in reports][-1] == total
    assert {p.bytes_total for p in reports} == {total}


# -- compressed files, folders and patterns --------------------------------------------------------------


def test_a_compressed_file_continues_after_an_interruption_and_when_it_has_grown(
    ms: MetastoreClient, tmp_path: Path
) -> None:
    path = tmp_path / "a.json.gz"
    text = "".join(map(line, range(25))).encode()
    path.write_bytes(gzip.compress(text[:700]) + gzip.compress(text[700:]))

    def interrupt(info: CommitInfo) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(ms, path, on_commit=interrupt)
    assert ids(ms, TABLE) == list(range(10))
    reports: list[IngestProgress] = []
    assert ingest(ms, path, on_progress=reports.append).positions["a.json.gz"].offset == len(text)
    assert reports[-1].bytes_committed == reports[-1].bytes_total == path.stat().st_size
    assert ingest(ms, path).finished_before == ("a.json.gz",)
    with path.open("ab") as file:
        file.write(gzip.compress(line(25).encode()))
    ingest(ms, path)
    assert ids(ms, TABLE) == list(range(26))


def test_a_truncated_compressed_file_fails_and_continues_when_it_is_whole(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.json.bz2"
    whole = bz2.compress("".join(map(line, range(25))).encode())
    path.write_bytes(whole[:-10])
    with pytest.raises(StreamingIOFailure, match=r"a\.json\.bz2"):
        ingest(ms, path)
    path.write_bytes(whole)
    ingest(ms, path)
    assert ids(ms, TABLE) == list(range(25))


def test_a_bad_record_of_a_compressed_file_has_its_line_and_its_byte_in_the_text(
    ms: MetastoreClient, tmp_path: Path
) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress((line(0) + line(1) + "{}x\n").encode()))
    with pytest.raises(SerializationError, match=rf"line 3 \(at byte {len(line(0) + line(1))}\)"):
        ingest(ms, path)


def test_folders_and_patterns_stand_for_their_files(ms: MetastoreClient, tmp_path: Path) -> None:
    for i, name in enumerate(["b/2.json", "b/1.json", "b/_SUCCESS", "b/.1.json.crc", "b/in/3.json", "a/x.json"]):
        write(tmp_path / name, [i])
    (tmp_path / "a/y.json.gz").write_bytes(gzip.compress(line(6).encode()))
    result = ingest(ms, tmp_path / "b", tmp_path / "a" / "*.json*")
    assert list(result.positions) == ["1.json", "2.json", "x.json", "y.json.gz"]
    assert ids(ms, TABLE) == [0, 1, 5, 6]
    write(tmp_path / "b/[1].json", [7])
    assert list(ingest(ms, tmp_path / "b/[1].json").positions) == ["[1].json"]


def test_standard_input_is_a_source_that_may_come_again(
    ms: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for last in (25, 25, 30):
        with write(tmp_path / "piped", range(last)).open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert ingest(ms, Path("-"), rows_per_transaction=7).positions["stdin"].records == last
        assert ids(ms, TABLE) == list(range(last))
    with write(tmp_path / "piped", range(30, 60)).open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(SinkConflict, match="'stdin' are committed already"):
            ingest(ms, Path("-"))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("*.csv", "none of that name"),
        ("nowhere/*", "no such folder"),
        ("*/a.json", "not of folders"),
        ("in", "no file"),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error(ms: MetastoreClient, tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ConfigurationError, match=why):
        ingest(ms, tmp_path / path)


# -- exactly once ------------------------------------------------------------------------------------


def test_a_second_run_adds_nothing(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(25))
    ingest(ms, path)
    again = ingest(ms, path)
    assert (again.stats.transactions_committed, again.finished_before) == (0, ("a.json",))
    assert ids(ms, TABLE) == list(range(25))


def test_a_moved_file_is_the_same_and_another_name_is_another_file(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(25))
    ingest(ms, path)
    (tmp_path / "done").mkdir()
    moved = path.rename(tmp_path / "done" / "a.json")
    ingest(ms, moved)
    assert ids(ms, TABLE) == list(range(25))
    ingest(ms, moved.rename(tmp_path / "b.json"))
    assert ids(ms, TABLE) == sorted([*range(25), *range(25)])


def test_a_file_that_grew_is_continued(ms: MetastoreClient, tmp_path: Path) -> None:
    ingest(ms, write(tmp_path / "a.json", range(25)))
    ingest(ms, write(tmp_path / "a.json", range(42)))
    assert ids(ms, TABLE) == list(range(42))


@pytest.mark.parametrize("now", [range(20), range(100, 125), []], ids=["cut off", "replaced", "emptied"])
def test_a_file_that_is_not_what_was_committed_is_refused(
    now: Iterable[int], ms: MetastoreClient, tmp_path: Path
) -> None:
    ingest(ms, write(tmp_path / "a.json", range(25)))
    with pytest.raises(SinkConflict, match=r"a\.json.*use another sink name"):
        ingest(ms, write(tmp_path / "a.json", now), write(tmp_path / "b.json", range(25, 30)))
    assert ids(ms, TABLE) == list(range(25))


def test_another_sink_loads_a_file_again(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(5))
    ingest(ms, path)
    ingest(ms, path, sink="again")
    assert ids(ms, TABLE) == sorted([*range(5), *range(5)])


def test_one_sink_cannot_feed_two_tables(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(5))
    ingest(ms, path)
    ms.create_table("web.other", columns={"id": "int"})
    with pytest.raises(SinkConflict, match="another table"):
        ingest(ms, path, table="web.other")
    assert ids(ms, "web.other") == []


def test_new_files_join_a_sink_that_has_others(ms: MetastoreClient, tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", range(25))
    ingest(ms, first)
    result = ingest(ms, first, write(tmp_path / "b.json", range(25, 60)))
    assert result.finished_before == ("a.json",)
    assert ids(ms, TABLE) == list(range(60))


def test_two_runs_at_the_same_time_share_the_work(ms: MetastoreClient, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.json", range(100 * i, 100 * i + 100)) for i in range(2)]
    barrier = threading.Barrier(2)
    rows: list[int] = []

    def run() -> None:
        with ms.clone() as client:
            barrier.wait()
            rows.append(ingest(client, *paths, rows_per_transaction=20).stats.rows_committed)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(rows) == 200
    assert ids(ms, TABLE) == list(range(200))


# -- bad records -------------------------------------------------------------------------------------


def test_a_bad_record_is_named_by_file_and_line_and_can_be_corrected(ms: MetastoreClient, tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.json", range(23)), write(tmp_path / "b.json", range(23, 40))
    bad = second.read_text().replace(line(25), '{"id": "25"}\n')
    second.write_text(bad)
    with pytest.raises(SerializationError, match=r"b\.json', line 3 \(at byte \d+\): column 'id'") as caught:
        ingest(ms, first, second)
    assert caught.value.byte_offset == bad.index('{"id": "25"}')
    assert ids(ms, TABLE) == list(range(20))
    ingest(ms, first, write(second, range(23, 40)))
    assert ids(ms, TABLE) == list(range(40))


def test_a_line_that_is_too_long_is_named_by_file_and_line(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(12))
    path.write_text(path.read_text() + line(12).replace("row", "x" * 1000) + line(13))
    with pytest.raises(
        SerializationError, match=r"a\.json', line 13 \(at byte \d+\): it is longer than max_record_bytes"
    ):
        ingest(ms, path, record_writer=StrictJsonWriter(max_record_bytes=500, on_error="skip"))
    assert ids(ms, TABLE) == list(range(10))
    path.write_text(path.read_text().removesuffix(line(13)).rstrip() + "x" * (2 << 20))
    with pytest.raises(StreamingIOFailure, match=r"a\.json': the line at byte \d+ has more than 500 bytes"):
        ingest(ms, path, record_writer=StrictJsonWriter(max_record_bytes=500))


def test_header_lines_count_where_a_bad_line_is_named(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("id,msg,part\n\n" + "".join(f"{i},m,p\n" for i in range(12)) + "x,m,p\n")
    with pytest.raises(SerializationError, match=r"a\.txt', line 15 \(at byte"):
        ingest(ms, path, record_writer=StrictDelimitedInputWriter(), header_lines=2)
    assert ids(ms, TABLE) == list(range(10))


def test_skipped_records_are_counted_and_never_come_back(
    ms: MetastoreClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.json", range(25))
    path.write_text(path.read_text().replace(line(13), "no json\n"))
    result = ingest(ms, path, record_writer=StrictJsonWriter(on_error="skip"))
    assert (result.stats.records_skipped, result.stats.rows_committed) == (1, 24)
    assert result.positions["a.json"].records == 25
    assert "1 bad record skipped in the transaction from line 11" in caplog.text
    assert ingest(ms, path).stats.transactions_committed == 0


# -- invalid arguments ------------------------------------------------------------------------------


def test_two_files_of_one_name_are_refused(ms: MetastoreClient, tmp_path: Path) -> None:
    paths = [write(tmp_path / folder / "a.json", range(5)) for folder in ("x", "y")]
    with pytest.raises(ConfigurationError, match="same name"):
        ingest(ms, *paths)


def test_no_file_and_too_many_are_refused(ms: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="0 files"):
        ingest(ms)
    monkeypatch.setattr(file_sources, "MAX_FILES", 2)
    with pytest.raises(ConfigurationError, match="3 files: give 1 to 2"):
        ingest(ms, *(write(tmp_path / f"{i}.json", [i]) for i in range(3)))


@pytest.mark.parametrize("options", [{"rows_per_transaction": 0}, {"header_lines": -1}], ids=str)
def test_impossible_numbers_are_refused(options: dict[str, Any], ms: MetastoreClient, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give 1 or more, and 0 or more"):
        ingest(ms, write(tmp_path / "a.json", []), **options)


def test_a_missing_file_stops_the_run_before_anything_is_created(ms: MetastoreClient, tmp_path: Path) -> None:
    with pytest.raises(StreamingIOFailure, match=r"nowhere\.json"):
        ingest(ms, write(tmp_path / "a.json", range(5)), tmp_path / "nowhere.json")
    with pytest.raises(NoSuchObject):
        ms.get_table("web.events__progress")


def test_a_file_truncated_during_the_run_stops_it(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(25))
    content = path.read_text()

    def cut_off(progress: IngestProgress) -> None:
        if progress.transactions_committed == 1:
            path.write_text(content[: progress.bytes_committed])

    with pytest.raises(StreamingIOFailure, match="truncated while it was read"):
        ingest(ms, path, on_progress=cut_off)
    assert ids(ms, TABLE) == list(range(10))
    path.write_text(content)
    ingest(ms, path)
    assert ids(ms, TABLE) == list(range(25))


@pytest.mark.parametrize("options", [{"line_delimiter": "|"}, {"line_delimiter_pattern": ";|\n"}])
def test_a_writer_with_another_delimiter_is_refused_for_files(
    ms: MetastoreClient, tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}|{"id": 2}\n')
    with pytest.raises(ConfigurationError, match="divided into records at newlines"):
        ingest_files(ms, TABLE, path, record_writer=StrictJsonWriter(**options))
