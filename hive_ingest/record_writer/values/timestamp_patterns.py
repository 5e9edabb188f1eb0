"""Timestamps by patterns of Java's DateTimeFormatter, which Hive's property `timestamp.formats` has.

A pattern becomes a regular expression with a named group for each field. It serves Python's `re` and Arrow's RE2.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import ConfigurationError
from hive_ingest.record_writer.bad_records import BadValue, Doubt, shown
from hive_ingest.record_writer.values.strict_values import YEAR

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_HALVES: Final = ("am", "pm")
_NAMES: Final = {"month_name": _MONTHS, "weekday": _DAYS, "half": _HALVES}
_DATE_FIELDS: Final = ("year", "month", "day", "weekday")
#: Java's offsets end at 18 hours.
OFFSET_HOURS: Final = "[+-](?:0[0-9]|1[0-8])"
#: The field of each letter that stands for digits, one letter for one or two digits, two letters for two.
_DIGITS: Final = {"M": "month", "d": "day", "H": "hour", "h": "hour12", "m": "minute", "s": "second"}
_LIMITS: Final = {"month": (1, 12), "hour": (0, 23), "hour12": (1, 12), "minute": (0, 59), "second": (0, 59)}
_OFFSETS: Final = {
    "X": f"Z|{OFFSET_HOURS}",
    "XX": f"Z|{OFFSET_HOURS}[0-5][0-9]",
    "XXX": f"Z|{OFFSET_HOURS}:[0-5][0-9]",
    "x": OFFSET_HOURS,
    "xx": f"{OFFSET_HOURS}[0-5][0-9]",
    "xxx": f"{OFFSET_HOURS}:[0-5][0-9]",
    "Z": f"{OFFSET_HOURS}[0-5][0-9]",
    "z": f"GMT|UTC|Z|{OFFSET_HOURS}[0-5][0-9]",
}
_RUN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
#: Characters that are no text in Java's patterns.
_RESERVED: Final = tuple("[]{}#")
_SUPPORTED: Final = (
    "use yyyy, MM, M, MMM, MMMM, dd, d, HH, H, hh, h, mm, m, ss, s, S to SSSSSSSSS, a, EEE, EEEE, X, XX, XXX, x, xx, "
    "xxx, Z, z, and other letters in 'quotes'"
)
#: Seconds that fit into 64 bits of nanoseconds, with room for an offset.
_MOST_SECONDS: Final = 9_223_000_000
_EPOCH: Final = dt.datetime(1970, 1, 1)


def offset_seconds(text: str) -> int:
    """The seconds of `Z`, `GMT`, `UTC`, `+hh`, `+hhmm` or `+hh:mm`."""
    if text[0] not in "+-":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if text[0] == "-" else seconds


class TimestampPattern:
    """Reads timestamps of one pattern.

    Args:
        name: What the user calls it.
        pattern: The pattern.
        kind: "timestamp", or "date" for a pattern of a day without a time of day.

    Raises:
        ConfigurationError: The pattern is not supported.
    """

    def __init__(self, name: str, pattern: str, kind: Literal["timestamp", "date"] = "timestamp") -> None:
        self.name = name
        self._kind = kind
        self._pattern = pattern
        self._fields: list[str] = []
        self.regex = "".join(self._parts())
        self._check_fields()
        #: The match of a text that has this form.
        self.matches = re.compile(self.regex).fullmatch
        #: Whether it is an instant, by an offset.
        self.is_instant = "offset" in self._fields

    def nanos(self, text: str) -> int:
        """Nanoseconds since 1970 of a text that has this form. Raises BadValue."""
        found = self.matches(text)
        assert found is not None
        fields = _without_names({name: _value(name, value) for name, value in found.groupdict().items()})
        time_of_day = (fields.get(name, 0) for name in ("hour", "minute", "second"))
        try:
            _check_hour12(fields)
            seconds = dt.datetime(fields["year"], fields["month"], fields["day"], *time_of_day) - _EPOCH
        except ValueError as error:
            raise BadValue(f"{shown(text)} is not a {self._kind}: {error}") from error
        if "weekday" in fields and (seconds.days + 3) % 7 != fields["weekday"]:
            raise BadValue(f"{shown(text)} is not a {self._kind}: that date is another day of the week")
        whole = seconds.days * 86_400 + seconds.seconds - fields.get("offset", 0)
        nanos: int = whole * 10**9 + fields.get("fraction", 0)
        return nanos

    def all_nanos(self, texts: pa.Array) -> Any:
        """The same for an array without nulls, each of this form. Raises Doubt."""
        groups = pc.extract_regex(texts, f"^(?:{self.regex})$")
        fields = {name: _values(name, groups.field(name)) for name in self._fields}
        fields = _without_names(fields)
        for name, (low, high) in _LIMITS.items():
            if name in fields and ((fields[name] < low) | (fields[name] > high)).any():
                raise Doubt(f"a {name} out of range")
        days = _days(fields)
        if "weekday" in fields and ((days + 3) % 7 != fields["weekday"]).any():
            raise Doubt("another day of the week")
        seconds = days * 86_400 - fields.get("offset", 0)
        seconds = seconds + fields.get("hour", 0) * 3600 + fields.get("minute", 0) * 60 + fields.get("second", 0)
        if len(seconds) and np.abs(seconds).max() > _MOST_SECONDS:
            raise Doubt("a timestamp at the end of the range")
        return seconds * 10**9 + fields.get("fraction", 0)

    # -- the pattern ---------------------------------------------------------------------------------

    def _parts(self) -> Iterator[str]:
        """The regular expression, run by run."""
        at = 0
        is_variable = is_digits = False
        while at < len(self._pattern):
            run = _RUN.match(self._pattern, at)
            if run is None:
                raise self._refused("a quote is not closed")
            at = run.end()
            if run[0] in _RESERVED:
                raise self._refused(f"{run[0]} is not supported outside quotes")
            if run[2] is None:
                yield re.escape(run[0] if run[1] is None else run[1].replace("''", "'") or "'")
                is_variable = is_digits = False
                continue
            name, regex = self._field(run[2], run[0])
            varies, has_digits = "{1,2}" in regex, name in (*_DIGITS.values(), "year", "fraction")
            if has_digits and is_digits and (varies or is_variable):
                raise self._refused(f"{run[0]} follows other digits, so their number must be fixed")
            is_variable, is_digits = varies, has_digits
            self._fields.append(name)
            yield f"(?P<{name}>{regex})"

    def _field(self, letter: str, run: str) -> tuple[str, str]:
        """The name of a field and its regular expression."""
        count = len(run)
        if run in ("yyyy", "uuuu"):
            return "year", YEAR.replace("(", "(?:")
        if letter in _DIGITS and count <= 2:
            return _DIGITS[letter], "[0-9]{2}" if count == 2 else "[0-9]{1,2}"
        if letter == "S" and count <= 9:
            return "fraction", f"[0-9]{{{count}}}"
        if run in ("MMM", "MMMM"):
            return "month_name", _any_of(_MONTHS, 3 if count == 3 else None)
        if letter == "E" and count <= 4:
            return "weekday", _any_of(_DAYS, None if count == 4 else 3)
        if run == "a":
            return "half", _any_of(_HALVES, None)
        if run in _OFFSETS:
            return "offset", _OFFSETS[run]
        if run in ("yy", "uu"):
            raise self._refused("a year of two digits is ambiguous")
        raise self._refused(f"{run} is not supported: {_SUPPORTED}")

    def _check_fields(self) -> None:
        fields = ["month" if name == "month_name" else name for name in self._fields]
        if twice := [name for name in fields if fields.count(name) > 1]:
            raise self._refused(f"the {twice[0]} occurs twice")
        if missing := [name for name in ("year", "month", "day") if name not in fields]:
            raise self._refused(f"it has no {missing[0]}")
        if ("hour12" in fields) != ("half" in fields) or {"hour", "hour12"} <= set(fields):
            raise self._refused("h needs a, a needs h, and H needs neither")
        if self._kind == "date" and (others := [name for name in fields if name not in _DATE_FIELDS]):
            raise self._refused(f"a date has no {others[0].removesuffix('12')}")

    def _refused(self, why: str) -> ConfigurationError:
        hint = "; patterns are those of Java, such as yyyy-MM-dd for %Y-%m-%d" if "%" in self._pattern else ""
        return ConfigurationError(f"{self._kind}_formats: the pattern {self.name!r} is not valid: {why}{hint}")


def _any_of(names: tuple[str, ...], length: int | None) -> str:
    return "(?i:" + "|".join(name[:length] for name in names) + ")"


def _value(name: str, text: str) -> int:
    if name == "offset":
        return offset_seconds(text)
    if name == "fraction":
        return int(text.ljust(9, "0"))
    if name in _NAMES:
        return next(place for place, known in enumerate(_NAMES[name]) if known.startswith(text.lower()))
    return int(text)


def _values(name: str, texts: pa.Array) -> Any:
    if name in _NAMES or name == "offset":
        distinct = texts.dictionary_encode()
        found = np.array([_value(name, text) for text in distinct.dictionary.to_pylist()], np.int64)
        return found[distinct.indices.to_numpy()]
    found = texts.cast(pa.int64()).to_numpy()
    return found * 10 ** (9 - len(texts[0].as_py())) if name == "fraction" and len(texts) else found


def _check_hour12(fields: dict[str, int]) -> None:
    if not 1 <= fields.get("hour12", 1) <= 12:
        raise ValueError("hour must be in 1..12")


def _without_names(fields: dict[str, Any]) -> dict[str, Any]:
    """The month and the hour as numbers, of one timestamp or of many."""
    if "month_name" in fields:
        fields["month"] = fields["month_name"] + 1
    if "hour12" in fields:
        fields["hour"] = fields["hour12"] % 12 + 12 * fields["half"]
    return fields


def _days(fields: dict[str, Any]) -> Any:
    """Days since 1970. Raises Doubt for a day that its month does not have."""
    months = (fields["year"] - 1970) * 12 + fields["month"] - 1
    first = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    length = (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64) - first
    if ((fields["day"] < 1) | (fields["day"] > length)).any():
        raise Doubt("a day that its month does not have")
    return first + fields["day"] - 1
