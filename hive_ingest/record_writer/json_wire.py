"""The types that `pyarrow.json` reads columns as, and the conversion to the table's types, a whole array at a time.

Where Arrow's reader accepts more than the rules allow, a column is read as a simpler type and checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hive_ingest.record_writer import strict_arrays
from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.schema import HiveType

Path = tuple[str, ...]

_READ_AS = {"float": pa.float64(), "char": pa.string(), "varchar": pa.string(), "date": pa.string()}
_READ_AS |= {"timestamp": pa.string(), "binary": pa.string()}


def can_be_read(type_: HiveType) -> bool:
    """Whether Arrow's reader supports the type. It does not support maps."""
    return type_.kind != "map" and all(can_be_read(child) for _, child in type_.children)


def wire_type(type_: HiveType, path: Path, spelling: Mapping[Path, str]) -> pa.DataType:
    """The Arrow type to read a column as, with struct fields named by the keys of the input."""
    if type_.kind == "array":
        return pa.list_(wire_type(type_.children[0][1], path, spelling))
    if type_.kind == "struct":
        return pa.struct(wire_fields(type_.children, path, spelling))
    return _READ_AS.get(type_.kind, type_.arrow)


def wire_fields(fields: Any, path: Path, spelling: Mapping[Path, str]) -> list[pa.Field]:
    """One Arrow field for each (name, type), named by its spelling in the input."""
    return [
        pa.field(spelling.get((*path, name), name), wire_type(type_, (*path, name), spelling)) for name, type_ in fields
    ]


def from_wire(array: pa.Array, type_: HiveType, binary_format: str) -> pa.Array:
    """The values as the table's type. Raises Doubt if a value may break a rule."""
    if type_.kind == "array":
        return _list_from_wire(array, type_, binary_format)
    if type_.kind == "struct":
        return _struct_from_wire(array, type_, binary_format)
    if type_.kind == "binary" and binary_format == "rawstring":
        return array.cast(pa.binary())
    if type_.kind in _READ_AS and _READ_AS[type_.kind] == pa.string():
        return strict_arrays.from_text(array, type_)
    return strict_arrays.numbers(array, type_)


def _list_from_wire(array: pa.Array, type_: HiveType, binary_format: str) -> pa.Array:
    if array.offset:
        raise Doubt("a slice")
    values = from_wire(array.values, type_.children[0][1], binary_format)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(array.offsets, values, type=type_.arrow, mask=mask)


def _struct_from_wire(array: pa.Array, type_: HiveType, binary_format: str) -> pa.Array:
    children = [from_wire(array.field(place), child, binary_format) for place, (_, child) in enumerate(type_.children)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(type_.arrow), mask=mask)
