"""The forms that values of text columns may have: timestamps and dates by patterns, numbers with a decimal comma."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from hive_ingest.errors import ConfigurationError
from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.options import check_choice
from hive_ingest.record_writer.values import hive_values, strict_values
from hive_ingest.record_writer.values.coercion import COERCIONS, Coerce, naming_option, text_converter
from hive_ingest.record_writer.values.timestamp_formats import STRICT_TIMESTAMPS, TimestampFormats, check_distinct
from hive_ingest.record_writer.values.timestamp_patterns import TimestampPattern
from hive_ingest.schema import HiveType

#: The character before the fraction of a number.
DecimalPoint = Literal[".", ","]
_NANOS_A_DAY: Final = 86_400 * 10**9
_BLANKS: Final = " \t"
#: Types whose values may have a fraction in text; with `coerce="lossless"` whole numbers may have one of zeros.
_NUMBERS: Final = (*strict_values.INTEGER_BITS, "float", "double", "decimal")


class DateFormats:
    """Reads dates of some patterns. Has no state: several threads may use it.

    Args:
        formats: Patterns of Java's DateTimeFormatter, in the order in which they are tried.

    Raises:
        ConfigurationError: A pattern is not valid, or two have the same form.
    """

    def __init__(self, formats: Sequence[str]) -> None:
        if isinstance(formats, str) or not formats:
            raise ConfigurationError(f"date_formats={formats!r} is not valid: give a list of one or more patterns")
        self._formats = tuple(formats)
        self._patterns = [TimestampPattern(pattern, pattern, kind="date") for pattern in formats]
        check_distinct("date_formats", self._patterns)

    def days(self, text: str) -> int:
        """The days since 1970-01-01 of a date. Raises BadValue."""
        for pattern in self._patterns:
            if pattern.matches(text):
                return pattern.nanos(text) // _NANOS_A_DAY
        raise BadValue(f"{shown(text)} has none of the forms in date_formats={list(self._formats)}")


@dataclass(frozen=True, slots=True)
class TextForms:
    """Which forms of values are accepted.

    Attributes:
        timestamps: The forms of timestamps.
        coerce: Which further texts are accepted.
        dates: The forms of dates, or None for Hive's alone.
        decimal_point: The character before the fraction of a number.
    """

    timestamps: TimestampFormats = STRICT_TIMESTAMPS
    coerce: Coerce = "strict"
    dates: DateFormats | None = None
    decimal_point: str = "."


def text_forms(
    *, coerce: Coerce, date_formats: Sequence[str] | None, decimal_point: str, characters: Mapping[str, str | None]
) -> TextForms:
    """The forms of a writer's options; those of timestamps depend on the table.

    Args:
        coerce: The option of that name.
        date_formats: The option of that name.
        decimal_point: The option of that name.
        characters: Characters with another meaning, by the names of their options.

    Raises:
        ConfigurationError: An option is not valid, or `decimal_point` cannot be combined with another one.
    """
    check_choice("coerce", coerce, COERCIONS)
    check_choice("decimal_point", decimal_point, (".", ","))
    if decimal_point != ".":
        _check_combination(decimal_point, coerce, characters)
    dates = None if date_formats is None else DateFormats(date_formats)
    return TextForms(coerce=coerce, dates=dates, decimal_point=decimal_point)


def _check_combination(decimal_point: str, coerce: Coerce, characters: Mapping[str, str | None]) -> None:
    if same := [name for name, value in characters.items() if value == decimal_point]:
        raise ConfigurationError(f"decimal_point={decimal_point!r} is the {same[0]} too: choose another {same[0]}")
    if coerce == "hive":
        raise ConfigurationError(
            f"decimal_point={decimal_point!r} cannot be combined with coerce='hive', because Hive has no such option: "
            "use coerce='lossless'"
        )


def field_converter(type_: HiveType, forms: TextForms) -> strict_values.Converter:
    """The converter of a field to a primitive type. With `coerce="hive"` it may return None."""
    if type_.kind == "date" and forms.dates is not None:
        return _date_converter(forms.dates, forms.coerce)
    convert = text_converter(type_, forms.timestamps, forms.coerce)
    if forms.decimal_point == "." or type_.kind not in _NUMBERS:
        return convert
    return _with_decimal_point(convert, forms.decimal_point)


def _date_converter(dates: DateFormats, coerce: Coerce) -> strict_values.Converter:
    def trimmed(text: str) -> int:
        return dates.days(text.strip(_BLANKS))

    if coerce == "strict":
        return naming_option(dates.days, trimmed)
    return trimmed if coerce == "lossless" else hive_values.null_if_bad(trimmed)


def _with_decimal_point(convert: strict_values.Converter, decimal_point: str) -> strict_values.Converter:
    """The converter for numbers with that character before their fraction; "1.234,5" is none."""

    def from_text(text: str) -> object:
        if "." in text:
            raise BadValue(f"{shown(text)} has a '.', and decimal_point is {decimal_point!r}")
        try:
            return convert(text.replace(decimal_point, "."))
        except BadValue as bad:
            if decimal_point not in text:
                raise
            raise BadValue(f"{shown(text)} with decimal_point={decimal_point!r}: {bad}") from bad

    return from_text
