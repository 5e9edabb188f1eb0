"""What Hive may skip by the statistics in our files it skips, and it misses no row: in both modes, of every type.

A table of two stripes with three row groups each; values rise with the rows, so each group has a range of its own.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table
from hive_ingest.orc.format.tail import read_tail
from hive_ingest.schema import arrow_type
from tests.interop import streamed
from tests.interop.hive import HiveError, RealHive
from tests.interop.tables import allocate, orc_properties
from tests.support.tables import folder_of

STRIPE_ROWS = 25_000
ROWS = 2 * STRIPE_ROWS
#: First and last rows of row groups, which have 10,000 rows but for the last of a stripe.
BORDERS = [1, 9_999, 10_001, 19_999, 20_001, 24_998, 25_001, 34_999, 35_001, 44_999, 45_001, 49_999]
#: In the first and second row group, in the last row of a stripe and the first of the next.
NULLS = [0, *range(10_000, 20_000, 1_000), 24_999, 25_000]

#: What Hive compares with no statistics of ours. Of these only a char has any use in its own files: ours say "string".
NOT_PUSHED_DOWN = {"3.1.3": {"c", "v", "raw", "nested", "many"}, "4.0.1": {"c", "raw", "nested", "many"}}

Value = Callable[[int], Any]
TYPES: dict[str, tuple[str, Value]] = {
    "yes": ("boolean", lambda i: i >= STRIPE_ROWS),
    "t": ("tinyint", lambda i: i // 200 - 125),
    "s": ("smallint", lambda i: i - 25_000),
    "i": ("int", lambda i: 40_000 * i - 10**9),
    "b": ("bigint", lambda i: i * 10**14 - 10**18),
    "f": ("float", lambda i: i / 4),
    "d": ("double", lambda i: i / 8 - 100),
    "n": ("decimal(20,4)", lambda i: Decimal(i * 10_007 - 5_000_000).scaleb(-4)),
    "txt": ("string", lambda i: f"v{i:06}"),
    "c": ("char(9)", lambda i: f"v{i:06}"),
    "v": ("varchar(9)", lambda i: f"v{i:06}"),
    "raw": ("binary", lambda i: f"v{i:06}".encode()),
    "day": ("date", lambda i: dt.date(1970, 1, 1) + dt.timedelta(days=i - 20_000)),
    "at": ("timestamp", lambda i: dt.datetime(1970, 1, 1) + dt.timedelta(hours=i - 20_000, milliseconds=1)),
    "nested": ("struct<a:int,b:string>", lambda i: {"a": i, "b": f"v{i:06}"}),
    "many": ("array<int>", lambda i: [i]),
}
#: How a query names the value, where that is not the column.
PLACES = {"nested": "nested.a", "many": "many[0]"}
SCALARS = {"nested": ("int", lambda i: i), "many": ("int", lambda i: i)}


def literal(name: str, i: int) -> str:
    type_, value = SCALARS.get(name, TYPES[name])
    if type_ in ("string", "char(9)", "varchar(9)"):  # a char that Hive casts is not found by its own IN
        return f"'{value(i)}'"
    if type_ == "boolean":
        return str(value(i)).lower()
    return f"cast('{value(i).decode() if type_ == 'binary' else value(i)}' as {type_})"


def rows() -> pa.Table:
    null = np.isin(np.arange(ROWS), NULLS)
    columns: dict[str, Any] = {"id": pa.array(range(ROWS), pa.int32())}
    for name, (type_, value) in TYPES.items():
        values = [None if null[i] else value(i) for i in range(ROWS)]
        columns[name] = pa.array(values, arrow_type(type_))
    return pa.table(columns)


@pytest.fixture(scope="module")
def written(hive: RealHive, client: MetastoreClient, module_database: str) -> Table:
    columns = {"id": "int", **{name: type_ for name, (type_, _) in TYPES.items()}}
    table = client.create_table(f"{module_database}.t", columns=columns, properties=orc_properties(hive))
    data = rows()
    with streamed.connect(client, table.name) as conn, conn.transaction():
        for start in (0, STRIPE_ROWS):
            conn.write(data.slice(start, STRIPE_ROWS))
            conn.flush()
    return table


@pytest.fixture(scope="module")
def damaged(client: MetastoreClient, written: Table) -> Table:
    """The same table, but nothing of its second stripe can be read."""
    table = client.create_table(f"{written.name.database}.damaged", columns={c.name: c.type for c in written.columns})
    [file] = folder_of(written).glob("delta_*/bucket_*")
    shutil.copytree(file.parent, folder_of(table) / file.parent.name)
    copy = folder_of(table) / file.parent.name / file.name
    with pa.OSFile(str(copy)) as source:
        stripe = read_tail(source, str(copy)).footer.stripes[1]
    with copy.open("r+b") as out:
        out.seek(stripe.offset + stripe.index_length)
        out.write(b"\xff" * stripe.data_length)
    allocate(client, table.name, ["commit"])
    return table


@contextmanager
def pushing_down(hive: RealHive, *, enabled: bool) -> Iterator[None]:
    hive.set("hive.optimize.index.filter", str(enabled).lower())
    try:
        yield
    finally:  # its default
        hive.set("hive.optimize.index.filter", str(hive.version != "3.1.3").lower())


@cache
def values(name: str) -> list[Any]:
    """Those that a query compares, of all rows."""
    _, value = SCALARS.get(name, TYPES[name])
    return [None if i in NULLS else value(i) for i in range(ROWS)]


def predicates(name: str) -> dict[str, list[int]]:
    """Conditions, and the ids of the rows that they hold for."""
    place, known = PLACES.get(name, name), values(name)
    one, borders = known[24_998], {known[i] for i in BORDERS}
    low, high = known[9_990], known[20_010]
    found = {
        f"{place} = {literal(name, 24_998)}": [i for i in range(ROWS) if known[i] == one],
        f"{place} in ({', '.join(literal(name, i) for i in BORDERS)})": [i for i in range(ROWS) if known[i] in borders],
        f"{place} between {literal(name, 9_990)} and {literal(name, 20_010)}": [
            i for i in range(ROWS) if known[i] is not None and low <= known[i] <= high
        ],
        f"{place} is null": NULLS,
    }
    # Hive 3.1.3 finds no binary by IN, whoever wrote the file.
    return {where: ids for where, ids in found.items() if not (name == "raw" and " in " in where)}


def ids(hive: RealHive, table: Table, where: str) -> list[int]:
    return sorted(row[0] for row in hive.sql(f"select id from {table.name} where {where}"))


@pytest.mark.parametrize("name", TYPES)
def test_a_predicate_that_is_pushed_down_finds_every_row(hive: RealHive, written: Table, name: str) -> None:
    found = predicates(name)
    any_of_them, in_any = " or ".join(found), sorted(set().union(*found.values()))
    with pushing_down(hive, enabled=True):
        for predicate, expected in found.items():
            assert ids(hive, written, predicate) == expected, predicate
        with hive.vectorizing():
            assert ids(hive, written, any_of_them) == in_any
    with pushing_down(hive, enabled=False):
        assert ids(hive, written, any_of_them) == in_any


def test_texts_are_found_that_are_longer_than_the_bounds_in_our_statistics(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    """Those of a stripe and a file are cut at 1 KiB, and the larger one is raised."""
    texts = [f"{'ü' * 600}{i:02}" for i in range(8)]
    columns = {"id": "int", "txt": "string"}
    table = client.create_table(f"{database}.long_texts", columns=columns, properties=orc_properties(hive))
    with streamed.connect(client, table.name) as conn, conn.transaction():
        for start in (0, 4):
            conn.write(pa.table({"id": pa.array(range(start, start + 4), pa.int32()), "txt": texts[start : start + 4]}))
            conn.flush()
    [file] = folder_of(table).glob("delta_*/bucket_*")
    with pa.OSFile(str(file)) as source:
        assert max(map(len, read_tail(source, str(file)).footer.statistics)) < 2_100
    with pushing_down(hive, enabled=True):
        for i, text in enumerate(texts):
            assert ids(hive, table, f"txt = '{text}'") == [i]
        assert ids(hive, table, f"txt <> '{texts[3]}'") == [0, 1, 2, 4, 5, 6, 7]
        assert ids(hive, table, f"txt not between '{texts[0]}' and '{texts[3]}'") == [4, 5, 6, 7]
        assert ids(hive, table, f"txt >= '{texts[7]}'") == [7]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata"])
def test_timestamps_are_found_in_other_time_zones_by_the_settings_of_each_version(
    hive: RealHive, written: Table, zone: str
) -> None:
    with hive.in_timezone(zone), pushing_down(hive, enabled=hive.version != "3.1.3"):
        for predicate, expected in predicates("at").items():
            assert ids(hive, written, predicate) == expected, predicate


def test_hive_skips_stripes_by_our_statistics(hive: RealHive, damaged: Table) -> None:
    with pushing_down(hive, enabled=False), pytest.raises(HiveError):
        ids(hive, damaged, "id = 24998")
    with pushing_down(hive, enabled=True):
        assert ids(hive, damaged, "id = 24998") == [24_998]
        with hive.vectorizing():
            assert ids(hive, damaged, "id = 24998") == [24_998]
        assert {name for name in TYPES if skips(hive, damaged, name)} == TYPES.keys() - NOT_PUSHED_DOWN[hive.version]


#: Conditions for one row of `MISSED_ROWS` each, and where Hive misses it, in its own files too: versions and zones.
MISSED = {
    "at = timestamp '1999-12-31 23:59:59.000001'": [("3.1.3", "UTC"), ("3.1.3", "America/Los_Angeles")],
    "d = 5": [(version, zone) for version in ("3.1.3", "4.0.1") for zone in ("UTC", "America/Los_Angeles")],
    "day = date '1500-02-28'": [("3.1.3", "UTC"), ("3.1.3", "America/Los_Angeles"), ("4.0.1", "America/Los_Angeles")],
}
MISSED_ROWS = pa.table(
    {
        "at": [dt.datetime(1999, 12, 31, 23, 59, 59, 1), None],  # the statistics of Hive 3.1.3 stop at milliseconds
        "d": [float("nan"), 5.0],  # no bounds come after a NaN
        "day": pa.array([dt.date(1500, 2, 28), None], pa.date32()),
    }
)


def test_where_push_down_misses_a_row_it_misses_hives_own_too(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    columns = {"at": "timestamp", "d": "double", "day": "date"}
    for name in ("ours", "its"):
        client.create_table(f"{database}.{name}", columns=columns, properties=orc_properties(hive))
    hi.append(client, f"{database}.ours", MISSED_ROWS)
    hive.sql(f"insert into {database}.its select * from {database}.ours")
    for zone in ("UTC", "America/Los_Angeles"):
        with hive.in_timezone(zone), pushing_down(hive, enabled=True):
            for where, missed in MISSED.items():
                found = [len(hive.sql(f"select d from {database}.{name} where {where}")) for name in ("ours", "its")]
                assert found == ([0, 0] if (hive.version, zone) in missed else [1, 1]), (where, zone)


def skips(hive: RealHive, table: Table, name: str) -> bool:
    [(where, expected), *_] = predicates(name).items()
    try:
        assert ids(hive, table, where) == expected
    except HiveError:
        return False
    return True
