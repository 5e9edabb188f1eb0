"""Text that Hive exports (INSERT OVERWRITE DIRECTORY) comes back through `StrictDelimitedInputWriter`."""

from __future__ import annotations

from pathlib import Path

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.interop.hive import RealHive

COLUMNS = (
    "id int, bo boolean, ti tinyint, bi bigint, f float, d double, de decimal(10,3), s string, c char(4), "
    "vc varchar(9), b binary, da date, ts timestamp, a array<int>, m map<string,int>, "
    "st struct<x:int,y:array<string>>, am array<map<string,int>>"
)
ROWS = (
    "select 1, true, cast(-1 as tinyint), 9007199254740993L, cast(0.1 as float), 1e-7D, "
    "cast('1.500' as decimal(10,3)), "
    "'tab\\tand \"quotes\", \\\\N', cast('ab' as char(4)), cast('äöü' as varchar(9)), unhex('00ff'), "
    "date '1969-12-31', timestamp '2020-01-01 01:02:03.000004', array(1, cast(null as int)), "
    "map('k', 1, 'l', cast(null as int)), "
    "named_struct('x', 1, 'y', array('p', 'q')), array(map('k', 1), map('l', 2))",
    "select 2, false, cast(127 as tinyint), -1L, cast('NaN' as float), cast('-Infinity' as double), "
    "cast('-0.001' as decimal(10,3)), '', cast('' as char(4)), cast('' as varchar(9)), unhex(''), date '9999-12-31', "
    "timestamp '1969-12-31 23:59:58', array(7), map('', 5), named_struct('x', cast(null as int), 'y', array('z')), "
    "array(map('k', cast(null as int)))",
)


def test_what_hive_exports_as_text_comes_back(
    hive: RealHive, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    for name in ("source", "copy"):
        hive.sql(f"create table {database}.{name} ({COLUMNS}) stored as orc tblproperties ('transactional'='true')")
    for row in ROWS:
        hive.sql(f"insert into {database}.source {row}")
    hive.sql(f"insert into {database}.source (id) values (3)")
    folder = tmp_path / "export"
    hive.sql(f"insert overwrite local directory '{folder}' select * from {database}.source")

    # Hive 4 leaves out the padding of base64.
    writer = hi.StrictDelimitedInputWriter(field_delimiter="\x01", coerce="lossless")
    result = hi.ingest_files(client, f"{database}.copy", folder, record_writer=writer)
    assert result.stats.rows_committed == 3
    copied, source = (hi.read_table(client, f"{database}.{name}").sort_by("id") for name in ("copy", "source"))
    assert str(copied.to_pylist()) == str(source.to_pylist())
