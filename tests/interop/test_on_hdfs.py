"""A warehouse on HDFS: Hive reads, changes and compacts what was streamed there, and we read what it wrote there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.interop import remote_warehouse
from tests.interop.hive import RealHive
from tests.services.hdfs import Hdfs

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


def new_database(client: MetastoreClient, hdfs: Hdfs) -> str:
    """A new database, whose tables lie on HDFS."""
    name = f"on_hdfs_{next(_numbers)}"
    made = client.create_database(name, location=f"{hdfs.uri}/warehouse/{name}.db")
    assert made.location.startswith("hdfs://")
    return name


def test_hive_reads_changes_and_compacts_what_was_streamed(hive: RealHive, client: MetastoreClient, hdfs: Hdfs) -> None:
    remote_warehouse.hive_changes_and_compacts(hive, client, new_database(client, hdfs))


def test_what_hive_writes_there_is_read_and_added_to(hive: RealHive, client: MetastoreClient, hdfs: Hdfs) -> None:
    remote_warehouse.we_add_to_hives(hive, client, new_database(client, hdfs))


def test_our_worker_compacts_there_for_hive(hive401: RealHive, hdfs: Hdfs) -> None:
    with hi.connect_metastore(hive401.metastore.uri) as client:
        remote_warehouse.we_compact_for_hive(hive401, client, new_database(client, hdfs))
