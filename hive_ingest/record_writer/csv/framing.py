"""Divides CSV into records: a newline inside quotes belongs to its field (RFC 4180).

A field is quoted if its first character is a quote. A quote elsewhere in a field that is not quoted is an ordinary
character, as in `5" pipe`. Text between the closing quote and the end of a field makes the record malformed; it ends
where such a field ends. If there is an escape, the character after it is data, in quotes and elsewhere.

Text whose quotes are all where the format has them is divided by whole arrays: there, a newline ends a record exactly
if an even number of quotes precedes it. Other text is divided record by record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from hive_ingest.record_writer.csv.bit_masks import (
    BitMask,
    after_each,
    before_each,
    mask_at,
    mask_of,
    odd_from,
    places_in,
)
from hive_ingest.record_writer.text.blocks import CARRIAGE_RETURN, NEWLINE, count_lines

_NO_PLACES: Final[Any] = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class CsvText:
    """Consecutive whole records.

    Attributes:
        text: The records. Only the last one may lack its newline.
        count: The number of records.
        is_regular: Whether every quote is where the format has it, or is an ordinary character.
        header: The names of the fields, or None if the records have no header.
        given_ends: Where each record ends in `text`, after its newline, as numpy's int64; None if every newline ends
            one, as in most files.
    """

    text: bytes
    count: int
    is_regular: bool
    header: tuple[str, ...] | None = None
    given_ends: Any = None

    @cached_property
    def ends(self) -> Any:
        """Where each record ends, whether or not every newline ends one."""
        if self.given_ends is not None:
            return self.given_ends
        ends = _places_of(NEWLINE, np.frombuffer(self.text, np.uint8)) + 1
        return ends if len(ends) == self.count else np.append(ends, len(self.text))

    def first(self, count: int) -> CsvText:
        """The first records."""
        return self.part(0, min(count, self.count))

    def part(self, first: int, end: int) -> CsvText:
        """The records from number `first` to before number `end`."""
        if first == 0 and end == self.count:
            return self
        start = int(self.ends[first - 1]) if first else 0
        ends = self.ends[first:end] - start
        text = self.text[start : start + int(ends[-1]) if len(ends) else start]
        return replace(self, text=text, count=len(ends), given_ends=None if self.given_ends is None else ends)

    def without_blank_lines(self) -> CsvText:
        """The records that are not empty lines."""
        blank = self._are_blank()
        if not blank.any():
            return self
        lengths = np.diff(self.ends, prepend=0)
        kept = np.frombuffer(self.text, np.uint8)[: int(self.ends[-1])][np.repeat(~blank, lengths)]
        ends = np.cumsum(lengths[~blank])
        return replace(self, text=kept.tobytes(), count=len(ends), given_ends=None if self.given_ends is None else ends)

    @property
    def blank_lines(self) -> int:
        """How many records are empty lines."""
        return int(np.count_nonzero(self._are_blank()))

    def _are_blank(self) -> Any:
        lengths = np.diff(self.ends, prepend=0)
        if not self.count or int(lengths.min()) > 2:
            return np.zeros(self.count, np.bool_)
        data = np.frombuffer(self.text, np.uint8)
        only_end = (lengths == 1) & (data[self.ends - 1] == NEWLINE)
        return only_end | ((lengths == 2) & (data[self.ends - 2] == CARRIAGE_RETURN) & (data[self.ends - 1] == NEWLINE))

    def inner_newlines(self) -> Any:
        """How many newlines are inside the records up to each one, as numpy's int32; None if there are none."""
        if self.given_ends is None:
            return None
        is_open = int(self.count > 0 and not self.text.endswith(b"\n"))
        newlines = _places_of(NEWLINE, np.frombuffer(self.text, np.uint8))
        if len(newlines) + is_open == self.count:
            return None
        found = np.searchsorted(newlines, self.ends) - np.arange(1, self.count + 1)
        found[-1] += is_open
        return found.astype(np.int32)


class CsvFraming:
    """Divides text into records. Has no state: several threads may use it.

    Args:
        field_delimiter: The character between fields.
        quote: The character around a field that has a delimiter, a newline or a quote in it, or empty.
        escape: The character before one that is data, or empty.
    """

    def __init__(self, field_delimiter: bytes, quote: bytes, escape: bytes = b"") -> None:
        self._delimiter = field_delimiter[0]
        self._quote = quote
        self._escape = escape
        if quote:
            self._whole, self._malformed, self._unended = _record_patterns(
                re.escape(field_delimiter), re.escape(quote), re.escape(escape)
            )

    def whole_records(self, text: bytes, *, is_last: bool = False) -> CsvText:
        """The whole records at the start of a text, which begins with one.

        Args:
            text: The text.
            is_last: Whether the text ends here, so that its rest is a record, too.
        """
        data = np.frombuffer(text, np.uint8)
        escaped = _NO_PLACES
        if self._escape and self._escape in text:
            escaped = _after_escapes(_places_of(self._escape[0], data))
        # The end of the text, or of a line, must not be taken for what an escape before it says is data.
        is_whole = not len(escaped) or (int(escaped[-1]) < len(text) - 1 and self._escape + b"\r" not in text)
        if not self._quote or self._quote not in text:
            ends = np.setdiff1d(_places_of(NEWLINE, data), escaped) + 1 if len(escaped) else None
            return _framed(text, ends, is_whole, is_last)
        newlines, quotes = mask_of(data, NEWLINE), mask_of(data, self._quote[0])
        edges = mask_of(data, self._delimiter) | newlines | quotes
        opening_edges = edges
        if len(escaped):
            data_only = mask_at(escaped[escaped < len(text)], len(text))
            opening_edges = edges & ~data_only
            newlines, quotes = newlines & ~data_only, quotes & ~data_only
        quoted = odd_from(quotes)
        # An odd number of quotes says that the last one opens a field, which may be one that is not closed.
        if (not quoted[-1] >> np.uint64(63) or not is_last) and (
            _begin_fields(quotes & quoted, opening_edges) and _end_fields(quotes & ~quoted, edges, data)
        ):
            every = not len(escaped) and not (newlines & quoted).any()
            return _framed(text, None if every else places_in(newlines & ~quoted) + 1, is_whole, is_last)
        found = self._one_by_one(text, is_last=is_last)
        return found if is_whole else replace(found, is_regular=False)

    def ends_in_quotes(self, rest: bytes) -> bool:
        """Whether a record that has no end yet has a quote that is not closed."""
        return bool(self._quote) and self._quote in rest and self._unended.fullmatch(rest) is None

    def _one_by_one(self, text: bytes, *, is_last: bool) -> CsvText:
        ends: list[int] = []
        at, is_regular = 0, True
        while at < len(text):
            found = self._whole.match(text, at)
            if found is None:
                found = self._malformed.match(text, at)
                if found is None:
                    break
                is_regular = False
            ends.append(at := found.end())
        if is_last and at < len(text):
            is_regular = is_regular and self._whole.match(text[at:] + b"\n") is not None
        return _framed(text, np.array(ends, np.int64), is_regular, is_last)


def _begin_fields(quotes: BitMask, edges: BitMask) -> bool:
    """Whether each of the quotes begins a field, or follows another quote, which it doubles."""
    allowed = after_each(edges)
    allowed[0] |= np.uint64(1)
    return not (quotes & ~allowed).any()


def _end_fields(quotes: BitMask, edges: BitMask, data: Any) -> bool:
    """Whether each of the quotes ends a field, or is followed by another quote."""
    last = mask_at([len(data) - 1], len(data))
    others = quotes & ~(before_each(edges) | last)
    if not others.any():
        return True
    # At the end of the text, a carriage return may still be followed by a newline.
    returns = mask_of(data, CARRIAGE_RETURN) & (before_each(mask_of(data, NEWLINE)) | last)
    return not (others & ~before_each(returns)).any()


def _after_escapes(places: Any) -> Any:
    """The bytes that escapes at these places say are data: in a run of escapes, every second one is data itself."""
    numbers = np.arange(len(places))
    starts = np.maximum.accumulate(np.where(np.diff(places, prepend=-2) > 1, numbers, 0))
    return places[(numbers - starts) & 1 == 0] + 1


def _places_of(code: int, data: Any) -> Any:
    """Where a byte occurs."""
    return places_in(mask_of(data, code))


def _framed(text: bytes, ends: Any, is_regular: bool, is_last: bool) -> CsvText:
    """The records that end at `ends`, or None for those that end at every newline."""
    end = text.rfind(b"\n") + 1 if ends is None else int(ends[-1]) if len(ends) else 0
    count = count_lines(text) if ends is None else len(ends)
    if is_last and end < len(text):
        return CsvText(text, count + 1, is_regular, given_ends=None if ends is None else np.append(ends, len(text)))
    return CsvText(text if end == len(text) else text[:end], count, is_regular, given_ends=ends)


def _record_patterns(delimiter: bytes, quote: bytes, escape: bytes) -> tuple[re.Pattern[bytes], ...]:
    """Patterns of a well-formed record with its newline; of any with its newline; of any without one."""
    pair = b"|" + escape + b"." if escape else b""
    inner = b"(?:[^" + quote + escape + b"]++|" + quote + quote + pair + b")*+"
    quoted = quote + inner + quote
    rest = b"(?:[^" + delimiter + escape + b"\\n]++" + pair + b")*+"
    plain = b"(?!" + quote + b")" + rest
    # The carriage return is that of the line's end.
    strict = b"(?:" + quoted + b"(?=" + delimiter + b"|\\r?\\n)|" + plain + b")"
    loose = b"(?:" + quoted + rest + b"|" + plain + b")"

    def record(field: bytes, end: bytes) -> re.Pattern[bytes]:
        return re.compile(field + b"(?:" + delimiter + field + b")*+" + end, re.DOTALL)

    unended = escape + b"?" if escape else b""
    return record(strict, b"\\r?\\n"), record(loose, b"\\n"), record(loose, unended)
