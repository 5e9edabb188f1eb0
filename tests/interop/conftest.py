"""Real Hive, one process a version for the whole session."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.interop.hive import RealHive
from tests.spark.fixtures import install_spark, start_driver

__all__ = ["install_spark", "start_driver"]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def hive313(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHive]:
    with RealHive("3.1.3", tmp_path_factory.mktemp("hive-3.1.3")) as hive:
        yield hive


@pytest.fixture(scope="session")
def hive401(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHive]:
    with RealHive("4.0.1", tmp_path_factory.mktemp("hive-4.0.1")) as hive:
        yield hive


@pytest.fixture(params=["hive313", "hive401"])
def hive(request: pytest.FixtureRequest) -> RealHive:
    """Hive 3.1.3, then 4.0.1."""
    version: RealHive = request.getfixturevalue(request.param)
    return version


@pytest.fixture
def database(hive: RealHive) -> str:
    """A new database of that Hive, for one test: all of a session share the metastore."""
    name = f"judged_{next(_numbers)}"
    hive.sql(f"create database {name}")
    return name
