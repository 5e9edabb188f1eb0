"""Partition keys of records: each row goes to the partition that its record names, or is a bad record."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import SerializationError
from hive_ingest.metastore_client import MetastoreClient
from tests.support.connections import connect

pytestmark = pytest.mark.one_embedded

KEYS = {"continent": "string", "month": "int"}
#: Parsed in one call, and record by record.
COUNTS = pytest.mark.parametrize("count", [1, 3_000])


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.t", columns={"id": "int"}, partition_keys=KEYS)
    return metastore


def lines(count: int, **fields: Any) -> bytes:
    return b"".join(json.dumps({"id": i} | fields).encode() + b"\n" for i in range(count))


def partitions(ms: MetastoreClient) -> list[str]:
    return ms.list_partition_names("web.t")


@COUNTS
@pytest.mark.parametrize("fields", [{"continent": "Europe", "month": 3}, {"continent": "Asia", "month": 4}], ids=str)
def test_a_record_that_contradicts_a_static_partition_value_is_bad(
    ms: MetastoreClient, count: int, fields: dict[str, Any]
) -> None:
    """It went to the static partition, and the log said that its field matched no column."""
    with connect(ms, static_partition_values=["Asia", "3"]) as connection:
        connection.begin_transaction()
        connection.write(lines(count, continent="Asia", month=3))
        connection.write(lines(1, **fields))
        with pytest.raises(SerializationError, match=rf"record {count} .*contradicts the static partition value"):
            connection.commit_transaction()
    assert partitions(ms) == []


@COUNTS
def test_a_record_may_repeat_or_leave_out_a_static_partition_value(
    ms: MetastoreClient, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with connect(ms, static_partition_values=["Asia"]) as connection, connection.transaction():
        connection.write(lines(count, continent="Asia", month=3))
        connection.write(lines(count, month=3))
        connection.write(lines(count, continent=None, month=3))
    assert partitions(ms) == ["continent=Asia/month=3"]
    assert hi.read_table(ms, "web.t").num_rows == 3 * count
    assert "matches no column" not in caplog.text


def test_a_contradiction_is_skipped_and_counted_where_bad_records_are(ms: MetastoreClient) -> None:
    writer = hi.StrictJsonWriter(on_error="skip", missing_partition_keys="null")
    with connect(ms, static_partition_values=["Asia", "3"], record_writer=writer) as connection:
        connection.begin_transaction()
        connection.write(lines(100, continent="Asia") + lines(1, continent="Europe") + lines(100, month=3))
        connection.commit_transaction()
        stats = connection.stats
    assert (stats.rows_committed, stats.records_skipped) == (200, 1)


def test_rows_of_arrow_data_that_contradict_a_static_partition_value_are_bad(ms: MetastoreClient) -> None:
    rows = pa.table({"id": [1, 2, 3], "continent": ["Asia", "Europe", None], "month": [3, 3, 3]})
    with pytest.raises(SerializationError, match=r"record 1.*'Europe' contradicts the static partition value 'Asia'"):
        hi.append(ms, "web.t", rows, static_partition_values=["Asia"])
    info = hi.append(ms, "web.t", rows, static_partition_values=["Asia"], on_error="skip")
    assert info.rows == 2
    hi.append(ms, "web.t", rows.select(["id", "month"]), static_partition_values=["Asia"])
    assert partitions(ms) == ["continent=Asia/month=3"]


@COUNTS
def test_a_record_without_a_partition_key_is_bad(ms: MetastoreClient, count: int) -> None:
    """It went to the default partition, also in an overwrite, which then replaced that partition."""
    with connect(ms) as connection:
        connection.begin_transaction()
        connection.write(lines(count, continent="Asia", month=3))
        connection.write(lines(1, continent="Asia"))
        with pytest.raises(SerializationError, match=rf"record {count} .*'month': the partition key is missing"):
            connection.commit_transaction()
    assert partitions(ms) == []


@COUNTS
def test_a_null_partition_key_is_the_default_partition(ms: MetastoreClient, count: int) -> None:
    with connect(ms) as connection, connection.transaction():
        connection.write(lines(count, continent="Asia", month=None))
    assert partitions(ms) == ["continent=Asia/month=__HIVE_DEFAULT_PARTITION__"]
    assert hi.read_table(ms, "web.t").num_rows == count


@COUNTS
def test_a_missing_partition_key_may_be_null_as_in_hive(ms: MetastoreClient, count: int) -> None:
    writer = hi.StrictJsonWriter(missing_partition_keys="null")
    with connect(ms, record_writer=writer) as connection, connection.transaction():
        connection.write(lines(count, continent="Asia"))
    assert partitions(ms) == ["continent=Asia/month=__HIVE_DEFAULT_PARTITION__"]


def test_delimited_fields_must_name_every_partition_key(ms: MetastoreClient) -> None:
    writer = hi.StrictDelimitedInputWriter(columns=["id", "continent"])
    with pytest.raises(hi.StreamingConnectionError, match="leaves out the partition key 'month'"):
        connect(ms, record_writer=writer)
