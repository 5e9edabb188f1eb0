"""The second before 1970 that ORC cannot hold: what Hive's own files make of it, which is why it is refused here."""

from __future__ import annotations

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.interop.hive import RealHive

WRITTEN = ["1969-12-31 23:59:58.5", "1969-12-31 23:59:59.0005", "1969-12-31 23:59:59.001", "1969-12-31 23:59:59.5"]
READ = ["1969-12-31 23:59:58.5", "1969-12-31 23:59:59.0005", "1970-01-01 00:00:00.001", "1970-01-01 00:00:00.5"]


def test_hive_shows_a_fraction_of_the_last_second_before_1970_a_second_later(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    hive.sql(f"create table {name} (id int, at timestamp) stored as orc tblproperties ('transactional'='true')")
    hive.sql(f"insert into {name} values " + ", ".join(f"({i}, timestamp '{text}')" for i, text in enumerate(WRITTEN)))
    found = sorted(hive.sql(f"select id, cast(at as string) from {name}"))
    assert [text for _, text in found] == READ
    rows = hi.read_table(client, name).sort_by("id")
    assert [str(at).rstrip("0") for at in rows["at"].to_pylist()] == READ
