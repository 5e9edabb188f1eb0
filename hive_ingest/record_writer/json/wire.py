"""The types that `pyarrow.json` reads columns as, and the conversion to the table's types, a whole array at a time.

Where Arrow's reader accepts more than the rules allow, a column is read as a simpler type and checked here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat

from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.record_writer.json.leaves import JsonForms
from hive_ingest.record_writer.text.columns import converted
from hive_ingest.record_writer.values import strict_arrays
from hive_ingest.schema import HiveType

Path = tuple[str, ...]

_READ_AS = {"float": pa.float64(), "char": pa.string(), "varchar": pa.string(), "date": pa.string()}
_READ_AS |= {"timestamp": pa.string(), "binary": pa.string()}


#: The types whose values may be strings with `coerce`.
READ_AS_TEXT: Final = (*strict_arrays.INTEGERS, "float", "double", "boolean")


@dataclass(frozen=True, slots=True)
class WireShape:
    """What the input has: the spelling of its keys, the timestamps that are numbers there, and numbers in strings."""

    spelling: Mapping[Path, str] = field(default_factory=dict)
    numbers: frozenset[Path] = frozenset()
    #: What such a timestamp is read as; None if it must be a string.
    number_type: pa.DataType | None = None
    texts: frozenset[Path] = frozenset()


def can_be_read(type_: HiveType) -> bool:
    """Whether Arrow's reader supports the type. It does not support maps."""
    return type_.kind != "map" and all(can_be_read(child) for _, child in type_.children)


def wire_type(type_: HiveType, path: Path, shape: WireShape) -> pa.DataType:
    """The Arrow type to read a column as, with struct fields named by the keys of the input."""
    if type_.kind == "array":
        return pa.list_(wire_type(type_.children[0][1], path, shape))
    if type_.kind == "struct":
        return pa.struct(wire_fields(type_.children, path, shape))
    if path in shape.numbers and shape.number_type is not None:
        return shape.number_type
    if path in shape.texts:
        return pa.string()
    return _READ_AS.get(type_.kind, type_.arrow)


def wire_fields(fields: Any, path: Path, shape: WireShape) -> list[pa.Field]:
    """One Arrow field for each (name, type), named by its spelling in the input."""
    return [
        pa.field(shape.spelling.get((*path, name), name), wire_type(type_, (*path, name), shape))
        for name, type_ in fields
    ]


def from_wire(array: pa.Array, type_: HiveType, forms: JsonForms) -> pa.Array:
    """The values as the table's type. Raises Doubt if a value may break a rule."""
    if type_.kind == "array":
        return _list_from_wire(array, type_, forms)
    if type_.kind == "struct":
        return _struct_from_wire(array, type_, forms)
    if type_.kind == "binary" and forms.binary_format == "rawstring":
        return array.cast(pa.binary())
    if type_.kind in _READ_AS and _READ_AS[type_.kind] == pa.string():
        if pat.is_decimal(array.type):
            return strict_arrays.readable_by_hive(forms.timestamps.from_numbers(array))
        if type_.kind == "date" and forms.dates is not None:
            return strict_arrays.readable_by_hive(converted(array, forms.text_converter(type_, "strict"), type_))
        return strict_arrays.from_text(array, type_, forms.timestamps)
    if type_.kind in READ_AS_TEXT and pat.is_string(array.type):
        return _from_texts(array, type_, forms)
    return strict_arrays.numbers(array, type_)


def _from_texts(array: pa.Array, type_: HiveType, forms: JsonForms) -> pa.Array:
    """Numbers and booleans that are strings. What only Hive accepts is read record by record."""
    if type_.kind != "boolean":
        with contextlib.suppress(Doubt):
            return strict_arrays.numbers_from_text(array, type_)
    if forms.coerce != "lossless":
        raise Doubt("a string in place of a number or boolean")
    return converted(array, forms.text_converter(type_, "lossless"), type_)


def _list_from_wire(array: pa.Array, type_: HiveType, forms: JsonForms) -> pa.Array:
    if array.offset:
        raise Doubt("a slice")
    values = from_wire(array.values, type_.children[0][1], forms)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(array.offsets, values, type=type_.arrow, mask=mask)


def _struct_from_wire(array: pa.Array, type_: HiveType, forms: JsonForms) -> pa.Array:
    children = [from_wire(array.field(place), child, forms) for place, (_, child) in enumerate(type_.children)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(type_.arrow), mask=mask)
