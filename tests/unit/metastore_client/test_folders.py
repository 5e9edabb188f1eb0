from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.metastore_client.embedded.folders import is_inside, make_folders, move_folder, remove_folder


def uri(path: Path) -> str:
    return f"file:{path}"


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    make_folders([uri(tmp_path / "a" / "b")])
    make_folders([uri(tmp_path / "a" / "b")])
    assert (tmp_path / "a" / "b").is_dir()


def test_a_remote_folder_is_left_to_the_writer() -> None:
    make_folders(["s3a://bucket/x"])
    remove_folder("s3a://bucket/x", keep=[])
    move_folder("s3a://bucket/x", "s3a://bucket/y")


def test_inside_means_below_and_no_dots_get_out(tmp_path: Path) -> None:
    assert is_inside(uri(tmp_path / "a" / "b"), uri(tmp_path / "a"))
    assert not is_inside(uri(tmp_path / "a"), uri(tmp_path / "a"))
    assert not is_inside(uri(tmp_path / "ab"), uri(tmp_path / "a"))
    assert not is_inside(uri(tmp_path / "a" / ".." / "b"), uri(tmp_path / "a"))
    assert is_inside("s3a://bucket/t/p=1", "s3a://bucket/t")
    assert not is_inside("s3a://bucket/t/../u", "s3a://bucket/t")
    assert not is_inside("s3a://bucket/t2", "s3a://bucket/t")


def test_a_folder_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "t" / "p=1").mkdir(parents=True)
    remove_folder(uri(tmp_path / "t"), keep=[uri(tmp_path / "t2")])
    assert not (tmp_path / "t").exists()
    remove_folder(uri(tmp_path / "t"), keep=[])


@pytest.mark.parametrize("other", ["t", "t/inner"])
def test_a_folder_stays_when_it_holds_something_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    (tmp_path / "t" / "inner").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        remove_folder(uri(tmp_path / "t"), keep=[uri(tmp_path / other)])
    assert (tmp_path / "t" / "inner").is_dir()
    assert "is not removed" in caplog.text


def test_a_folder_moves_whole(tmp_path: Path) -> None:
    (tmp_path / "t" / "p=1").mkdir(parents=True)
    move_folder(uri(tmp_path / "t"), uri(tmp_path / "db2.db" / "u"))
    assert (tmp_path / "db2.db" / "u" / "p=1").is_dir()


def test_a_folder_does_not_move_onto_another(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "u" / "x").mkdir(parents=True)
    with pytest.raises(StreamingIOFailure, match="cannot be renamed"):
        move_folder(uri(tmp_path / "t"), uri(tmp_path / "u"))
    assert (tmp_path / "t").is_dir()
