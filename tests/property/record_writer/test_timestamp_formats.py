"""Timestamps of any form: one by one, in blocks and as Python's datetime computes them, the value is the same."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.record_writer.values.timestamp_formats import TimestampFormats

ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia"]
#: Patterns, and strftime's for the same text.
PATTERNS = {
    "dd/MM/yyyy HH:mm:ss": "%d/%m/%Y %H:%M:%S",
    "d-MMM-yyyy h:m:s a": "%d-%b-%Y %I:%M:%S %p",
    "EEE, dd MMMM yyyy HH:mm:ss": "%a, %d %B %Y %H:%M:%S",
    "yyyyMMddHHmmssSSSSSS": "%Y%m%d%H%M%S%f",
    "EEEE MM dd yyyy 'at' HH.mm.ssSSSSSS": "%A %m %d %Y at %H.%M.%S%f",
}
OFFSETS = {"X": "", "XX": "%z", "Z": "%z", "xx": "%z", "z": "%z"}
EPOCH = dt.datetime(1970, 1, 1)

FORMATS = ["hive", "iso8601", "date", "rfc1123", "seconds", "d/M/yyyy", "yyyyMMdd"]

#: Beside 1970, so that fractions are held; the last days of the range are read text by text.
times = st.one_of(
    st.datetimes(dt.datetime(1677, 9, 26), dt.datetime(1969, 12, 29)),
    st.datetimes(dt.datetime(1970, 1, 3), dt.datetime(2262, 4, 6)),
)
zones = st.sampled_from(ZONES)
#: Texts that are nearly timestamps of some form.
pieces = ["2024", "-", "02", "29", "30", "13", "T", " ", ":", "24", "60", "59", ".", "5", "Z"]
pieces += ["+02", "0", "e", "1", "+", "Feb", "PM", "/", "Thu", ",", "1e400", "9999999999999", "\n"]
nearly = st.lists(st.sampled_from(pieces), max_size=16).map("".join)


def nanos(time: dt.datetime) -> int:
    since = time - EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def check(formats: TimestampFormats, text: str, expected: int) -> None:
    """Both ways of reading give `expected`, also beside a null."""
    assert formats.nanos(text) == expected
    array = formats.array(pa.array([text, None, text]))
    assert array.view(pa.int64()).to_pylist() == [expected, None, expected]


@given(time=times, pattern=st.sampled_from(sorted(PATTERNS)), zone=zones)
def test_a_pattern_reads_what_strftime_writes(time: dt.datetime, pattern: str, zone: str) -> None:
    if "S" not in pattern:
        time = time.replace(microsecond=0)
    check(TimestampFormats([pattern], zone), time.strftime(PATTERNS[pattern]), nanos(time))


@given(time=times, offset=st.integers(-18 * 60, 18 * 60), zone=zones, letters=st.sampled_from(sorted(OFFSETS)))
def test_an_instant_becomes_the_wall_clock_of_the_zone(time: dt.datetime, offset: int, zone: str, letters: str) -> None:
    if letters == "X":
        offset = offset // 60 * 60
    zoned = time.replace(tzinfo=dt.timezone(dt.timedelta(minutes=offset)))
    expected = nanos(zoned.astimezone(ZoneInfo(zone)).replace(tzinfo=None))
    check(TimestampFormats(["iso8601"], zone), zoned.isoformat(), expected)
    text = zoned.strftime("%Y-%m-%d %H:%M:%S.%f%z")
    if letters == "X":
        text = text[:-2]
    check(TimestampFormats([f"yyyy-MM-dd HH:mm:ss.SSSSSS{letters}"], zone), text, expected)


@given(time=times, zone=zones, unit=st.sampled_from(["seconds", "millis", "micros", "nanos"]))
def test_a_number_since_1970_is_exact(time: dt.datetime, zone: str, unit: str) -> None:
    digits = {"seconds": 9, "millis": 6, "micros": 3, "nanos": 0}[unit]
    number = nanos(time)
    whole, part = divmod(abs(number), 10**digits)
    text = f"{'-' * (number < 0)}{whole}" + (f".{part:0{digits}}" if digits else "")
    expected = nanos(time.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None))
    formats = TimestampFormats(["iso8601", unit], zone)
    check(formats, text, expected)
    assert formats.number_type is not None
    numbers = pa.array([None, text], pa.string()).cast(formats.number_type)
    assert formats.from_numbers(numbers).view(pa.int64()).to_pylist() == [None, expected]


@given(
    texts=st.lists(nearly | times.map(str) | times.map(lambda time: time.isoformat() + "Z"), max_size=6),
    formats=st.lists(st.sampled_from(FORMATS), min_size=1, unique=True),
    zone=zones,
)
def test_a_block_gives_the_values_of_its_texts_or_raises_doubt(texts: list[str], formats: list[str], zone: str) -> None:
    """A doubt is always right: the block is then read text by text."""
    reading = TimestampFormats(formats, zone)
    try:
        found = reading.array(pa.array(texts, pa.string())).view(pa.int64()).to_pylist()
    except Doubt:
        return
    for text, value in zip(texts, found, strict=True):
        if not -999_000_000 <= value < 0:  # the caller checks the others, for whole arrays
            assert reading.nanos(text) == value
