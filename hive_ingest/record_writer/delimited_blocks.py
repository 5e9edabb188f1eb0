"""A block of delimited lines parsed in one call, with proof that each line became the row that the rules require.

Without quotes, escapes and lone carriage returns, `pyarrow.csv` makes one row of each line, and rejects a wrong
number of fields and invalid values. It accepts more than the rules in some cases, which are checked here: blanks
around numbers, hexadecimal numbers, names of infinities, an empty line as a row of empty fields, a byte order mark.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from hive_ingest.record_writer import strict_arrays
from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.record_writer.delimited_records import DelimitedFormat
from hive_ingest.record_writer.text_blocks import NEWLINE, TextBlock, has_empty_line
from hive_ingest.record_writer.typed_columns import TypedColumn
from hive_ingest.schema import HiveType

#: Below this many records, a call of the reader costs more than reading them one by one.
MIN_RECORDS: Final = 32
_MAX_BLOCK_BYTES: Final = (1 << 31) - 2
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NUMBERS: Final = (*strict_arrays.INTEGERS, "float", "double", "decimal")
#: Bytes that are scanned at once, so that the temporary arrays stay in the processor's cache: 0.5 ms for 1 MiB of
#: text. With 1 MiB at once it takes 1.6 ms, a tenth of the processor time of ingesting delimited text.
_SCAN_BYTES: Final = 1 << 17
_TRUE, _FALSE = ["true", "TRUE", "True"], ["false", "FALSE", "False"]


class DelimitedBlocks:
    """Parses blocks for one schema. Has no state: several threads may use it."""

    def __init__(
        self, columns: list[TypedColumn], order: list[str], format_: DelimitedFormat, schema: pa.Schema
    ) -> None:
        self._columns = columns
        self._types = dict(columns)
        self._order = order
        self._format = format_
        self._schema = schema
        self._has_numbers = any(type_.kind in _NUMBERS for _, type_ in columns)

    def parse(self, block: TextBlock) -> pa.RecordBatch | None:
        """All rows of the block, or None if it must be parsed record by record."""
        if block.items is not None or block.records < MIN_RECORDS or len(block.lines) > _MAX_BLOCK_BYTES:
            return None
        try:
            return self._parse(block)
        except Doubt:
            return None

    def _parse(self, block: TextBlock) -> pa.RecordBatch:
        text = _plain_lines(block.lines)
        width = self._width(text)
        if width > 1 and has_empty_line(text):
            raise Doubt("an empty line")
        numbers_as_text = self._has_numbers and _has_loose_numbers(text, self._format.field_delimiter[0])
        table = self._read(text, width, numbers_as_text)
        if table.num_rows != block.records:
            raise Doubt("rows and records differ")
        self._check_escapes(text, table)
        return self._batch(table, numbers_as_text)

    def _width(self, text: bytes) -> int:
        """The number of fields in the first line; the reader fails if another line has a different one."""
        width = len(self._order)
        if self._format.is_lenient:
            width = text.count(self._format.field_delimiter, 0, text.index(b"\n")) + 1
        return width

    def _read(self, text: bytes, width: int, numbers_as_text: bool) -> pa.Table:
        names = self._order[:width]
        further = [f"further field {place}" for place in range(len(names), width)]
        types = {name: _wire_type(self._types[name], numbers_as_text) for name in names}
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
                    check_utf8=True,
                    column_types=types,
                    include_columns=names,
                    null_values=[self._format.null_format.decode()],
                    strings_can_be_null=True,
                    true_values=_TRUE,
                    false_values=_FALSE,
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

    def _batch(self, table: pa.Table, numbers_as_text: bool) -> pa.RecordBatch:
        read = set(table.column_names)
        arrays = [
            self._from_wire(_single_chunk(table[name]), type_, numbers_as_text)
            if name in read
            else pa.nulls(table.num_rows, type_.arrow)
            for name, type_ in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _from_wire(self, array: pa.Array, type_: HiveType, numbers_as_text: bool) -> pa.Array:
        if type_.kind in ("boolean", "string"):
            return array
        if type_.kind not in _NUMBERS:
            return strict_arrays.from_text(array, type_, self._format.timestamps)
        if numbers_as_text:
            return strict_arrays.numbers_from_text(array, type_)
        return strict_arrays.numbers(array, type_)


def _plain_lines(text: bytes) -> bytes:
    """The lines without carriage returns at their ends. Raises Doubt for one elsewhere, which would end a row."""
    if text.startswith(_BYTE_ORDER_MARK):
        raise Doubt("a byte order mark, which the reader drops")
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
        if b"\r" in text:
            raise Doubt("a carriage return inside a record")
    return text


def _has_loose_numbers(text: bytes, delimiter: int) -> bool:
    """Whether a field starts or ends with a blank, or starts with 0x; it may be a number."""
    data = np.frombuffer(text, np.uint8)
    start = np.frombuffer(b"\n" + text[:3], np.uint8)  # the first field has no edge before it
    return _is_loose(start, delimiter) or any(
        _is_loose(data[max(at - 2, 0) : at + _SCAN_BYTES + 1], delimiter) for at in range(0, len(data), _SCAN_BYTES)
    )


def _is_loose(data: Any, delimiter: int) -> bool:
    edge = (data == delimiter) | (data == NEWLINE)
    is_blank = np.zeros(len(data), np.bool_)
    for blank in b" \t":
        if blank != delimiter:
            is_blank |= data == blank
    if (is_blank[1:] & edge[:-1]).any() or (is_blank[:-1] & edge[1:]).any():
        return True
    hexadecimal = (data[2:] | 0x20) == ord("x")
    hexadecimal &= data[1:-1] == ord("0")
    if not hexadecimal.any():
        return False
    sign = (data == ord("-")) | edge
    return bool((hexadecimal & sign[:-2]).any())


def _wire_type(type_: HiveType, numbers_as_text: bool) -> pa.DataType:
    if type_.kind == "boolean":
        return pa.bool_()
    if type_.kind not in _NUMBERS or numbers_as_text:
        return pa.string()
    return pa.float64() if type_.kind == "float" else type_.arrow


def _single_chunk(column: Any) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
