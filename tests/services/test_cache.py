"""The cache under many hands: one maker, and never half a folder."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from tests.services.cache import cache_root, once


def slow(folder: Path) -> None:
    (folder / "first").write_text("1")
    time.sleep(0.2)
    (folder / "second").write_text("2")
    with (folder.parents[1] / "made").open("a") as made:
        made.write("x")


def ask(target: Path) -> list[str]:
    return sorted(path.name for path in once(target, slow).iterdir())


def test_concurrent_processes_share_what_one_of_them_builds(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        seen = pool.map(ask, [tmp_path / "part"] * 4)

    assert seen == [["first", "second"]] * 4
    assert (tmp_path / "made").read_text() == "x"


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise ValueError("no network")

    with pytest.raises(ValueError, match="no network"):
        once(tmp_path / "part", fail)

    assert [path.name for path in tmp_path.iterdir()] == ["part.lock"]


def test_the_cache_lies_in_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "hive-ingest"

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "home" / ".cache" / "hive-ingest"
