"""A metastore and a table for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from tests.support.compactions import Compacted, connect_quietly


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def table(ms: EmbeddedMetastoreClient) -> Compacted:
    """Without partitions."""
    return Compacted(ms)


@pytest.fixture
def parts(ms: EmbeddedMetastoreClient) -> Compacted:
    """Partitioned by `part`."""
    return Compacted(ms, "p", partition_keys={"part": "string"})


@pytest.fixture
def based(table: Compacted) -> Compacted:
    """A base of write id 1, two deltas and a delete delta."""
    table.insert(1, 2, 3, overwrite=True)
    table.inserts(4, 5)
    table.delete(table.row_id(2))
    return table
