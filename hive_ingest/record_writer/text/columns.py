"""Columns that Arrow's CSV reader has read, as those of a table.

The reader accepts more numbers than the rules: with blanks around them, and hexadecimal ones. No number is such a one
if the columns of text have every blank and every x of the input, which is quickly counted. Where another field may be
such a number (`has_loose_numbers`), numbers are read as text and checked.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.record_writer.bad_records import BadValue, Doubt
from hive_ingest.record_writer.text.blocks import NEWLINE, SCAN_BYTES, count_byte
from hive_ingest.record_writer.typed_columns import TypedColumn
from hive_ingest.record_writer.values import strict_arrays
from hive_ingest.record_writer.values.decimal_texts import check_block
from hive_ingest.record_writer.values.strict_values import Converter
from hive_ingest.record_writer.values.text_forms import TextForms, field_converter
from hive_ingest.schema import HiveType

#: The words of booleans; the other spellings that the rules accept are read record by record.
TRUE_WORDS: Final = ["true", "TRUE", "True"]
FALSE_WORDS: Final = ["false", "FALSE", "False"]
_NUMBERS: Final = (*strict_arrays.INTEGERS, "float", "double", "decimal")
_BLANKS: Final = b" \t"
_HEXADECIMAL: Final = b"xX"


class TextColumns:
    """The columns of one schema. Has no state: several threads may use it."""

    def __init__(self, columns: list[TypedColumn], schema: pa.Schema, forms: TextForms) -> None:
        self._columns = columns
        self._types = dict(columns)
        self._schema = schema
        self._forms = forms
        self._converters = {
            name: field_converter(type_, forms)
            for name, type_ in columns
            if type_.kind != "string" and not type_.children
        }
        #: Whether there are values that the strict rules do not accept.
        self.are_coerced = forms.coerce != "strict"
        self._has_numbers = any(type_.kind in _NUMBERS for _, type_ in columns)

    def refuse_empty_fields(self, names: list[str]) -> bool:
        """Whether one of the columns cannot be read from an empty field, unless that stands for null."""
        return any(self._types[name].kind in (*_NUMBERS, "boolean") for name in names)

    def read(
        self,
        text: bytes,
        delimiters: bytes,
        names: list[str],
        read: Callable[[list[pa.DataType]], pa.Table],
        *,
        numbers_as_text: bool = False,
    ) -> tuple[pa.Table, bool]:
        """What the reader reads from the lines of a text, and whether it has read numbers as text.

        Args:
            text: The lines.
            delimiters: As for `has_loose_numbers`.
            names: The columns to read.
            read: Reads them as these types.
            numbers_as_text: Read numbers as text in any case, because an edge of a field may be escaped.

        Raises:
            Doubt: The lines cannot be read.
        """
        if numbers_as_text and self._has_numbers:
            return read(self._wire_types(names, numbers_as_text=True)), True
        if any(self._types[name].kind == "decimal" for name in names):
            check_block(text, self._forms.decimal_point)
        table = None
        with contextlib.suppress(Doubt):
            table = read(self._wire_types(names, numbers_as_text=False))
            if not self._has_numbers or _are_in_texts(_BLANKS + _HEXADECIMAL, text, delimiters, table):
                return table, False
        if has_loose_numbers(text, delimiters):
            return read(self._wire_types(names, numbers_as_text=True)), True
        if table is None:
            raise Doubt("a field cannot be read")
        return table, False

    def _wire_types(self, names: list[str], *, numbers_as_text: bool) -> list[pa.DataType]:
        return [_wire_type(self._types[name], numbers_as_text) for name in names]

    def batch(self, table: pa.Table, names: list[str], numbers_as_text: bool) -> pa.RecordBatch:
        """The rows.

        Args:
            table: What the reader has read.
            names: The columns of the table that it has; the others are null.
            numbers_as_text: Whether it has read numbers as text.

        Raises:
            Doubt: A value may break a rule.
        """
        read = dict(zip(names, table.columns, strict=True))
        arrays = [
            self._from_wire(_single_chunk(read[name]), name, type_, numbers_as_text)
            if name in read
            else pa.nulls(table.num_rows, type_.arrow)
            for name, type_ in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def coerced_batch(self, table: pa.Table, names: list[str]) -> pa.RecordBatch:
        """The same for columns that were all read as text, with the values that `coerce` accepts. Raises Doubt."""
        read = dict(zip(names, table.columns, strict=True))
        arrays = [
            self._coerced(_single_chunk(read[name]), name, type_)
            if name in read
            else pa.nulls(table.num_rows, type_.arrow)
            for name, type_ in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _coerced(self, array: pa.Array, name: str, type_: HiveType) -> pa.Array:
        if type_.kind == "string":
            return array
        if type_.kind != "boolean":
            with contextlib.suppress(Doubt):
                return self._from_wire(array, name, type_, numbers_as_text=True)
        return converted(array, self._converters[name], type_)

    def _from_wire(self, array: pa.Array, name: str, type_: HiveType, numbers_as_text: bool) -> pa.Array:
        if type_.kind in ("boolean", "string"):
            return array
        if type_.kind == "date" and self._forms.dates is not None:
            return strict_arrays.readable_by_hive(converted(array, self._converters[name], type_))
        if type_.kind not in _NUMBERS:
            return strict_arrays.from_text(array, type_, self._forms.timestamps)
        if numbers_as_text:
            return strict_arrays.numbers_from_text(self._with_points(array), type_)
        return strict_arrays.numbers(array, type_)

    def _with_points(self, numbers: pa.Array) -> pa.Array:
        """Texts of numbers, with a point before their fraction. Raises Doubt for one that has a point already."""
        if self._forms.decimal_point == ".":
            return numbers
        if pc.any(pc.match_substring(numbers, ".")).as_py():
            raise Doubt("a point in a number with another decimal point")
        return pc.replace_substring(numbers, self._forms.decimal_point, ".")


def _wire_type(type_: HiveType, numbers_as_text: bool) -> pa.DataType:
    """What the reader reads a column as."""
    if type_.kind == "boolean":
        return pa.bool_()
    if type_.kind not in _NUMBERS or numbers_as_text:
        return pa.string()
    return pa.float64() if type_.kind == "float" else type_.arrow


def converted(array: pa.Array, convert: Converter, type_: HiveType) -> pa.Array:
    """The values of an array of texts, of which each distinct one is converted once. Raises Doubt for a bad one."""
    encoded = array.dictionary_encode()
    try:
        values = [convert(text) for text in encoded.dictionary.to_pylist()]
    except BadValue as bad:
        raise Doubt(str(bad)) from bad
    return pa.array(values, type_.arrow).take(encoded.indices)


def _are_in_texts(characters: bytes, text: bytes, delimiters: bytes, table: pa.Table) -> bool:
    """Whether none of these characters, except delimiters, is in a field that is not text."""
    arrays = [chunk for column in table.columns if column.type == pa.string() for chunk in column.chunks if len(chunk)]
    return all(
        count_byte(text, character) == sum(count_byte(strict_arrays.text_bytes(array), character) for array in arrays)
        for character in characters
        if character not in delimiters and character in text
    )


def has_loose_numbers(text: bytes, delimiters: bytes) -> bool:
    """Whether a field starts or ends with a blank, or starts with 0x; it may be a number.

    Args:
        text: Lines.
        delimiters: The characters besides a newline that may be before or after a field.
    """
    # Looking for a byte that does not occur takes a tenth of comparing all bytes with it.
    blanks = bytes(blank for blank in _BLANKS if blank not in delimiters and blank in text)
    letters = bytes(letter for letter in _HEXADECIMAL if letter in text)
    if not blanks and not letters:
        return False
    data = np.frombuffer(text, np.uint8)
    start = np.frombuffer(b"\n" + text[:3], np.uint8)  # the first field has no edge before it
    parts = (data[max(at - 2, 0) : at + SCAN_BYTES + 1] for at in range(0, len(data), SCAN_BYTES))
    return any(_is_loose(part, delimiters, blanks, letters) for part in itertools.chain([start], parts))


def _is_loose(data: Any, delimiters: bytes, blanks: bytes, letters: bytes) -> bool:
    edge = data == NEWLINE
    for delimiter in delimiters:
        edge |= data == delimiter
    for blank in blanks:
        is_blank = data == blank
        if (is_blank[1:] & edge[:-1]).any() or (is_blank[:-1] & edge[1:]).any():
            return True
    for letter in letters:
        hexadecimal = data[2:] == letter
        hexadecimal &= data[1:-1] == ord("0")
        if hexadecimal.any() and (hexadecimal & ((data == ord("-")) | edge)[:-2]).any():
            return True
    return False


def _single_chunk(column: Any) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
