"""A new, empty folder on each kind of file system."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hive_ingest.storage import Location
from tests.services.hdfs import Hdfs

_KINDS = ("local", "hdfs")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Started when the first test requests it. Each test has a folder of its own."""
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture
def hdfs_root(hdfs: Hdfs) -> Location:
    """A new folder on HDFS."""
    root = Location.of(f"{hdfs.uri}/tests/{next(_numbers)}")
    root.make_folder()
    return root


@pytest.fixture(params=_KINDS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A new folder on each kind."""
    made: dict[str, Callable[[], Location]] = {
        "local": lambda: Location.of(str(tmp_path)),
        "hdfs": lambda: request.getfixturevalue("hdfs_root"),
    }
    return made[request.param]()
