"""A block of JSON lines parsed in one call, with proof that each record became one row.

`pyarrow.json` does not keep records apart: it drops blank lines, splits `{}{}` and joins values that a newline splits.
But if every line begins with an opening and ends with a closing brace, and the parse succeeds, then no value
spans two lines: a string cannot hold a newline, so the last brace closes an object, and after it the next
line's opening brace is legal only where a new record begins. So each line holds one record or more, and if
there are as many rows as lines, exactly one, which is an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.record_writer.json.leaves import JsonForms
from hive_ingest.record_writer.json.records import UnknownFields
from hive_ingest.record_writer.json.shapes import OtherShape, Shape, UnknownGuard, sample_shape
from hive_ingest.record_writer.json.wire import WireShape, can_be_read, from_wire, wire_fields
from hive_ingest.record_writer.text.blocks import CARRIAGE_RETURN, NEWLINE, SCAN_BYTES, TextBlock
from hive_ingest.record_writer.values.decimal_texts import check_block
from hive_ingest.schema import HiveType

#: Below this many records, a call of the reader costs more than reading them one by one.
MIN_RECORDS: Final = 32
#: Records of a block that are sampled for the spelling of keys.
SAMPLE_RECORDS: Final = 32
_MAX_BLOCK_BYTES: Final = (1 << 31) - 2
#: What the reader says about a key that it does not know, a number in place of a string, and the reverse.
_OTHER_SHAPE: Final = ("unexpected field", "changed from ", "is not a valid decimal")
_OPENING, _CLOSING = ord("{"), ord("}")


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """The rows of a block in the table's types, and which columns its keys matched."""

    batch: pa.RecordBatch
    matched_columns: frozenset[str]
    unknown_fields: frozenset[str] = frozenset()


class JsonBlocks:
    """Parses blocks for one schema. Several threads may use it: its only state is the last shape that matched."""

    def __init__(
        self, columns: list[tuple[str, HiveType]], schema: pa.Schema, unknown: UnknownFields, forms: JsonForms
    ) -> None:
        self._columns = columns
        self._schema = schema
        self._may_skip_unknown = unknown == "ignore"
        self._forms = forms
        #: False if some type is unknown to Arrow's reader.
        self.is_possible = all(can_be_read(type_) for _, type_ in columns)
        self._has_decimals = any(_has_decimal(type_) for _, type_ in columns)
        self._shape = Shape()

    def parse(self, block: TextBlock) -> ParsedBlock | None:
        """All rows of the block, or None if it must be parsed record by record."""
        if block.items is not None or block.records < MIN_RECORDS:
            return None
        if not (is_one_object_a_line(block.lines) and is_utf8(block.lines)):
            return None
        try:
            return self._parse_by_shape(block)
        except Doubt:
            return None

    def _parse_by_shape(self, block: TextBlock) -> ParsedBlock:
        for shape in self._shapes(block):
            try:
                parsed = self._read(block, shape)
            except OtherShape:
                continue
            self._shape = shape
            return parsed
        raise Doubt("no shape of a sample matches")

    def _shapes(self, block: TextBlock) -> Iterator[Shape]:
        """The last shape that matched, then those of a sample of this block."""
        last = self._shape
        yield last
        sampled, _ = sample_shape(_sample(block), self._columns)
        if not sampled.skips_unknown and sampled != last:
            yield sampled
        sampled = replace(sampled, skips_unknown=True)
        if self._may_skip_unknown and sampled != last:
            yield sampled

    def _read(self, block: TextBlock, shape: Shape) -> ParsedBlock:
        if shape.skips_unknown:
            UnknownGuard(shape, self._columns).check(block.lines)
        if self._has_decimals or (shape.numbers and self._forms.timestamps.number_type is not None):
            check_block(block.lines)
        table = self._read_lines(block.lines, shape)
        if table.num_rows != block.records:
            raise Doubt("rows and records differ")
        arrays = [
            from_wire(_single_chunk(column), type_, self._forms)
            for column, (_, type_) in zip(table.columns, self._columns, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        unknown = sample_shape(_sample(block), self._columns)[1] if shape.skips_unknown else frozenset()
        return ParsedBlock(batch, self._matched(batch, block.lines, shape), unknown)

    def _read_lines(self, lines: bytes, shape: Shape) -> pa.Table:
        wire = WireShape(
            shape.spelling,
            shape.numbers,
            self._forms.timestamps.number_type,
            shape.texts if self._forms.coerce != "strict" else frozenset(),
        )
        fields = wire_fields(self._columns, (), wire)
        try:
            return pa_json.read_json(
                pa.BufferReader(lines),
                # One chunk and one thread, because blocks are parsed in parallel.
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=pa_json.ParseOptions(
                    explicit_schema=pa.schema(fields),
                    newlines_in_values=False,
                    unexpected_field_behavior="ignore" if shape.skips_unknown else "error",
                ),
            )
        except pa.ArrowException as error:
            # The text only decides whether a second attempt is worthwhile, never the result.
            if any(words in str(error) for words in _OTHER_SHAPE):
                raise OtherShape(str(error)) from error
            raise Doubt(str(error)) from error

    def _matched(self, batch: pa.RecordBatch, lines: bytes, shape: Shape) -> frozenset[str]:
        """Columns that a key matched. A column of nulls counts if its key occurs in the text at all."""
        return frozenset(
            name
            for (name, _), array in zip(self._columns, batch.columns, strict=True)
            if array.null_count < len(array) or b'"%s"' % shape.key((name,)).encode() in lines
        )


def _has_decimal(type_: HiveType) -> bool:
    return type_.kind == "decimal" or any(_has_decimal(child) for _, child in type_.children)


def is_one_object_a_line(lines: bytes) -> bool:
    """Whether every line begins with { and ends with }, not counting one carriage return."""
    if len(lines) > _MAX_BLOCK_BYTES or b"\0" in lines:
        return False
    text = np.frombuffer(lines, np.uint8)
    if _are_between_objects(text):
        return True
    ends = np.flatnonzero(text == NEWLINE)
    starts = np.concatenate([np.zeros(1, ends.dtype), ends[:-1] + 1])
    last = ends - 1
    last = last - (text[last] == CARRIAGE_RETURN)
    return bool((text[starts] == _OPENING).all() and (text[last] == _CLOSING).all())


def _are_between_objects(text: Any) -> bool:
    """Whether every newline has } before it and { after it, except for the last one. Without looking for newlines."""
    if len(text) < 2 or text[0] != _OPENING or text[-2] != _CLOSING:
        return False
    for at in range(1, len(text) - 1, SCAN_BYTES):
        part = text[at - 1 : at + SCAN_BYTES + 1]
        is_between = part[:-2] == _CLOSING
        is_between &= part[2:] == _OPENING
        if ((part[1:-1] == NEWLINE) > is_between).any():
            return False
    return True


def is_utf8(text: bytes) -> bool:
    """Whether the whole text is UTF-8, without decoding it to a Python string."""
    offsets = pa.py_buffer(np.array([0, len(text)], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(text)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _single_chunk(column: Any) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _sample(block: TextBlock) -> list[bytes]:
    """Records from all parts of the block."""
    lines = block.lines
    if block.records <= SAMPLE_RECORDS:
        return block.split()
    places = (len(lines) * part // SAMPLE_RECORDS for part in range(SAMPLE_RECORDS))
    starts = (lines.rfind(b"\n", 0, place) + 1 for place in places)
    return [lines[start : lines.find(b"\n", start)] for start in starts]
