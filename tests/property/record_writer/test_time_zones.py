"""Instants in Arrow data become the wall clock that `zoneinfo` computes, in any year and zone."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.record_writer.values.time_zones import time_zone
from tests.property.record_writer.parsing_support import run, schema_of

#: With daylight saving time in the north and the south, of half an hour, abolished, skipping a day, changing each
#: Ramadan until 2087, and negative in winter.
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Europe/Dublin",
    "America/Sao_Paulo",
]
EPOCH = dt.datetime(1970, 1, 1)
SUMMER_2040 = dt.datetime(2040, 7, 1, 12, tzinfo=dt.UTC)

instants = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))


def wall_nanos(instant: dt.datetime, zone: dt.tzinfo) -> int:
    since = instant.astimezone(zone).replace(tzinfo=None) - EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def is_held(nanos: int) -> bool:
    return -(2**63) <= nanos < 2**63 and (nanos >= 0 or nanos % 10**9 == 0)


@given(times=st.lists(instants | st.none(), max_size=5), zone=st.sampled_from(ZONES), unit=st.sampled_from(["s", "us"]))
@example(times=[SUMMER_2040], zone="Europe/Berlin", unit="us")
@example(times=[SUMMER_2040.replace(year=2261)], zone="America/New_York", unit="s")
def test_an_instant_becomes_the_wall_clock_of_zoneinfo_or_a_bad_record(
    times: list[dt.datetime | None], zone: str, unit: str
) -> None:
    if unit == "s":
        times = [time and time.replace(microsecond=0) for time in times]
    data = pa.table({"at": pa.array(times, pa.timestamp(unit, zone))})
    walls = [None if time is None else wall_nanos(time, zoneinfo.ZoneInfo(zone)) for time in times]
    held = [wall for wall in walls if wall is None or is_held(wall)]
    writer = ArrowWriter(zoned_timestamps="local", on_error="skip")
    found = run(writer, schema_of(at="timestamp"), [data])
    assert ([row[0] for row in found.rows], found.skipped) == (held, len(walls) - len(held))


@pytest.mark.parametrize("zone", sorted(zoneinfo.available_timezones())[::10] + ZONES)
def test_every_time_zone_has_the_offsets_of_zoneinfo(zone: str) -> None:
    """Each day from 1850 to 2262 near the change of a rule, and each month of the others."""
    reference = zoneinfo.ZoneInfo(zone)
    days = np.arange(-43_800, 106_700, 29) * 86_400
    edges = np.asarray(time_zone(zone).transitions)
    edges = edges[(edges > days[0]) & (edges < days[-1])]
    seconds = np.concatenate([days, edges - 1, edges])
    expected = [
        (dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(seconds=int(at))).astimezone(reference).utcoffset()
        for at in seconds
    ]
    assert time_zone(zone).offsets(seconds).tolist() == [each.total_seconds() for each in expected if each is not None]


@pytest.mark.parametrize(("name", "seconds"), [("+01:30", 5400), ("-05:00", -18_000), ("+0545", 20_700)])
def test_an_offset_is_a_time_zone(name: str, seconds: int) -> None:
    data = pa.table({"at": pa.array([SUMMER_2040], pa.timestamp("ns", name))})
    found = run(ArrowWriter(zoned_timestamps="local"), schema_of(at="timestamp"), [data])
    assert found.rows == [(wall_nanos(SUMMER_2040, dt.timezone(dt.timedelta(seconds=seconds))),)]


def test_an_instant_beyond_the_range_whose_wall_clock_is_within_it_is_held() -> None:
    """And the reverse is bad: neither wraps around."""
    last = dt.datetime(2262, 4, 11, 23, 47, 17, tzinfo=dt.UTC)
    data = pa.table({"at": pa.array([last], pa.timestamp("s", "America/New_York"))})
    writer = ArrowWriter(zoned_timestamps="local")
    assert run(writer, schema_of(at="timestamp"), [data]).rows == [
        (wall_nanos(last, zoneinfo.ZoneInfo("America/New_York")),)
    ]
    nanos = pa.array([2**63 - 2**40, -(2**63) + 1 + 2**40])
    for zone, bad in (("Europe/Berlin", 0), ("America/New_York", 1)):
        data = pa.table({"at": nanos.slice(bad, 1).view(pa.timestamp("ns", zone))})
        with pytest.raises(SerializationError, match="column 'at'"):
            list(parse(writer, data))


def parse(writer: ArrowWriter, data: pa.Table) -> list[object]:
    writer.bind(schema_of(at="timestamp"))
    writer.discard()
    return [writer.parse(block) for block in [*writer.write(data), *writer.drain()]]
