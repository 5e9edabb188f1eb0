from __future__ import annotations

from pathlib import Path

import pytest

from hive_ingest.errors import InvalidOperation, StreamingIOFailure
from hive_ingest.metastore_client.embedded.folders import (
    is_inside,
    make_folders,
    refuse_acid_files,
    rename_folder,
    require_free,
)
from hive_ingest.storage import Location


def uri(path: Path) -> str:
    return f"file:{path}"


def test_a_folder_is_created_with_its_parents(tmp_path: Path) -> None:
    make_folders([uri(tmp_path / "a" / "b")])
    make_folders([uri(tmp_path / "a" / "b")])
    assert (tmp_path / "a" / "b").is_dir()


def test_nothing_is_looked_up_in_a_store_that_is_only_read() -> None:
    make_folders(["gs://bucket/x"])
    refuse_acid_files("gs://bucket/x", "table web.t")
    require_free("gs://bucket/x", "table web.t")


def test_a_path_with_dots_cannot_leave_its_folder(tmp_path: Path) -> None:
    assert is_inside(uri(tmp_path / "a" / "b"), uri(tmp_path / "a"))
    assert not is_inside(uri(tmp_path / "a"), uri(tmp_path / "a"))
    assert not is_inside(uri(tmp_path / "ab"), uri(tmp_path / "a"))
    assert not is_inside(uri(tmp_path / "a" / ".." / "b"), uri(tmp_path / "a"))
    assert is_inside("s3a://bucket/t/p=1", "s3a://bucket/t")
    assert not is_inside("s3a://bucket/t/../u", "s3a://bucket/t")
    assert not is_inside("s3a://bucket/t2", "s3a://bucket/t")


def test_a_folder_is_renamed_whole(tmp_path: Path) -> None:
    (tmp_path / "t" / "p=1").mkdir(parents=True)
    rename_folder(Location.of(str(tmp_path / "t")), Location.of(str(tmp_path / "u")))
    assert (tmp_path / "u" / "p=1").is_dir()


def test_a_folder_is_not_renamed_onto_another(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "u" / "x").mkdir(parents=True)
    with pytest.raises(StreamingIOFailure, match="cannot rename"):
        rename_folder(Location.of(str(tmp_path / "t")), Location.of(str(tmp_path / "u")))
    assert (tmp_path / "t").is_dir()


def test_a_folder_is_free_while_it_is_missing_or_empty(tmp_path: Path) -> None:
    require_free(uri(tmp_path / "t"), "table web.t")
    (tmp_path / "t").mkdir()
    require_free(uri(tmp_path / "t"), "table web.t")
    (tmp_path / "t" / "x").touch()
    with pytest.raises(InvalidOperation, match="not empty"):
        require_free(uri(tmp_path / "t"), "table web.t")


def test_nothing_is_created_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StreamingIOFailure, match="mount its disk"):
        make_folders([uri(tmp_path / "t" / "p=1")], inside=uri(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []
