"""A row of Arrow data as Python objects, also where Python has none for a value, as it is with many bad records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pat

_MILLISECONDS_A_DAY = 86_400_000


def python_row(row: pa.RecordBatch) -> dict[str, Any]:
    """The values of a batch of one row, by the names of its columns.

    Text that is not UTF-8 has escapes for its other bytes. A date or timestamp that Python's types do not hold is a
    text: with its time of day, or with the number that is out of range.
    """
    return {name: _value(column[0]) for name, column in zip(row.schema.names, row.columns, strict=True)}


def _value(scalar: Any) -> Any:
    type_ = scalar.type
    if not scalar.is_valid:
        return None
    if isinstance(type_, pa.BaseExtensionType) or pat.is_dictionary(type_) or pat.is_run_end_encoded(type_):
        return _value(scalar.value)
    if pat.is_map(type_):
        entries = scalar.values
        return [(_value(entry["key"]), _value(entry["value"])) for entry in _entries(entries)]
    if pat.is_struct(type_):
        return {type_.field(place).name: _value(scalar[place]) for place in range(type_.num_fields)}
    if pat.is_nested(type_) and not pat.is_union(type_):
        return [_value(item) for item in scalar.values]
    if pat.is_date64(type_) and scalar.value % _MILLISECONDS_A_DAY:
        return _value(pa.scalar(scalar.value, pa.timestamp("ms")).cast(pa.string()))
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    except (ValueError, OverflowError):
        return scalar.cast(pa.string()).as_py()


def _entries(entries: pa.StructArray) -> list[dict[str, Any]]:
    return [{"key": entries.field(0)[place], "value": entries.field(1)[place]} for place in range(len(entries))]
