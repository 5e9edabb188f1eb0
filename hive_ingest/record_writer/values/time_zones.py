"""The wall clocks of time zones, for whole arrays of instants.

Arrow's `local_timestamp` is not used: it knows the changes of a zone that are listed in its file, but not the rule at
the end of the file that all later years follow, and shows no daylight saving time from 2038 on.
"""

from __future__ import annotations

import datetime as dt
import functools
import importlib.resources
import io
import os
import re
import struct
import zoneinfo
from typing import Any, Final

import numpy as np

from hive_ingest.record_writer.bad_records import Doubt

_OFFSET: Final = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: The range of Hive's timestamps, on any wall clock.
_FIRST_SECOND: Final = int((dt.datetime(1677, 9, 1, tzinfo=dt.UTC) - _EPOCH).total_seconds())
_LAST_SECOND: Final = int((dt.datetime(2262, 5, 1, tzinfo=dt.UTC) - _EPOCH).total_seconds())
#: A rule changes the clock twice a year: looking at it this often misses no change.
_RULE_STEP_SECONDS: Final = 10 * 86_400
_HEADER: Final = struct.Struct(">4sc15x6l")


class TimeZone:
    """The offsets of one time zone from UTC, in the range of Hive's timestamps.

    Args:
        transitions: Seconds since 1970 at which the offset changes, in order.
        offsets: The offset in seconds before the first one, and after each of them.
    """

    def __init__(self, transitions: list[int], offsets: list[int]) -> None:
        self.transitions = transitions
        self._starts = np.array(transitions, np.int64)
        self._offsets = np.array(offsets, np.int64)

    def offsets(self, seconds: Any) -> Any:
        """The offsets at an array of seconds since 1970."""
        return self._offsets[np.searchsorted(self._starts, seconds, side="right")]

    def wall_clocks(self, instants: Any, units_a_second: int) -> Any:
        """The wall clocks of instants.

        Args:
            instants: Numbers of units since 1970-01-01 00:00:00 UTC, as numpy's int64.
            units_a_second: How many units a second has.

        Returns:
            Numbers of units since 1970-01-01 00:00:00 on the wall clock.

        Raises:
            Doubt: A wall clock has no such number.
        """
        shift = self._common_offset(instants, units_a_second)
        if shift is None:
            shift = self.offsets(instants // units_a_second)
        shift = shift * units_a_second
        walls = instants + shift
        if ((walls < instants) != (shift < 0)).any():
            raise Doubt("a timestamp at the end of the range")
        return walls

    def _common_offset(self, instants: Any, units_a_second: int) -> Any:
        """The offset that all instants have, or None. Most data is of a few weeks."""
        if not len(instants):
            return self._offsets[-1]
        ends = [int(instants.min()) // units_a_second, int(instants.max()) // units_a_second]
        first, last = np.searchsorted(self._starts, ends, side="right")
        return self._offsets[first] if first == last else None


@functools.lru_cache(maxsize=64)
def time_zone(name: str) -> TimeZone:
    """A time zone by its IANA name, or by its offset, such as `+01:00`.

    Raises:
        ValueError: The time zone is unknown.
    """
    if offset := _OFFSET.fullmatch(name):
        seconds = int(offset[2]) * 3600 + int(offset[3]) * 60
        return TimeZone([], [-seconds if offset[1] == "-" else seconds])
    try:
        data = _zone_file(name)
        zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(data), name)
        listed = [at for at in _listed_transitions(data) if _FIRST_SECOND <= at <= _LAST_SECOND]
    except (KeyError, OSError, struct.error) as error:
        raise ValueError(f"{name!r} is not known: no such file in the time zone database") from error
    transitions = [*listed, *_later_transitions(zone, listed[-1] if listed else 0)]
    first = transitions[0] - 1 if transitions else 0
    return TimeZone(transitions, [_offset_at(zone, at) for at in (first, *transitions)])


def _zone_file(name: str) -> bytes:
    """The file of a zone, where `zoneinfo` finds it."""
    zoneinfo.ZoneInfo(name)  # checks the name, too: it is a path
    for folder in zoneinfo.TZPATH:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read()
    package, _, file_name = f"tzdata/zoneinfo/{name}".replace("/", ".").rpartition(".")
    return importlib.resources.files(package).joinpath(file_name).read_bytes()


def _listed_transitions(data: bytes) -> list[int]:
    """The changes that a TZif file lists (RFC 8536), which need not be all."""
    version, *counts = _header(data, 0)
    if version == b"\0":
        return list(struct.unpack_from(f">{counts[3]}l", data, _HEADER.size))
    # A file of version 2 or later begins with a part of version 1, whose numbers have 32 bits.
    leaps, times, types, characters = counts[2:6]
    start = _HEADER.size + times * 5 + types * 6 + characters + leaps * 8 + counts[1] + counts[0]
    _, *counts = _header(data, start)
    return list(struct.unpack_from(f">{counts[3]}q", data, start + _HEADER.size))


def _header(data: bytes, start: int) -> tuple[Any, ...]:
    magic, *found = _HEADER.unpack_from(data, start)
    if magic != b"TZif":
        raise KeyError("not a TZif file")
    return tuple(found)


def _later_transitions(zone: zoneinfo.ZoneInfo, last: int) -> list[int]:
    """The changes after the last one that is listed, by the rule at the end of the file."""
    found: list[int] = []
    start = max(last, 0)  # a file that lists no change may have a rule, but none begins before 1970
    before = _offset_at(zone, start)
    for end in range(start + _RULE_STEP_SECONDS, _LAST_SECOND, _RULE_STEP_SECONDS):
        after = _offset_at(zone, end)
        if after != before:
            found.append(_change_between(zone, end - _RULE_STEP_SECONDS, end))
        before = after
    return found


def _change_between(zone: zoneinfo.ZoneInfo, low: int, high: int) -> int:
    """The first second with the offset that `high` has."""
    offset = _offset_at(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _offset_at(zone, middle) == offset else (middle, high)
    return high


def _offset_at(zone: zoneinfo.ZoneInfo, seconds: int) -> int:
    offset = (_EPOCH + dt.timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset.days * 86_400 + offset.seconds
