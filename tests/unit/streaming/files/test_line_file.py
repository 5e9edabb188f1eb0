"""Files of lines: read from any line in bounded memory, and recognised by their committed part."""

from __future__ import annotations

import bz2
import gzip
import os
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.errors import SinkConflict, StreamingIOFailure
from hive_ingest.streaming.files import line_file
from hive_ingest.streaming.files.line_file import FilePosition, LineFile

CONTENTS = st.lists(st.sampled_from([b"", b"a", b"\r", b"bcd", b"x" * 40])).map(b"\n".join)


SUFFIXES = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst"}
CODEC_NAMES = sorted(SUFFIXES)
CODECS = st.sampled_from(CODEC_NAMES)


def compressed(content: bytes, codec: str) -> bytes:
    """One member."""
    if codec == "zstd":
        return bytes(pa.Codec("zstd").compress(content, asbytes=True))
    return gzip.compress(content) if codec == "gzip" else bz2.compress(content)


def file_of(tmp_path: Path, content: bytes, name: str = "records.json") -> LineFile:
    path = tmp_path / name
    path.write_bytes(content)
    return LineFile(str(path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all examples of a property."""
    return tmp_path_factory.mktemp("lines")


def split(content: bytes) -> list[bytes]:
    """The oracle: lines with their newlines, the last one perhaps without."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


@given(content=CONTENTS, most=st.integers(1, 6), block=st.integers(1, 50))
def test_reading_in_blocks_gives_every_line_once_and_in_order(
    content: bytes, most: int, block: int, folder: Path
) -> None:
    file = file_of(folder, content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_file, "_BLOCK_BYTES", block)
        portions: list[tuple[bytes, int]] = []
        offset = 0
        while offset < file.size_bytes:
            read = list(file.records(offset, most))
            portions.append((b"".join(lines.text for lines in read), sum(lines.count for lines in read)))
            offset += len(portions[-1][0])
    expected = split(content)
    assert b"".join(text for text, _ in portions) == content
    assert [count for _, count in portions] == [len(expected[at : at + most]) for at in range(0, len(expected), most)]
    assert [text for text, _ in portions] == [
        b"".join(expected[at : at + most]) for at in range(0, len(expected), most)
    ]


@given(content=CONTENTS, most=st.integers(1, 6), block=st.integers(1, 50), cut=st.integers(0, 200), codec=CODECS)
def test_a_compressed_file_gives_the_lines_and_positions_of_its_text(
    content: bytes, most: int, block: int, cut: int, codec: str, folder: Path
) -> None:
    """Of two members, read in portions by one object, and again by another one from each position."""
    plain = file_of(folder, content)
    stored = compressed(content[:cut], codec) + compressed(content[cut:], codec)
    name = f"records.json{SUFFIXES[codec]}"
    file = file_of(folder, stored, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_file, "_BLOCK_BYTES", block)
        offset = records = 0
        while not file.ends_at(offset):
            lines = list(file.records(offset, most))
            text = b"".join(each.text for each in lines)
            assert text == b"".join(each.text for each in LineFile(file.location).records(offset, most))
            offset += len(text)
            records += sum(each.count for each in lines)
            position = file.position(offset, records)
            assert position == plain.position(offset, records)
            LineFile(file.location).check(position)
            file.check(position)
    assert (offset, records) == (len(content), len(split(content)))
    assert file.stored_bytes(offset) == (file.size_bytes if content else 0)


@pytest.mark.parametrize("codec", [None, *CODEC_NAMES])
def test_a_pipe_is_read_once_and_again_from_a_position(codec: str | None, tmp_path: Path) -> None:
    content = b"".join(b"line %d\n" % number for number in range(50_000))
    stored = compressed(content, codec) if codec else content

    def piped() -> LineFile:
        path = tmp_path / "pipe"
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(stored,)).start()
        return LineFile(str(path))

    file = piped()
    offset = len(b"".join(lines.text for lines in file.records(0, 20_000)))
    position = file.position(offset, 20_000)
    again = piped()
    again.check(position)
    for each in (file, again):
        assert not each.ends_at(offset)
        assert b"".join(lines.text for lines in each.records(offset, 50_000)) == content[offset:]
        assert each.ends_at(len(content))
        with pytest.raises(StreamingIOFailure, match="cannot be read a second time"):
            list(each.records(0, 1))


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_compressed_file_that_was_damaged_is_an_error_that_names_it(codec: str, tmp_path: Path) -> None:
    stored = compressed(b"a line of some text\n" * 10_000, codec)
    name = f"records{SUFFIXES[codec]}"
    file = file_of(tmp_path, stored[: len(stored) * 2 // 3], name)
    with pytest.raises(StreamingIOFailure, match=name):
        list(file.records(0, 20_000))
    garbage = file_of(tmp_path, stored + b"x" * 100, name)
    with pytest.raises(StreamingIOFailure, match=name):
        list(garbage.records(0, 20_000))


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_another_compressed_file_of_the_same_name_is_refused(codec: str, tmp_path: Path) -> None:
    name = f"records{SUFFIXES[codec]}"
    position = file_of(tmp_path, compressed(b"one\ntwo\n", codec), name).position(8, 2)
    file_of(tmp_path, compressed(b"one\ntwo\nthree\n", codec), name).check(position)
    with pytest.raises(SinkConflict, match="replaced or edited"):
        file_of(tmp_path, compressed(b"one\nTwo\nthree\n", codec), name).check(position)
    with pytest.raises(SinkConflict, match="now it has fewer"):
        file_of(tmp_path, compressed(b"one\n", codec), name).check(position)


def test_a_file_that_is_not_compressed_as_its_name_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamingIOFailure, match="not compressed by gzip, as its name says, but plain"):
        file_of(tmp_path, b"one\n", "records.gz")
    with pytest.raises(StreamingIOFailure, match="not compressed by zstd, as its name says, but by gzip"):
        file_of(tmp_path, compressed(b"one\n", "gzip"), "records.zst")
    assert list(file_of(tmp_path, compressed(b"one\n", "gzip"), "records").records(0, 9)) == [
        line_file.Lines(b"one\n", 1)
    ]
    assert list(file_of(tmp_path, b"BZh9 is text\n", "records").records(0, 9)) == [
        line_file.Lines(b"BZh9 is text\n", 1)
    ]
    assert file_of(tmp_path, b"", "records.gz").ends_at(0)


def test_a_line_starts_where_the_lines_before_it_end(tmp_path: Path) -> None:
    file = file_of(tmp_path, b"one\ntwo\nthree")
    assert [file.beginning(number).offset for number in range(5)] == [0, 4, 8, 13, 13]


def test_a_line_longer_than_the_limit_is_refused_and_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_file, "_BLOCK_BYTES", 10)
    path = tmp_path / "records"
    path.write_bytes(b"one\ntwo\n" + b"x" * 1000)
    file = LineFile(str(path), max_line_bytes=100)
    with pytest.raises(StreamingIOFailure, match=r"the line at byte 8 has more than 100 bytes.*max_record_bytes"):
        list(file.records(0, 10))
    assert sum(lines.count for lines in file.records(0, 2)) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamingIOFailure, match="no such file") as caught:
        LineFile(str(tmp_path / "nowhere.json"))
    assert "nowhere.json" in str(caught.value)


def test_a_file_is_identified_by_its_name_wherever_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    folder.mkdir()
    assert file_of(folder, b"a\n").name == file_of(tmp_path, b"a\n").name == "records.json"


@pytest.mark.parametrize("grown", [b"", b"four\n", b"half a li"])
def test_a_file_that_grew_by_lines_is_still_the_same(grown: bytes, tmp_path: Path) -> None:
    position = file_of(tmp_path, b"one\ntwo\n").position(8, 2)
    file_of(tmp_path, b"one\ntwo\n" + grown).check(position)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (b"one\n", "truncated or replaced"),
        (b"", "truncated or replaced"),
        (b"ONE\ntwo\nthree\n", "replaced or edited"),
        (b"one\ntwO\n", "replaced or edited"),
    ],
)
def test_a_file_that_lost_or_changed_what_is_committed_is_refused(now: bytes, why: str, tmp_path: Path) -> None:
    position = file_of(tmp_path, b"one\ntwo\n").position(8, 2)
    with pytest.raises(SinkConflict, match=why) as caught:
        file_of(tmp_path, now).check(position)
    assert "8 bytes (2 records)" in str(caught.value)


def test_both_ends_of_the_committed_part_are_checked(tmp_path: Path) -> None:
    content = b"x" * 49_999 + b"\n"
    position = file_of(tmp_path, content).position(50_000, 1)
    for changed in (b"y" + content[1:], content[:-2] + b"y\n"):
        with pytest.raises(SinkConflict, match="replaced or edited"):
            file_of(tmp_path, changed).check(position)


def test_a_last_line_without_newline_must_not_be_continued_once_it_is_committed(tmp_path: Path) -> None:
    position = file_of(tmp_path, b"one\ntwo").position(7, 2)
    file_of(tmp_path, b"one\ntwo").check(position)
    with pytest.raises(SinkConflict, match="has been continued"):
        file_of(tmp_path, b"one\ntwo and more\n").check(position)


def test_a_file_without_committed_lines_may_be_any_file(tmp_path: Path) -> None:
    file_of(tmp_path, b"anything").check(FilePosition())


def test_a_position_survives_the_progress_table(tmp_path: Path) -> None:
    position = file_of(tmp_path, b"one\ntwo\n").position(4, 1)
    assert FilePosition.from_json("records.json", position.to_json()) == position


@pytest.mark.parametrize("foreign", [17, None, {"offset": 3}, {"offset": 1, "records": 1, "fingerprint": "", "x": 1}])
def test_the_position_of_another_pipeline_is_refused(foreign: object) -> None:
    with pytest.raises(SinkConflict, match="another sink name"):
        FilePosition.from_json("t-0", foreign)


def test_a_standard_input_that_is_closed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(StreamingIOFailure, match="the standard input is closed"):
        LineFile("-")
