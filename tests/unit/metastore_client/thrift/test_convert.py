"""Thrift's structures and our values."""

from __future__ import annotations

import pytest

from hive_ingest.metastore_client.thrift.convert import (
    change_table,
    from_new_table,
    split_by_bits,
    to_database,
    to_table,
    to_valid_txns,
    to_valid_write_ids,
)
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.versions import parse_version
from hive_ingest.model import Column, Table, TableName, TxnId

HIVE_3, HIVE_4 = parse_version("3.0"), parse_version("4.0.1")
TABLE = Table(
    TableName("web", "t"),
    (Column("id", "int"), Column("text", "string", "what was said")),
    (Column("part", "string"),),
    bucket_columns=("id",),
    num_buckets=4,
    location="file:/wh/t",
    properties={"transactional": "true"},
    owner="me",
)


def test_a_table_survives_the_round_trip() -> None:
    sent = from_new_table(TABLE)
    sent.id = 0
    assert to_table(sent, HIVE_4) == TABLE


def test_a_table_without_an_id_is_identified_by_its_name_and_creation_time() -> None:
    found = from_new_table(TABLE)
    found.createTime, found.id = 1_700_000_000, None
    first = to_table(found, HIVE_3)
    found.tableName = "another"
    assert to_table(found, HIVE_3).id != first.id
    found.tableName, found.createTime = TABLE.name.table, 1_700_000_001
    assert to_table(found, HIVE_3).id != first.id
    assert 0 < first.id < 1 << 63


def test_a_table_keeps_its_identity_after_an_upgrade_from_hive_3() -> None:
    found = from_new_table(TABLE)
    found.createTime, found.id = 1_700_000_000, None
    before = to_table(found, HIVE_3)
    found.id = 17
    after = to_table(found, HIVE_4)
    assert after.id == 17
    assert before.id in after.known_ids


def test_a_change_keeps_fields_that_this_package_does_not_know() -> None:
    found = from_new_table(TABLE)
    found.viewOriginalText, found.sd.compressed, found.retention = "kept", True, 9
    found.sd.serdeInfo.parameters = {"field.delim": ","}
    changed = change_table(found, Table(TABLE.name, (Column("id", "bigint"),), properties={"a": "b"}))
    assert (changed.viewOriginalText, changed.sd.compressed, changed.retention) == ("kept", True, 9)
    assert changed.sd.serdeInfo.parameters == {"field.delim": ","}
    assert (changed.sd.cols[0].type, changed.parameters) == ("bigint", {"a": "b"})


def test_managed_tables_lie_in_the_folder_of_their_database() -> None:
    t = idl()
    assert to_database(t.Database(name="d", locationUri="file:/x", managedLocationUri="file:/m")).location == "file:/m"
    assert to_database(t.Database(name="d", locationUri="file:/x")).location == "file:/x"


@pytest.mark.parametrize(
    ("bits", "open_ids", "aborted"),
    [
        (b"", [3, 5, 7], []),
        (b"\x02", [3, 7], [5]),
        (b"\x07", [], [3, 5, 7]),
        (b"\x04\x00\xff", [3, 5], [7]),
    ],
)
def test_a_bit_set_marks_the_aborted_ids(bits: bytes, open_ids: list[int], aborted: list[int]) -> None:
    assert split_by_bits([3, 5, 7], bits) == (open_ids, aborted)


def test_the_ninth_id_has_its_bit_in_the_second_byte() -> None:
    assert split_by_bits(list(range(1, 10)), b"\x00\x01") == (list(range(1, 9)), [9])


def test_the_readers_own_transaction_is_not_an_exception() -> None:
    answer = idl().GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[4, 6, 9], abortedBits=b"\x01")
    assert to_valid_txns(answer, TxnId(9)).to_string() == "9:6:6:4"


def test_write_ids_are_split_too() -> None:
    answer = idl().TableValidWriteIds(
        fullTableName="web.t", writeIdHighWaterMark=9, invalidWriteIds=[2, 8], abortedBits=b"\x02"
    )
    assert to_valid_write_ids(answer).to_string() == "web.t:9:2:2:8"
