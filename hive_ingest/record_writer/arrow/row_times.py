"""Dates and timestamps among Python objects, some of which `pyarrow.array` changes without an error.

Among dates it takes a datetime for its day, and among datetimes with a time zone it takes one without for UTC. Several
time zones become that of the first datetime. Nanoseconds of `pandas.Timestamp` are cut off.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

#: The place of a value in a column: names of struct fields, and where it is in a list or map.
_Path = tuple[str, ...]


def check_times(type_: pa.DataType, values: Iterable[Any], *, one_zone: bool = True) -> None:
    """Check that Arrow keeps the dates and datetimes of a column.

    Args:
        type_: The type of the array that was made of the values.
        values: The values.
        one_zone: Whether datetimes of different time zones are refused.

    Raises:
        ValueError: It does not.
    """
    if not _holds_times(type_):
        return
    zones: dict[_Path, str] = {}
    for value in values:
        for path, leaf, time in _times(type_, value, ()):
            _check_time(leaf, time)
            if one_zone and isinstance(time, dt.datetime) and time.tzinfo is not None:
                zone = str(time.tzinfo)
                if zones.setdefault(path, zone) != zone:
                    raise ValueError(f"timestamps of different time zones ({zones[path]} and {zone})")


def _check_time(type_: pa.DataType, time: dt.date) -> None:
    if pat.is_date(type_):
        if isinstance(time, dt.datetime):
            raise ValueError("dates and timestamps in one column")
    elif not isinstance(time, dt.datetime):
        raise ValueError("dates and timestamps in one column")
    elif (time.tzinfo is None) != (type_.tz is None):
        raise ValueError(
            "a timestamp with a time zone" if type_.tz is None else "timestamps with and without a time zone"
        )


def with_nanoseconds(type_: pa.DataType, values: Iterable[Any]) -> pa.DataType:
    """The type, in nanoseconds if a value (a `pandas.Timestamp`) has some that microseconds cannot hold."""
    if not _holds_times(type_):
        return type_
    times = (time for value in values for _, _, time in _times(type_, value, ()))
    return _in_nanoseconds(type_) if any(getattr(time, "nanosecond", 0) for time in times) else type_


def _in_nanoseconds(type_: pa.DataType) -> pa.DataType:
    if pat.is_timestamp(type_):
        return pa.timestamp("ns", type_.tz)
    if pat.is_list(type_):
        return pa.list_(_in_nanoseconds(type_.value_type))
    if pat.is_struct(type_):
        return pa.struct([field.with_type(_in_nanoseconds(field.type)) for field in type_])
    return type_


def _holds_times(type_: Any) -> bool:
    if pat.is_date(type_) or pat.is_timestamp(type_):
        return True
    return any(_holds_times(type_.field(place).type) for place in range(type_.num_fields))


def _times(type_: Any, value: Any, path: _Path) -> Iterator[tuple[_Path, pa.DataType, dt.date]]:
    """The dates and datetimes in a value, each with its place and the Arrow type there."""
    if pat.is_date(type_) or pat.is_timestamp(type_):
        if isinstance(value, dt.date) and value == value:  # NaT of pandas does not equal itself
            yield path, type_, value
    elif value is None or not type_.num_fields:
        return
    elif pat.is_struct(type_):
        for field in type_ if isinstance(value, Mapping) else ():
            yield from _times(field.type, value.get(field.name), (*path, field.name))
    elif pat.is_map(type_):
        for key, item in value.items() if isinstance(value, Mapping) else value:
            yield from _times(type_.key_type, key, (*path, "key"))
            yield from _times(type_.item_type, item, (*path, "value"))
    elif pat.is_list(type_):
        for item in value:
            yield from _times(type_.value_type, item, (*path, "item"))
