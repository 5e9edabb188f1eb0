"""Columns and fields of structs, by their path: `("payload", "user", "id")`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.errors import ConfigurationError
from hive_ingest.reader.stripe_filter import FieldPath


def field_path(schema: pa.Schema, name: str) -> FieldPath:
    """The path of a column, or of a field of a struct as `"payload.user.id"`, without regard to case.

    Raises:
        ConfigurationError: There is no such column or field.
    """
    lower = name.lower()
    if lower in schema.names:
        return (lower,)
    path = tuple(lower.split("."))
    if path[0] not in schema.names:
        raise ConfigurationError(f"there is no column {lower!r}: choose from {', '.join(schema.names)}")
    type_: pa.DataType = schema.field(path[0]).type
    for depth, part in enumerate(path[1:], 1):
        parent = ".".join(path[:depth])
        if not pat.is_struct(type_):
            raise ConfigurationError(f"{name!r} cannot be read: {parent} is {type_}, and only structs have fields")
        fields = [field.name for field in type_]
        if part not in fields:
            raise ConfigurationError(f"{parent} has no field {part!r}: choose from {', '.join(fields)}")
        type_ = type_.field(part).type
    return path


def type_at(schema: pa.Schema, path: FieldPath) -> pa.DataType:
    """The type of a column or field that is there."""
    found = schema.field(path[0]).type
    for name in path[1:]:
        found = found.field(name).type
    return found


def values_at(columns: Mapping[str, Any], path: FieldPath) -> Any:
    """The values of a column or field: null also where a struct around it is null."""
    found = columns[path[0]]
    return pc.struct_field(found, list(path[1:])) if path[1:] else found


def needed_types(schema: pa.Schema, paths: Collection[FieldPath]) -> dict[str, pa.DataType]:
    """The columns that paths begin with; structs have only the fields that paths lead to."""
    return {
        field.name: _pruned(field.type, {path[1:] for path in paths if path[0] == field.name})
        for field in schema
        if any(path[0] == field.name for path in paths)
    }


def _pruned(type_: pa.DataType, paths: Collection[FieldPath]) -> pa.DataType:
    if () in paths:
        return type_
    return pa.struct(
        field.with_type(_pruned(field.type, {path[1:] for path in paths if path[0] == field.name}))
        for field in type_
        if any(path[0] == field.name for path in paths)
    )


def names_to_read(name: str, found: pa.DataType, whole: pa.DataType, wanted: pa.DataType) -> tuple[str, ...]:
    """What to read of a column of a file, as dotted names: the column, or the fields that are wanted of it.

    Args:
        name: The column's.
        found: Its type in the file. Fields that it lacks are not read.
        whole: Its type in the table.
        wanted: `whole`, perhaps with fewer fields.

    Returns:
        The column itself where the file has none of the fields: whether the struct is null still matters.
    """
    if wanted == whole:
        return (name,)
    known = {field.name: field.type for field in found}
    return tuple(
        each
        for field in wanted
        if field.name in known
        for each in names_to_read(f"{name}.{field.name}", known[field.name], whole.field(field.name).type, field.type)
    ) or (name,)
