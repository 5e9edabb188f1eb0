"""Sizes and row counts that no row is read for."""

from __future__ import annotations

from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, CorruptFile, NoSuchObject, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnState
from tests.support.compactions import MAJOR, Compacted, connect_quietly
from tests.support.tables import create_table

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="delete events are written and compacted here"),
    pytest.mark.one_embedded,
]


@pytest.fixture
def table(metastore_uri: str, tmp_path: Path):
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield Compacted(client, partition_keys={"part": "string"})


def test_rows_and_bytes_are_those_of_the_files_in_the_snapshot(table: Compacted) -> None:
    table.insert(1, 2, 3, part="a")
    table.insert(4, part="a")
    table.insert(5, part="b")
    one, other = hi.partition_sizes(table.client, table.name)
    files = list(table.place("a").rglob("bucket_*"))
    assert (one.partition, one.files, one.rows, one.delete_events, one.is_exact) == ("part=a", 2, 4, 0, True)
    assert one.bytes == sum(path.stat().st_size for path in files)
    assert (other.partition, other.rows) == ("part=b", 1)
    assert [size.rows for size in hi.partition_sizes(table.client, table.name, where="part = 'b'")] == [1]


def test_deletes_are_counted_until_they_are_compacted_away(table: Compacted) -> None:
    table.insert(1, 2, 3, part="a")
    table.delete(table.row_id(2), part="a")
    (before,) = hi.partition_sizes(table.client, table.name)
    assert (before.rows, before.delete_events, before.is_exact) == (3, 1, False)
    table.compact(MAJOR, part="a")
    (after,) = hi.partition_sizes(table.client, table.name)
    assert (after.rows, after.delete_events, after.is_exact, after.files) == (2, 0, True, 1)


def test_rows_of_open_transactions_do_not_count(table: Compacted) -> None:
    table.insert(1, part="a")
    with hi.StreamingConnection.connect(table.client, table=table.name, record_writer=hi.ArrowWriter()) as connection:
        connection.begin_transaction()
        assert [size.rows for size in hi.partition_sizes(table.client, table.name)] == [1]


def test_a_table_without_partitions_has_one_size(metastore: MetastoreClient, metastore_uri: str) -> None:
    create_table(metastore)
    empty = hi.PartitionSize(partition="", files=0, bytes=0, rows=0, delete_events=0, is_exact=True)
    assert hi.partition_sizes(metastore, "web.t") == [empty]


def test_no_transaction_is_left(table: Compacted) -> None:
    table.insert(1, part="a")
    hi.partition_sizes(table.client, table.name)
    (path,) = table.place("a").rglob("bucket_*")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CorruptFile, match="bucket_00000"):
        hi.partition_sizes(table.client, table.name)
    with pytest.raises(ConfigurationError):
        hi.partition_sizes(table.client, table.name, where="nothing = 1")
    with pytest.raises(NoSuchObject):
        hi.partition_sizes(table.client, "web.nothing")
    create_table(table.client, "plain", properties={"EXTERNAL": "TRUE"})
    with pytest.raises(UnsupportedFeature):
        hi.partition_sizes(table.client, "web.plain")
    assert [info for info in table.client.get_open_txns_info().transactions if info.state is TxnState.OPEN] == []
