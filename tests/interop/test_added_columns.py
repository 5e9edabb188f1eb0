"""Columns that were added: real Hive reads partitions from before and after, and so do we."""

from __future__ import annotations

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.interop.agreement import BOTH_MODES, assert_agreement
from tests.interop.hive import RealHive
from tests.interop.tables import orc_properties


def append(client: MetastoreClient, table: str, part: str, *ids: int, **more: object) -> None:
    columns = {"id": pa.array(ids, pa.int32()), "s": [f"s{each}" for each in ids]}
    columns |= {name: [value] * len(ids) for name, value in more.items()}
    hi.append(client, table, pa.table({**columns, "part": [part] * len(ids)}), missing_columns="null")


@pytest.fixture
def table(hive: RealHive, client: MetastoreClient, database: str) -> str:
    name = f"{database}.t"
    client.create_table(
        name, columns={"id": "int", "s": "string"}, partition_keys={"part": "string"}, properties=orc_properties(hive)
    )
    append(client, name, "old", 1, 2)
    return name


def test_hive_reads_partitions_from_before_and_after_columns_were_added(
    hive: RealHive, client: MetastoreClient, table: str
) -> None:
    client.add_columns(table, {"extra": "string", "amount": "decimal(5,2)"})
    append(client, table, "old", 3, extra="x")
    append(client, table, "new", 4, extra="y")
    rows = assert_agreement(hive, client, table, modes=BOTH_MODES)
    assert hive.sql(f"select id, extra, amount from {table} order by id") == [
        *([1, None, None], [2, None, None]),
        *([3, "x", None], [4, "y", None]),
    ]
    hive.sql(f"update {table} set extra = 'z' where id in (2, 4)")
    hive.sql(f"insert into {table} partition (part='old') values (5, 's5', 'h', 1.5)")
    assert len(assert_agreement(hive, client, table)) == len(rows) + 1
    hive.compact(table, "major", partition="part='old'")
    assert_agreement(hive, client, table)


def test_hive_reads_a_new_column_in_a_partition_that_has_only_the_old_ones_in_the_metastore(
    hive: RealHive, client: MetastoreClient, table: str
) -> None:
    """ALTER TABLE … ADD COLUMNS without CASCADE, whoever writes to the partition then."""
    hive.sql(f"alter table {table} add columns (extra string)")
    append(client, table, "old", 3, extra="ours")
    hive.sql(f"insert into {table} partition (part='old') values (4, 's4', 'hives')")
    append(client, table, "new", 5, extra="y")
    assert_agreement(hive, client, table)
    found = hive.sql(f"select id, extra from {table} order by id")
    assert found == [[1, None], [2, None], [3, "ours"], [4, "hives"], [5, "y"]]
