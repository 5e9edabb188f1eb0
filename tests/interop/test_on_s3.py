"""A warehouse on S3, by s3a in Hive: it reads, changes and compacts what was streamed there, and we read its rows.

The stage `warehouses` runs it: it takes another metastore for each version.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.interop import remote_warehouse
from tests.interop.hive import RealHive
from tests.services.fetch import fetch
from tests.services.metastore import RealMetastore
from tests.services.postgres import PostgresServer
from tests.services.s3 import S3Service, running_s3

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Service]:
    with running_s3(tmp_path_factory.mktemp("s3")) as service, pytest.MonkeyPatch.context() as patch:
        for name, value in service.environment.items():
            patch.setenv(name, value)
        yield service


@pytest.fixture(scope="module", params=["hive313", "hive401"])
def hive(
    request: pytest.FixtureRequest,
    s3: S3Service,
    listening_postgres: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealHive]:
    """Hive 3.1.3, then 4.0.1, with s3a and the `core-site.xml` that leads to the service."""
    version = {"hive313": "3.1.3", "hive401": "4.0.1"}[request.param]
    classes = [s3.folder, *sorted(fetch(f"s3a-hive-{version}").glob("*.jar"))]
    with (
        listening_postgres.database_name() as database,
        RealMetastore(
            version, tmp_path_factory.mktemp("metastore"), listening_postgres, database, classes=classes
        ) as metastore,
        RealHive(metastore, tmp_path_factory.mktemp("hive"), classes=classes) as hive,
    ):
        yield hive


@pytest.fixture
def client(hive: RealHive) -> Iterator[MetastoreClient]:
    with hi.connect_metastore(hive.metastore.uri) as client:
        yield client


@pytest.fixture
def database(client: MetastoreClient, s3: S3Service) -> str:
    """A new database, whose tables lie on S3."""
    name = f"on_s3_{next(_numbers)}"
    made = client.create_database(name, location=f"s3a://{s3.new_bucket()}/warehouse/{name}.db")
    assert made.location.startswith("s3a://")
    return name


def test_hive_reads_changes_and_compacts_what_was_streamed(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    remote_warehouse.hive_changes_and_compacts(hive, client, database)


def test_what_hive_writes_there_is_read_and_added_to(hive: RealHive, client: MetastoreClient, database: str) -> None:
    remote_warehouse.we_add_to_hives(hive, client, database)


@pytest.mark.parametrize("hive", ["hive401"], indirect=True)
def test_our_worker_compacts_there_for_hive(hive: RealHive, client: MetastoreClient, database: str) -> None:
    remote_warehouse.we_compact_for_hive(hive, client, database)
