"""A timestamp is what a clock shows: whatever zone its writer and its reader live in, Hive and we read it as given."""

from __future__ import annotations

import datetime as dt
import json
from zoneinfo import ZoneInfo

import pytest

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table
from tests.interop import zoned
from tests.interop.hive import RealHive
from tests.interop.orc_files import writer_timezones
from tests.interop.tables import orc_properties
from tests.interop.zoned import ZONES
from tests.support.tables import folder_of


@pytest.fixture(scope="module")
def written(hive: RealHive, client: MetastoreClient, module_database: str) -> Table:
    """The same rows by us and by Hive in each zone."""
    table = client.create_table(f"{module_database}.zoned", columns=zoned.COLUMNS, properties=orc_properties(hive))
    ours = [zoned.start("write", zone, hive.metastore.uri, str(table.name)) for zone in ZONES]
    for process in ours:
        zoned.finish(process)
    for zone in ZONES:
        with hive.in_timezone(zone):
            hive.sql(f"insert into {table.name} {zoned.literals(f'Hive in {zone}')}")
    return table


def expected() -> list[str]:
    rows = []
    for zone in ZONES:
        rows += zoned.rows(f"ours in {zone}") + zoned.old_rows(f"ours in {zone}") + zoned.rows(f"Hive in {zone}")
    return zoned.texts(rows)


@pytest.mark.parametrize("vectorized", [False, True], ids=["row_mode", "vectorized"])
@pytest.mark.parametrize("zone", ZONES)
def test_hive_reads_the_same_wall_clock_in_any_time_zone(
    hive: RealHive, written: Table, zone: str, vectorized: bool
) -> None:
    with hive.in_timezone(zone):
        [[clock]] = hive.sql("select cast(current_timestamp as string)")
        found = hive.select(f"select * from {written.name}", vectorized=vectorized)
    late = dt.datetime.now(ZoneInfo(zone)).replace(tzinfo=None) - dt.datetime.fromisoformat(clock[:19])
    assert abs(late) < dt.timedelta(minutes=20), "Hive's clock shows the time of another zone: the test tests nothing"
    assert zoned.texts(found) == expected()


def test_we_read_the_same_wall_clock_in_any_time_zone(hive: RealHive, written: Table) -> None:
    processes = [zoned.start("read", zone, hive.metastore.uri, str(written.name)) for zone in ZONES]
    for process in processes:
        assert json.loads(zoned.finish(process)) == expected()


def test_our_files_name_gmt_and_hives_utc_wherever_they_are_written(written: Table) -> None:
    zones = {path.parent.name: writer_timezones(path) for path in folder_of(written).glob("delta_*/bucket_*")}
    ours, hives = [{"GMT"}] * len(ZONES), [{"UTC"}] * len(ZONES)
    assert [zones[name] for name in sorted(zones)] == ours + hives
