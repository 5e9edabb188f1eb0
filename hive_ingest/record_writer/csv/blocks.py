"""A block of CSV records parsed in one call, with proof that each became the row that the rules require.

`pyarrow.csv` divides regular text into records and fields as `csv_framing` does. What it accepts beyond the rules is
checked here and in `text_columns`: numbers with blanks or in hexadecimal, a lone carriage return as the end of a
record, an empty line as a row of empty fields, a byte order mark.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.record_writer.csv.fields import CsvFields, CsvFormat
from hive_ingest.record_writer.csv.framing import CsvFraming, CsvText
from hive_ingest.record_writer.csv.layout import CsvLayout
from hive_ingest.record_writer.text.blocks import has_empty_line
from hive_ingest.record_writer.text.columns import FALSE_WORDS, TRUE_WORDS, TextColumns
from hive_ingest.record_writer.typed_columns import TypedColumn

#: Below this many records, a call of the reader costs more than reading them one by one.
MIN_RECORDS: Final = 32
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_MAX_BLOCK_BYTES: Final = (1 << 31) - 2


@dataclass(frozen=True, slots=True)
class CsvBlock:
    """Consecutive records, each with a newline at its end."""

    text: CsvText
    first_record: int
    first_offset: int

    @property
    def records(self) -> int:
        return self.text.count

    @property
    def nbytes(self) -> int:
        return len(self.text.text)

    @property
    def can_be_halved(self) -> bool:
        return True

    def split(self) -> list[bytes]:
        """The records, without the ends of their lines."""
        text, starts = self.text.text, self._starts()
        ends = self.text.ends.tolist()
        return [text[start : end - 1].removesuffix(b"\r") for start, end in zip(starts, ends, strict=True)]

    def offsets(self) -> list[int]:
        """The byte at which each record starts."""
        return [self.first_offset + start for start in self._starts()]

    def halves(self) -> tuple[CsvBlock, CsvBlock]:
        """The block in two parts. It must have at least two records."""
        middle = self.records // 2
        first, second = self.text.part(0, middle), self.text.part(middle, self.records)
        return (
            CsvBlock(first, self.first_record, self.first_offset),
            CsvBlock(second, self.first_record + middle, self.first_offset + len(first.text)),
        )

    def without_blank_lines(self) -> CsvBlock:
        """The block without the records that are empty lines; its records have other numbers and offsets."""
        text = self.text.without_blank_lines()
        return self if text is self.text else replace(self, text=text)

    def _starts(self) -> list[int]:
        return [0, *self.text.ends[:-1].tolist()]


class CsvBlocks:
    """Parses blocks of one layout. Has no state: several threads may use it."""

    def __init__(
        self, columns: list[TypedColumn], layout: CsvLayout, format_: CsvFormat, framing: CsvFraming, schema: pa.Schema
    ) -> None:
        self._columns = TextColumns(columns, schema, format_.forms)
        self._layout = layout
        self._format = format_
        self._framing = framing
        self._fields = CsvFields(format_)

    def parse(self, block: CsvBlock) -> pa.RecordBatch | None:
        """All rows of the block, or None if it must be parsed record by record."""
        if block.records < MIN_RECORDS or block.nbytes > _MAX_BLOCK_BYTES or not self._is_regular(block.text):
            return None
        for as_text in (False, True) if self._columns.are_coerced else (False,):
            with contextlib.suppress(Doubt):
                return self._parse(block, as_text=as_text)
        return None

    def _is_regular(self, text: CsvText) -> bool:
        if text.is_regular:
            return True
        # Only another part of what was framed together may have been irregular.
        again = self._framing.whole_records(text.text)
        return again.is_regular and np.array_equal(again.ends, text.ends)

    def _parse(self, block: CsvBlock, *, as_text: bool) -> pa.RecordBatch:
        """With `as_text`, all columns are read as text, and have the values that `coerce` accepts."""
        text = block.text.text
        _check_line_ends(text)
        has_escapes = bool(self._format.escape) and self._format.escape in text
        if has_escapes and any(self._format.null_values):
            raise Doubt("an escape, beside texts that are null as they are written")
        if has_escapes and self._format.escape + b"\r" in text:
            raise Doubt("an escape before a carriage return, which may be that of the line's end")
        edges = self._format.field_delimiter + self._format.quote + b"\r" * (b"\r" in text)
        width = self._width(block)
        if width > 1 and _has_empty_record(block.text):
            raise Doubt("an empty line")
        # The reader knows the fields by their places, because ignored ones may share a name.
        places = {str(place): name for place, name in enumerate(self._layout.fields[:width]) if name is not None}
        if not places:
            raise Doubt("no field is read")
        names = [*places.values()]
        if as_text:
            table = self._read(text, width, dict.fromkeys(places, pa.string()), has_escapes=has_escapes)
        else:
            table, numbers_as_text = self._columns.read(
                text,
                edges,
                names,
                lambda types: self._read(text, width, dict(zip(places, types, strict=True)), has_escapes=has_escapes),
                numbers_as_text=has_escapes,
            )
        if table.num_rows != block.records:
            raise Doubt("rows and records differ")
        if as_text:
            return self._columns.coerced_batch(table, names)
        return self._columns.batch(table, names, numbers_as_text)

    def _width(self, block: CsvBlock) -> int:
        """The number of fields in the first record; the reader fails if another one has a different one."""
        if not self._format.is_lenient:
            return len(self._layout.fields)
        return len(self._fields.split(block.text.part(0, 1).text.removesuffix(b"\n").removesuffix(b"\r")))

    def _read(self, text: bytes, width: int, types: dict[str, pa.DataType], *, has_escapes: bool) -> pa.Table:
        """With the types of the places that are read."""
        try:
            return pa_csv.read_csv(
                pa.BufferReader(text),
                # One chunk and one thread, because blocks are parsed in parallel.
                read_options=pa_csv.ReadOptions(
                    use_threads=False, block_size=len(text) + 1, column_names=[str(place) for place in range(width)]
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self._format.field_delimiter.decode(),
                    quote_char=self._format.quote.decode() or False,
                    double_quote=True,
                    escape_char=self._format.escape.decode() if has_escapes else False,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                ),
                convert_options=pa_csv.ConvertOptions(
                    check_utf8=not text.isascii(),  # which takes a hundredth of the time
                    column_types=types,
                    include_columns=[*types],
                    null_values=[text.decode() for text in self._format.null_values],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    decimal_point=self._format.forms.decimal_point,
                    true_values=TRUE_WORDS,
                    false_values=FALSE_WORDS,
                ),
            )
        except pa.ArrowException as error:
            raise Doubt(str(error)) from error


def _check_line_ends(text: bytes) -> None:
    if text.startswith(BYTE_ORDER_MARK):
        raise Doubt("a byte order mark, which the reader drops")
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        raise Doubt("a carriage return that may not be at the end of a line")


def _has_empty_record(text: CsvText) -> bool:
    if b"\r" not in text.text and not has_empty_line(text.text):
        return False
    lengths = np.diff(text.ends, prepend=0)
    short = lengths <= 2
    if not short.any():
        return False
    data: Any = np.frombuffer(text.text, np.uint8)
    return bool((lengths == 1).any() or (data[text.ends[short] - 2] == ord("\r")).any())
