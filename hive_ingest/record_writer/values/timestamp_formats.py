"""The forms of timestamps that a writer accepts beyond the strict one, and the time zone of their wall clock.

The first form that a text has decides, even if its value is not valid: `13/02/2024` is a bad value for a writer
whose first form is `MM/dd/yyyy`, whatever the forms after it are.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Sequence
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import ConfigurationError
from hive_ingest.record_writer.bad_records import BadValue, Doubt, shown
from hive_ingest.record_writer.values import strict_values
from hive_ingest.record_writer.values.decimal_texts import check_texts
from hive_ingest.record_writer.values.time_zones import time_zone
from hive_ingest.record_writer.values.timestamp_patterns import OFFSET_HOURS, TimestampPattern, offset_seconds
from hive_ingest.record_writer.writer import TIMESTAMP_FORMATS_PROPERTY, RecordSchema

_NANOS_A_DAY: Final = 86_400 * 10**9
_MINUTES: Final = strict_values.DATE + r"[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_ZONE: Final = f"(?:Z|{OFFSET_HOURS}(?::?[0-5][0-9])?)"
_zone = re.compile(_ZONE).search
_UTC: Final = "UTC"
_BEGINNING: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: Digits after the point that make a nanosecond.
_EPOCHS: Final = {"seconds": 9, "millis": 6, "micros": 3, "nanos": 0}
_RFC_1123: Final = "EEE, d MMM yyyy HH:mm:ss z"
#: Every finite number, without rounding.
_EXACT: Final = decimal.Context(
    prec=100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.Inexact, decimal.InvalidOperation]
)
_TOO_LARGE: Final = decimal.Decimal(10) ** 20


class TimestampForm(Protocol):
    """One form of timestamps in text."""

    @property
    def regex(self) -> str:
        """What a text of this form matches, in Python's `re` and in Arrow's RE2."""
        ...

    @property
    def is_instant(self) -> bool:
        """Whether its values are instants; others are the wall clock already."""
        ...

    def nanos(self, text: str) -> int:
        """Nanoseconds since 1970 of a text of this form. Raises BadValue."""
        ...

    def all_nanos(self, texts: pa.Array) -> Any:
        """The same for an array without nulls, each of this form, as numpy's int64. Raises Doubt."""
        ...


class _Clock:
    """`yyyy-mm-dd hh:mm[:ss[.fffffffff]]` in the ways of ISO 8601, or the date alone."""

    def __init__(self, regex: str, *, is_instant: bool = False) -> None:
        self.regex = regex
        self.is_instant = is_instant
        self._arrow = pa.timestamp("ns", _UTC if is_instant else None)

    def nanos(self, text: str) -> int:
        if len(text) == 10:
            return strict_values.date(text) * _NANOS_A_DAY
        zone = _zone(text, 16) if self.is_instant else None
        clock = text[: zone.start()] if zone else text
        nanos = strict_values.clock_nanos(clock if len(clock) > 16 else f"{clock}:00")
        return nanos - offset_seconds(zone[0]) * 10**9 if zone else nanos

    def all_nanos(self, texts: pa.Array) -> Any:
        return _as_numpy(_cast(texts, self._arrow))


class _Epoch:
    """A number of seconds, milliseconds, … since 1970."""

    regex = strict_values.FLOAT.replace("(", "(?:")
    is_instant = True

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._digits = _EPOCHS[unit]
        #: What numbers are read as: the digits of the unscaled value are nanoseconds.
        self.arrow = pa.decimal128(38, self._digits)

    def nanos(self, text: str) -> int:
        try:
            number = decimal.Decimal(text)
        except decimal.InvalidOperation:  # its exponent is
            number = decimal.Decimal("Infinity")
        if number.copy_abs() > _TOO_LARGE:  # abs() refuses large exponents
            raise BadValue(f"{shown(text)} {self._unit} since 1970 are out of range for a timestamp")
        try:
            return int(number.scaleb(self._digits, _EXACT).quantize(decimal.Decimal(1), context=_EXACT))
        except decimal.DecimalException as error:
            raise BadValue(f"{shown(text)} {self._unit} since 1970 are finer than a nanosecond") from error

    def all_nanos(self, texts: pa.Array) -> Any:
        check_texts(texts)
        return self.of_numbers(_cast(pc.replace_substring_regex(texts, r"^\+", ""), self.arrow))

    def of_numbers(self, numbers: pa.Array) -> Any:
        """The nanoseconds of an array of `arrow` without nulls."""
        unscaled = np.frombuffer(numbers.buffers()[1], np.int64)[
            2 * numbers.offset : 2 * (numbers.offset + len(numbers))
        ]
        low, high = unscaled[0::2], unscaled[1::2]
        if (high != low >> 63).any():
            raise Doubt("a number of too many digits")
        return low


_HIVE: Final = (_Clock(strict_values.TIMESTAMP.replace("(", "(?:")),)
_ISO: Final = (_Clock(_MINUTES), _Clock(_MINUTES + _ZONE, is_instant=True))
_DATE: Final = (_Clock(strict_values.DATE.replace("(", "(?:")),)
#: The names that are not patterns. Hive has millis, iso8601 and rfc1123.
_NAMED: Final[dict[str, tuple[TimestampForm, ...]]] = {
    "hive": _HIVE,
    "iso8601": _ISO,
    "date": _DATE,
    "rfc1123": (TimestampPattern("rfc1123", _RFC_1123),),
}


class TimestampFormats:
    """Reads timestamps in some forms. Has no state: several threads may use it.

    Args:
        formats: Names (`hive`, `iso8601`, `date`, `rfc1123`, `seconds`, `millis`, `micros`, `nanos`) and patterns of
            Java's DateTimeFormatter, in the order in which they are tried. None: only Hive's own form.
        timezone: The IANA name of the zone whose wall clock the timestamps of instants are. Default: UTC.

    Raises:
        ConfigurationError: A format or the time zone is not valid.
    """

    def __init__(self, formats: Sequence[str] | None = None, timezone: str | None = None) -> None:
        if isinstance(formats, str) or formats == []:
            raise ConfigurationError(f"timestamp_formats={formats!r} is not valid: give a list of one or more formats")
        if timezone is not None and formats is None:
            raise ConfigurationError(
                f"timezone={timezone!r} has no effect without timestamp_formats: name the formats with a zone or offset"
            )
        self._formats = None if formats is None else tuple(formats)
        self._zone = _Zone(_UTC if timezone is None else timezone)
        self._epoch: _Epoch | None = None
        self._forms = [form for name in self._formats or ("hive",) for form in self._forms_of(name)]
        check_distinct("timestamp_formats", self._forms)
        self._matches = [re.compile(form.regex).fullmatch for form in self._forms]

    @property
    def is_strict(self) -> bool:
        """Whether no formats were chosen."""
        return self._formats is None

    @property
    def number_type(self) -> pa.DataType | None:
        """The type to read JSON numbers as, or None if they are not timestamps."""
        return self._epoch.arrow if self._epoch else None

    def nanos(self, text: str) -> int:
        """The wall clock of a timestamp, as nanoseconds since 1970. Raises BadValue."""
        for form, matches in zip(self._forms, self._matches, strict=True):
            if matches(text):
                return strict_values.held_nanos(self._wall(form, form.nanos(text), text), text)
        if self._formats is not None:
            raise BadValue(f"{shown(text)} has none of the forms in timestamp_formats={list(self._formats)}")
        raise BadValue(
            f"{shown(text)} is not a timestamp of the form yyyy-mm-dd hh:mm:ss[.fffffffff], without a zone; "
            f"{_suggestion(text)}"
        )

    def number_nanos(self, text: str) -> int:
        """The same for the text of a JSON number. Raises BadValue."""
        if self._epoch is None:
            raise BadValue(
                f"{text[:40]} is a number, timestamp requires a JSON string; for numbers since 1970 add their unit, "
                "such as 'millis', to timestamp_formats"
            )
        return strict_values.held_nanos(self._wall(self._epoch, self._epoch.nanos(text), text), text)

    def array(self, texts: pa.Array) -> pa.Array:
        """The timestamps of an array of texts. Raises Doubt."""
        places = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        nanos = np.zeros(len(texts), np.int64)
        left = texts.drop_null() if texts.null_count else texts
        for form in self._forms:
            if not len(left):
                break
            matched = pc.match_substring_regex(left, f"^(?:{form.regex})$")
            is_matched = matched.to_numpy(zero_copy_only=False)
            if is_matched.any():
                chosen = left if is_matched.all() else left.filter(matched)
                nanos[places[is_matched]] = self._all_walls(form, form.all_nanos(chosen))
                left, places = left.filter(pc.invert(matched)), places[~is_matched]
        if len(left):
            raise Doubt("a timestamp of another form")
        return _timestamps(nanos, texts)

    def from_numbers(self, numbers: pa.Array) -> pa.Array:
        """The timestamps of an array of `number_type`. Raises Doubt."""
        assert self._epoch is not None
        nanos = np.zeros(len(numbers), np.int64)
        is_valid = numbers.is_valid().to_numpy(zero_copy_only=False)
        nanos[is_valid] = self._all_walls(self._epoch, self._epoch.of_numbers(numbers.drop_null()))
        return _timestamps(nanos, numbers)

    def _forms_of(self, name: str) -> tuple[TimestampForm, ...]:
        if name in _NAMED:
            return _NAMED[name]
        if name not in _EPOCHS:
            return (TimestampPattern(name, name),)
        if self._epoch is not None:
            raise ConfigurationError(
                f"timestamp_formats={list(self._formats or ())}: a number cannot be in two units, name one of "
                f"{', '.join(_EPOCHS)}"
            )
        self._epoch = _Epoch(name)
        return (self._epoch,)

    def _wall(self, form: TimestampForm, nanos: int, text: str) -> int:
        if not form.is_instant:
            return nanos
        try:
            return self._zone.wall(nanos)
        except OverflowError:
            return strict_values.held_nanos(nanos, text)  # raises: it is far outside the range

    def _all_walls(self, form: TimestampForm, nanos: Any) -> Any:
        return self._zone.all_walls(nanos) if form.is_instant else nanos


class TimestampOptions:
    """The options `timestamp_formats` and `timezone` of a writer.

    Raises:
        ConfigurationError: A format or the time zone is not valid.
    """

    def __init__(self, formats: Sequence[str] | None, timezone: str | None) -> None:
        self._formats = formats
        self._timezone = timezone
        if formats is not None or timezone is not None:
            TimestampFormats(["iso8601"] if formats is None else formats, timezone)

    def for_schema(self, schema: RecordSchema) -> TimestampFormats:
        """The formats for a table: those of the writer, else those of the table's property.

        Raises:
            ConfigurationError: The table's property is not valid, or there is a time zone but no format.
        """
        if self._formats is not None or not schema.timestamp_formats:
            return TimestampFormats(self._formats, self._timezone)
        try:
            return TimestampFormats([*schema.timestamp_formats, "hive"], self._timezone)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"the table's property {TIMESTAMP_FORMATS_PROPERTY!r} cannot be used: {error}. To ignore it, set "
                "timestamp_formats"
            ) from error


class _Zone:
    """The wall clock of a time zone."""

    def __init__(self, name: str) -> None:
        self._is_utc = name == _UTC
        try:
            self._zone = ZoneInfo(name) if not self._is_utc else None
            self._offsets = time_zone(name)
        except (KeyError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"timezone={name!r} is not known: give an IANA name such as 'Europe/Berlin'"
            ) from error

    def wall(self, nanos: int) -> int:
        """Raises OverflowError outside the years 1 to 9999."""
        if self._zone is None:
            return nanos
        offset = (_BEGINNING + dt.timedelta(seconds=nanos // 10**9)).astimezone(self._zone).utcoffset()
        assert offset is not None
        return nanos + (offset.days * 86_400 + offset.seconds) * 10**9

    def all_walls(self, nanos: Any) -> Any:
        """Raises Doubt if a wall clock is outside the range of a timestamp."""
        return nanos if self._is_utc else self._offsets.wall_clocks(nanos, 10**9)


def check_distinct(option: str, forms: Sequence[TimestampForm]) -> None:
    """Two patterns of the same digits, such as dd/MM/yyyy and MM/dd/yyyy, would make the second one useless.

    Raises:
        ConfigurationError: There are two; names the option.
    """
    known: dict[str, str] = {}
    for form in forms:
        if isinstance(form, TimestampPattern):
            digits = re.sub(r"\?P<\w+>", "", form.regex)
            if digits in known:
                raise ConfigurationError(
                    f"{option}: every text that has the form {form.name!r} also has the form "
                    f"{known[digits]!r}; name only one of them"
                )
            known[digits] = form.name


def _suggestion(text: str) -> str:
    """What to do to have the text accepted."""
    for name, forms in _NAMED.items():
        if any(re.fullmatch(form.regex, text) for form in forms):
            return f"to accept it, add {name!r} to timestamp_formats"
    if re.fullmatch(_Epoch.regex, text):
        return "for numbers since 1970 add their unit, such as 'millis', to timestamp_formats"
    return "to accept it, add its pattern to timestamp_formats"


def _timestamps(nanos: Any, source: pa.Array) -> pa.Array:
    mask = source.is_null().to_numpy(zero_copy_only=False) if source.null_count else None
    return pa.array(nanos, pa.int64(), mask=mask).view(pa.timestamp("ns"))


def _as_numpy(array: pa.Array) -> Any:
    return array.view(pa.int64()).to_numpy()


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return array.cast(type_)
    except pa.ArrowException as error:
        raise Doubt(str(error)) from error


#: Only Hive's own form.
STRICT_TIMESTAMPS: Final = TimestampFormats()
