"""Tables of Hive with files that lack the ACID columns."""

from __future__ import annotations

from tests.interop.hive import RealHive

#: Compressed so that 3.1.3 can read what we append.
_ACID = "'transactional'='true', 'orc.compress'='ZLIB'"
_ROWS = ("(1, 'a'), (2, 'b')", "(5, 'c'), (6, 'd')")


def _source(hive: RealHive, name: str) -> str:
    """Two statements, hence two files; where they lie."""
    location = f"{hive.metastore.home}/outside/{name}"
    hive.sql(f"create external table {name} (id int, s string) stored as orc location 'file:{location}'")
    for rows in _ROWS:
        hive.sql(f"insert into {name} values {rows}")
    return location


def converted(hive: RealHive, database: str) -> str:
    """Files from before the table was transactional."""
    name = f"{database}.converted"
    _source(hive, name)
    hive.sql(f"alter table {name} set tblproperties ('EXTERNAL'='FALSE', {_ACID})")
    return name


def loaded(hive: RealHive, database: str) -> str:
    """Files that LOAD DATA has put into a delta."""
    name = f"{database}.loaded"
    location = _source(hive, f"{database}.source")
    hive.sql(f"create table {name} (id int, s string) stored as orc tblproperties ({_ACID})")
    hive.sql(f"load data local inpath '{location}' into table {name}")
    return name
