"""A block of delimited lines parsed in one call, with proof that each line became the row that the rules require.

Without quotes, escapes and lone carriage returns, `pyarrow.csv` makes one row of each line, and rejects a wrong
number of fields and invalid values. It accepts more than the rules in some cases, which are checked here and in
`text_columns`: blanks around numbers, hexadecimal numbers, names of infinities, an empty line as a row of empty fields,
a byte order mark.
"""

from __future__ import annotations

import contextlib
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.record_writer.delimited.records import DelimitedFormat
from hive_ingest.record_writer.text.blocks import TextBlock, has_empty_line
from hive_ingest.record_writer.text.columns import FALSE_WORDS, TRUE_WORDS, TextColumns
from hive_ingest.record_writer.typed_columns import TypedColumn

#: Below this many records, a call of the reader costs more than reading them one by one.
MIN_RECORDS: Final = 32
_MAX_BLOCK_BYTES: Final = (1 << 31) - 2
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class DelimitedBlocks:
    """Parses blocks for one schema. Has no state: several threads may use it."""

    def __init__(
        self, columns: list[TypedColumn], order: list[str], format_: DelimitedFormat, schema: pa.Schema
    ) -> None:
        self._columns = TextColumns(columns, schema, format_.forms)
        self._order = order
        self._format = format_
        types = dict(columns)
        #: False if some field has a nested type, which Arrow's reader does not support.
        self._is_possible = not any(types[name].children for name in order)

    def parse(self, block: TextBlock) -> pa.RecordBatch | None:
        """All rows of the block, or None if it must be parsed record by record."""
        if (
            not self._is_possible
            or block.items is not None
            or block.records < MIN_RECORDS
            or len(block.lines) > _MAX_BLOCK_BYTES
        ):
            return None
        for as_text in (False, True) if self._columns.are_coerced else (False,):
            with contextlib.suppress(Doubt):
                return self._parse(block, as_text=as_text)
        return None

    def _parse(self, block: TextBlock, *, as_text: bool) -> pa.RecordBatch:
        """With `as_text`, all columns are read as text, and have the values that `coerce` accepts."""
        text = _plain_lines(block.lines)
        width = self._width(text)
        names = self._order[:width]
        if width > 1 and (as_text or self._may_read_empty_lines(names)) and has_empty_line(text):
            raise Doubt("an empty line")
        if as_text:
            table = self._read(text, width, dict.fromkeys(names, pa.string()))
        else:
            table, numbers_as_text = self._columns.read(
                text,
                self._format.field_delimiter,
                names,
                lambda types: self._read(text, width, dict(zip(names, types, strict=True))),
            )
        if table.num_rows != block.records:
            raise Doubt("rows and records differ")
        self._check_escapes(text, table)
        if as_text:
            return self._columns.coerced_batch(table, names)
        return self._columns.batch(table, names, numbers_as_text)

    def _may_read_empty_lines(self, names: list[str]) -> bool:
        """Whether the reader may accept an empty line: it reads all fields of that row as empty ones."""
        return not self._format.null_format or not self._columns.refuse_empty_fields(names)

    def _width(self, text: bytes) -> int:
        """The number of fields in the first line; the reader fails if another line has a different one."""
        width = len(self._order)
        if self._format.is_lenient:
            width = text.count(self._format.field_delimiter, 0, text.index(b"\n")) + 1
        return width

    def _read(self, text: bytes, width: int, types: dict[str, pa.DataType]) -> pa.Table:
        names = [*types]
        further = [f"further field {place}" for place in range(len(names), width)]
        null = self._format.null_format
        # Without nulls in the text, which is quickly seen, the reader need not compare each field with them.
        nulls = [null.decode()] if all(byte in text for byte in null) else []
        try:
            return pa_csv.read_csv(
                pa.BufferReader(text),
                # One chunk and one thread, because blocks are parsed in parallel.
                read_options=pa_csv.ReadOptions(
                    use_threads=False, block_size=len(text) + 1, column_names=[*names, *further]
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self._format.field_delimiter.decode(),
                    quote_char=False,
                    double_quote=False,
                    escape_char=False,
                    newlines_in_values=False,
                    ignore_empty_lines=False,
                ),
                convert_options=pa_csv.ConvertOptions(
                    check_utf8=not text.isascii(),  # which takes a hundredth of the time
                    column_types=types,
                    include_columns=names,
                    null_values=nulls,
                    strings_can_be_null=bool(nulls),
                    decimal_point=self._format.forms.decimal_point,
                    true_values=TRUE_WORDS,
                    false_values=FALSE_WORDS,
                ),
            )
        except pa.ArrowException as error:
            raise Doubt(str(error)) from error

    def _check_escapes(self, text: bytes, table: pa.Table) -> None:
        """Raises Doubt for an escape that is not part of a null, as the one of \\N is."""
        escape, null = self._format.escape, self._format.null_format
        if not escape or escape not in text:
            return
        in_nulls = null.count(escape) * sum(column.null_count for column in table.columns)
        if null.endswith(escape) or text.count(escape) != in_nulls:
            raise Doubt("an escape")


def _plain_lines(text: bytes) -> bytes:
    """The lines without carriage returns at their ends. Raises Doubt for one elsewhere, which would end a row."""
    if text.startswith(_BYTE_ORDER_MARK):
        raise Doubt("a byte order mark, which the reader drops")
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
        if b"\r" in text:
            raise Doubt("a carriage return inside a record")
    return text
