"""Casts of Arrow arrays to the types of a table. A value that the type cannot hold exactly is rejected.

Which Arrow types a Hive type accepts is decided once for each schema (`cast_to`); the values are checked in each
batch. Only double to float rounds, as in Hive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.record_writer.arrow.lossless_casts import lossless_cast
from hive_ingest.record_writer.bad_records import BadValue, Doubt
from hive_ingest.record_writer.values import strict_arrays
from hive_ingest.record_writer.values.time_zones import TimeZone, time_zone
from hive_ingest.schema import HiveType

#: Makes an array of the table's type. Raises Doubt if a value does not fit.
Cast = Callable[[pa.Array], pa.Array]
#: Called with the dotted path of a field that only the data, or only the table, has.
FieldRule = Callable[[str], None]

_TEXT: Final = (pat.is_string, pat.is_large_string, pat.is_string_view)
_ACCEPTED: Final[dict[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "boolean": (pat.is_boolean,),
    **dict.fromkeys(strict_arrays.INTEGERS, (pat.is_integer,)),
    "float": (pat.is_floating, pat.is_integer),
    "double": (pat.is_floating, pat.is_integer),
    "decimal": (pat.is_decimal, pat.is_integer),
    "string": _TEXT,
    "char": _TEXT,
    "varchar": _TEXT,
    "binary": (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary),
    "date": (pat.is_date,),
    "timestamp": (pat.is_timestamp,),
}
_UNITS_A_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LISTS: Final = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list, pat.is_list_view, pat.is_large_list_view)


class Casts:
    """Chooses the casts of one table.

    Args:
        missing: Called for each field of the table that the data lacks.
        unknown: Called for each field of the data that the table lacks.
        lossless: Whether further types are accepted, where they hold the same value (`lossless_casts`). None: the user
            cannot choose it.
        local_instants: Whether a timestamp with a time zone becomes the local time of that zone; else it is rejected.
    """

    def __init__(
        self, *, missing: FieldRule, unknown: FieldRule, local_instants: bool = False, lossless: bool | None = None
    ) -> None:
        self._missing = missing
        self._unknown = unknown
        self._local_instants = local_instants
        self._lossless = lossless

    def cast_to(self, source: pa.DataType, type_: HiveType, path: str) -> Cast:
        """The cast from `source` to a column of `type_`. Raises BadValue if there is none."""
        if pat.is_null(source):
            return lambda array: pa.nulls(len(array), type_.arrow)
        if isinstance(source, pa.BaseExtensionType):
            if source.extension_name == "pandas.period":
                raise _refused(source, type_)  # its numbers are those of months, weeks or others since 1970
            inner = self.cast_to(source.storage_type, type_, path)
            return lambda array: inner(array.storage)
        if pat.is_dictionary(source):
            inner = self.cast_to(source.value_type, type_, path)
            return lambda array: inner(array.dictionary_decode())
        if pat.is_run_end_encoded(source):
            inner = self.cast_to(source.value_type, type_, path)
            return lambda array: inner(pc.run_end_decode(array))
        if type_.children:
            return self._nested(source, type_, path)
        if not any(accepts(source) for accepts in _ACCEPTED[type_.kind]):
            further = lossless_cast(source, type_) if self._lossless is not None else None
            if further is None:
                raise _refused(source, type_)
            if not self._lossless:
                raise _refused(source, type_, ", or set coerce='lossless' to accept values that stay the same")
            return further
        if pat.is_timestamp(source) and source.tz is not None:
            return self._instant_cast(source, type_)
        return _simple(type_)

    def _instant_cast(self, source: pa.DataType, type_: HiveType) -> Cast:
        if not self._local_instants:
            raise BadValue(
                f"Arrow's {source} has a time zone, Hive's timestamp has none: set zoned_timestamps='local' "
                "for the local time, or cast it to UTC without a zone"
            )
        try:
            zone = time_zone(source.tz)
        except ValueError as error:
            raise BadValue(f"the time zone of Arrow's {source}: {error}") from error
        inner = _simple(type_)
        return lambda array: inner(_wall_clocks(array, zone))

    def _nested(self, source: pa.DataType, type_: HiveType, path: str) -> Cast:
        if type_.kind == "array" and any(is_list(source) for is_list in _LISTS):
            return _list_cast(self.cast_to(source.value_type, type_.children[0][1], path), type_)
        if type_.kind == "map" and pat.is_map(source):
            key = self.cast_to(source.key_type, type_.children[0][1], path)
            return _map_cast(key, self.cast_to(source.item_type, type_.children[1][1], path), type_)
        if type_.kind == "struct" and pat.is_struct(source):
            return self._struct_cast(source, type_, path)
        raise _refused(source, type_)

    def _struct_cast(self, source: pa.StructType, type_: HiveType, path: str) -> Cast:
        fields = self.fields([source.field(i) for i in range(source.num_fields)], type_.children, f"{path}.")

        def cast(array: pa.Array) -> pa.Array:
            mask = array.is_null() if array.null_count else None
            # flatten() applies the struct's own nulls and slice, field() does not.
            arrays = cast_fields(fields, array.flatten(), len(array))
            return pa.StructArray.from_arrays(arrays, fields=list(type_.arrow), mask=mask)

        return cast

    def fields(self, sources: list[pa.Field], targets: Any, path: str = "") -> list[FieldCast]:
        """For each target (name, type), its source field and cast. Raises BadValue."""
        places = _places(sources)
        names = {name for name, _ in targets}
        for name in places:
            if name not in names:
                self._unknown(f"{path}{name}")
        return [self._field(sources, places.get(name), name, type_, f"{path}{name}") for name, type_ in targets]

    def _field(self, sources: list[pa.Field], place: int | None, name: str, type_: HiveType, path: str) -> FieldCast:
        if place is None:
            self._missing(path)
            return FieldCast(name, None, lambda array: array, type_.arrow)
        try:
            return FieldCast(name, place, self.cast_to(sources[place].type, type_, path), type_.arrow)
        except BadValue as bad:
            raise bad.inside(name) from bad


@dataclass(frozen=True, slots=True)
class FieldCast:
    """The source of one field of the table in the fields of the data; `place` is None if they lack it."""

    name: str
    place: int | None
    cast: Cast
    type: pa.DataType


def cast_fields(fields: list[FieldCast], arrays: list[pa.Array], length: int) -> list[pa.Array]:
    """Convert the columns of the data to those of the table. Raises BadValue if a value does not fit."""
    return [
        pa.nulls(length, field.type) if field.place is None else _cast_field(field, arrays[field.place])
        for field in fields
    ]


def _cast_field(field: FieldCast, array: pa.Array) -> pa.Array:
    try:
        return field.cast(array)
    except (Doubt, pa.ArrowException) as error:
        raise BadValue(str(error), field.name) from error
    except BadValue as bad:
        raise bad.inside(field.name) from bad


def _places(fields: list[pa.Field]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place, field in enumerate(fields):
        name = field.name.lower()
        if name in found:
            raise BadValue(f"{field.name!r} occurs twice (ignoring case)", name)
        found[name] = place
    return found


def _refused(source: pa.DataType, type_: HiveType, choice: str = "") -> BadValue:
    return BadValue(f"Arrow's {source} cannot be converted to {type_} unambiguously: cast it first{choice}")


def _wall_clocks(array: pa.Array, zone: TimeZone) -> pa.Array:
    instants = pc.fill_null(array.view(pa.int64()), 0).to_numpy()
    walls = zone.wall_clocks(instants, _UNITS_A_SECOND[array.type.unit])
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(walls, pa.int64(), mask=mask).view(pa.timestamp(array.type.unit))


def _simple(type_: HiveType) -> Cast:
    def cast(array: pa.Array) -> pa.Array:
        if type_.kind == "decimal" and pat.is_integer(array.type):
            # Arrow requires a precision for every number of the integer's type, not only for those in the array.
            array = array.cast(pa.decimal256(76, type_.parameters[1]))
        # Only double to float rounds; integers must stay exact.
        if pat.is_date64(array.type):
            strict_arrays.valid(array)  # a time of day would be cut off
        rounds = type_.kind == "float" and pat.is_floating(array.type)
        try:
            found = array if array.type == type_.arrow else array.cast(type_.arrow, safe=not rounds)
        except pa.ArrowException as error:
            raise Doubt(str(error)) from error
        return _checked(found, array, type_)

    return cast


def _checked(found: pa.Array, source: pa.Array, type_: HiveType) -> pa.Array:
    if type_.kind in ("string", "char", "varchar", "decimal"):
        strict_arrays.valid(found)
    if type_.kind in ("char", "varchar"):
        return strict_arrays.characters(found, type_)
    if type_.kind == "float":
        strict_arrays.no_new_infinity(found, source)
    if type_.kind in ("date", "timestamp"):
        return strict_arrays.readable_by_hive(found)
    return found


def _list_cast(element: Cast, type_: HiveType) -> Cast:
    def cast(array: pa.Array) -> pa.Array:
        # By lengths, so that slices and all kinds of lists give the same result (Arrow 26 casts list views wrongly).
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(offsets, element(array.flatten()), type=type_.arrow, mask=mask)

    return cast


def _map_cast(key: Cast, item: Cast, type_: HiveType) -> Cast:
    def cast(array: pa.Array) -> pa.Array:
        # A copy has the keys and items of its own rows only; a slice has those of all rows.
        array = pa.concat_arrays([array, array[:0]])
        mask = array.is_null() if array.null_count else None
        keys = key(array.keys)
        strict_arrays.unique_keys(array, keys)
        return pa.MapArray.from_arrays(array.offsets, keys, item(array.items), type=type_.arrow, mask=mask)

    return cast
