"""Real Hive on its real metastore, one process each a version for the whole session; our client is on the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.interop.hive import RealHive
from tests.services.metastore import RealMetastore
from tests.spark.fixtures import install_spark, start_driver

__all__ = ["install_spark", "start_driver"]

_numbers = itertools.count(1)


Metastores = Callable[[str], RealMetastore]


@pytest.fixture(scope="session")
def hive313(real_metastores: Metastores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHive]:
    with RealHive(real_metastores("3.1.3"), tmp_path_factory.mktemp("hive-3.1.3")) as hive:
        yield hive


@pytest.fixture(scope="session")
def hive401(real_metastores: Metastores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHive]:
    with RealHive(real_metastores("4.0.1"), tmp_path_factory.mktemp("hive-4.0.1")) as hive:
        yield hive


@pytest.fixture(scope="module", params=["hive313", "hive401"])
def hive(request: pytest.FixtureRequest) -> RealHive:
    """Hive 3.1.3, then 4.0.1; here for a module, so that a table may be written once for each version."""
    version: RealHive = request.getfixturevalue(request.param)
    return version


@pytest.fixture(scope="module")
def client(hive: RealHive) -> Iterator[MetastoreClient]:
    """Ours, on that Hive's metastore."""
    with connect_metastore(hive.metastore.uri) as client:
        yield client


@pytest.fixture
def database(client: MetastoreClient) -> str:
    """A new database for one test: all of a session share the metastore."""
    name = f"judged_{next(_numbers)}"
    client.create_database(name)
    return name


@pytest.fixture(scope="module")
def module_database(client: MetastoreClient) -> str:
    """A new database for the tests of one module."""
    name = f"judged_{next(_numbers)}"
    client.create_database(name)
    return name
