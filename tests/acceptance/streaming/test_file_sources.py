"""What a file is, a last line without its newline, repaired files, and positions that are set."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, SinkConflict, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import CsvWriter, StrictJsonWriter
from hive_ingest.streaming import IngestResult, follow_files, ingest_files, seek_file
from hive_ingest.streaming.files.sources import KEY_BYTES
from tests.acceptance.streaming.log_lines import line, write
from tests.support.rows import ids
from tests.support.tables import create_table

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore, "t", {"id": "int", "msg": "string"})
    return metastore


def ingest(client: MetastoreClient, *paths: Path, **options: Any) -> IngestResult:
    defaults: dict[str, Any] = {"record_writer": StrictJsonWriter(), "rows_per_transaction": 10}
    return ingest_files(client, "web.t", paths, **(defaults | options))


# -- what a file is ----------------------------------------------------------------------------------


def test_equal_names_in_two_folders_are_two_files(ms: MetastoreClient, tmp_path: Path) -> None:
    paths = [write(tmp_path / "x/a.json", range(5)), write(tmp_path / "y/a.json", range(5, 9))]
    assert set(ingest(ms, *paths).positions) == {str(path) for path in paths}
    assert ingest(ms, *paths).stats.transactions_committed == 0
    assert ids(ms) == list(range(9))


def test_a_path_is_the_same_however_it_is_written(
    ms: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "x/a.json", range(5))
    monkeypatch.chdir(tmp_path / "x")
    ingest(ms, Path("a.json"))
    ingest(ms, Path("../x/a.json"))
    ingest(ms, tmp_path / "x/a.json")
    assert ids(ms) == list(range(5))


def test_a_file_that_was_ingested_under_its_name_is_not_ingested_again_under_its_path(
    ms: MetastoreClient, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.json", range(5))
    ingest(ms, path, source_key="name")
    with pytest.raises(SinkConflict, match="use source_key='name'"):
        ingest(ms, path)
    ingest(ms, write(tmp_path / "b.json", range(5, 9)))
    ingest(ms, path, source_key="name")
    assert ids(ms) == list(range(9))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_renamed_log_is_not_read_twice(ms: MetastoreClient, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"app.log{suffix}"
    store(path, range(30))
    ingest(ms, path, source_key="content")
    path.rename(tmp_path / f"app.log.1{suffix}")
    store(tmp_path / f"app.log.1{suffix}", range(35))
    store(path, range(100, 130))
    ingest(ms, tmp_path / f"app.log.1{suffix}", path, source_key="content")
    assert ids(ms) == [*range(35), *range(100, 130)]


def store(path: Path, ids: Iterable[int]) -> None:
    text = "".join(map(line, ids)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def test_a_file_too_short_to_be_recognised_is_left_for_later(
    ms: MetastoreClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, other = write(tmp_path / "a.json", range(3)), write(tmp_path / "b.json", range(100, 130))
    assert path.stat().st_size < KEY_BYTES
    result = ingest(ms, path, other, source_key="content")
    assert result.too_short == (str(path),)
    assert "too few to recognise it" in caplog.text
    assert ids(ms) == list(range(100, 130))
    ingest(ms, write(path, range(30)), other, source_key="content")
    assert ids(ms) == [*range(30), *range(100, 130)]


def test_of_a_log_and_its_copy_the_longer_one_is_read(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", range(30))
    shutil.copy(path, tmp_path / "a.log.1")
    write(path, range(33))
    ingest(ms, tmp_path / "a.log.1", path, source_key="content")
    assert ids(ms) == list(range(33))
    with pytest.raises(ConfigurationError, match="begin with the same bytes and differ later"):
        ingest(ms, path, write(tmp_path / "b.log", [*range(25), 99]), source_key="content")


@pytest.mark.parametrize("names", [("a.log.1", "a.log.1.gz"), ("a.log.1.gz", "a.log.2.gz")])
def test_of_a_log_and_its_compressed_copy_the_one_with_more_text_is_read(
    ms: MetastoreClient, tmp_path: Path, names: tuple[str, str]
) -> None:
    """The compressed copy is smaller on the disk, whichever of the two is whole."""
    first, second = (tmp_path / name for name in names)
    for place, (one, other) in enumerate([(30, 90), (150, 120)]):
        store(first, range(one))
        store(second, range(other))
        ingest(ms, first, second, source_key="content")
        assert ids(ms) == list(range((90, 150)[place]))


def test_a_log_is_read_while_its_compressed_copy_is_being_written(ms: MetastoreClient, tmp_path: Path) -> None:
    rows = 20_000  # more text than is uncompressed at once
    path, packed = write(tmp_path / "a.log", range(rows)), tmp_path / "a.log.gz"
    whole = gzip.compress(path.read_bytes())
    packed.write_bytes(whole[:-4])
    ingest(ms, path, packed, source_key="content", rows_per_transaction=rows)
    assert ids(ms) == list(range(rows))
    packed.write_bytes(whole)
    assert ingest(ms, path, packed, source_key="content").stats.transactions_committed == 0


def test_a_compressed_file_that_differs_from_a_log_is_not_taken_for_its_copy(
    ms: MetastoreClient, tmp_path: Path
) -> None:
    path, packed = write(tmp_path / "a.log", range(60)), tmp_path / "b.log.gz"
    store(packed, [*range(25), *range(100, 140)])
    with pytest.raises(ConfigurationError, match="begin with the same bytes and differ later"):
        ingest(ms, path, packed, source_key="content")


def test_a_name_that_is_not_utf8_is_refused_by_name(ms: MetastoreClient, tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff.json")
    path = write(tmp_path / name, range(5))
    for paths in ([path], [tmp_path], [tmp_path / "*.json"]):
        with pytest.raises(StreamingIOFailure, match=r"a\\udcff.json': the name of a file must be UTF-8"):
            ingest(ms, *paths)
    with pytest.raises(StreamingIOFailure, match="must be UTF-8"):
        next(follow_files(ms, "web.t", tmp_path, record_writer=StrictJsonWriter(), poll_seconds=0.01))
    ingest(ms, path.rename(tmp_path / "ä.json"))
    assert ids(ms) == list(range(5))


@pytest.mark.parametrize("options", [{"source_key": "inode"}, {"unfinished_line": "drop"}])
def test_unknown_choices_are_refused(ms: MetastoreClient, tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"is not valid: use '(path|commit)' or"):
        ingest(ms, write(tmp_path / "a.json", range(3)), **options)


# -- the last line -----------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_last_line_without_its_newline_can_wait(ms: MetastoreClient, tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("a.json.gz" if packed else "a.json")

    def put(text: str) -> None:
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())

    put("".join(map(line, range(13))) + line(13)[:20])
    for _ in range(2):
        ingest(ms, path, unfinished_line="wait")
        assert ids(ms) == list(range(13))
    put("".join(map(line, range(15))))
    ingest(ms, path, unfinished_line="wait")
    assert ids(ms) == list(range(15))
    put("".join(map(line, range(15))) + line(15).removesuffix("\n"))
    ingest(ms, path, unfinished_line="wait")
    assert ids(ms) == list(range(15))
    ingest(ms, path)
    assert ids(ms) == list(range(16))


def test_a_file_of_one_unfinished_line_is_waited_for(ms: MetastoreClient, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(line(0).removesuffix("\n"))
    assert ingest(ms, path, unfinished_line="wait").stats.transactions_committed == 0
    path.write_text(line(0))
    ingest(ms, path, unfinished_line="wait")
    assert ids(ms) == [0]


def test_a_record_of_csv_waits_for_its_end_too(ms: MetastoreClient, tmp_path: Path) -> None:
    path, text = tmp_path / "a.csv", 'id,msg\n1,"a\nb"\n2,"c\nd"'
    for end in ("id,ms", 'id,msg\n1,"a\n', text):
        path.write_text(end)
        ingest(ms, path, record_writer=CsvWriter(), unfinished_line="wait")
    assert ids(ms) == [1]
    path.write_text(text + "\n")
    ingest(ms, path, record_writer=CsvWriter(), unfinished_line="wait")
    assert ids(ms) == [1, 2]


# -- repairing ---------------------------------------------------------------------------------------


def test_a_bad_record_can_be_corrected_in_its_file(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(25))
    text = path.read_text()
    path.write_text(text.replace(line(13), '{"id": "thirteen", "msg": "a longer line than before"}\n'))
    with pytest.raises(SerializationError, match="line 14"):
        ingest(ms, path)
    assert ids(ms) == list(range(10))
    path.write_text(text)
    ingest(ms, path)
    assert ids(ms) == list(range(25))


def test_a_file_whose_committed_part_was_corrected_continues_after_a_seek(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(20))
    ingest(ms, path)
    path.write_text(path.read_text().replace("row 3", "corrected") + line(20))
    with pytest.raises(SinkConflict):
        ingest(ms, path)
    found = seek_file(ms, "web.t", str(path), to_record=20, record_writer=StrictJsonWriter())
    assert (found.before and found.before.records, found.after.records) == (20, 20)
    ingest(ms, path)
    assert ids(ms) == list(range(21))


def test_a_dry_run_of_a_seek_says_what_it_would_change_and_changes_nothing(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(20))
    options: dict[str, Any] = {"to_record": 7, "record_writer": StrictJsonWriter(), "dry_run": True}
    found = seek_file(ms, "web.t", str(path), **options)
    assert (found.before, found.after.records) == (None, 7)
    assert ms.get_tables("web") == ["t"]
    ingest(ms, path)
    found = seek_file(ms, "web.t", str(path), **options)
    assert (found.before and found.before.records, found.after.records) == (20, 7)
    ingest(ms, path)
    assert ids(ms) == list(range(20))


@pytest.mark.parametrize(("target", "expected"), [(0, 30), ("start", 30), (5, 25), ("end", 0), (30, 0)])
def test_a_position_can_be_set(ms: MetastoreClient, tmp_path: Path, target: Any, expected: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text("# made today\nid,msg\n" + "".join(f'{i},"a\n{i}"\n' for i in range(30)))
    options: dict[str, Any] = {"record_writer": CsvWriter(), "header_lines": 1}
    seek_file(ms, "web.t", str(path), to_record=target, **options)
    ingest(ms, path, **options)
    assert ids(ms) == list(range(30 - expected, 30))


def test_a_position_that_the_file_does_not_have_is_refused(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(3))
    for target, why in ((4, "has 3 records"), (-1, "give a number"), ("middle", "give a number")):
        with pytest.raises(ConfigurationError, match=why):
            seek_file(ms, "web.t", str(path), to_record=target, record_writer=StrictJsonWriter())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="too short"):
        seek_file(ms, "web.t", str(path), to_record="end", record_writer=StrictJsonWriter(), source_key="content")
    write(tmp_path / "b.json", range(3))
    with pytest.raises(ConfigurationError, match="stands for several files"):
        seek_file(ms, "web.t", str(tmp_path), to_record="end", record_writer=StrictJsonWriter())


def test_the_end_of_a_file_is_before_a_line_that_is_being_written(ms: MetastoreClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", range(3))
    path.write_text(path.read_text() + line(3)[:10])
    seek_file(ms, "web.t", str(path), to_record="end", record_writer=StrictJsonWriter())
    write(path, range(5))
    ingest(ms, path)
    assert ids(ms) == [3, 4]
