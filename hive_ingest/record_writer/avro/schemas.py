"""Avro schemas: how a datum is decoded, and which Arrow type each field has.

fastavro must not convert logical types: its conversions are slow, and that of decimals rounds to the declared
precision. So `logicalType` is renamed before fastavro gets the schema. Arrow accepts integers as dates and timestamps;
only decimals and UUIDs of 16 bytes are converted here.
"""

from __future__ import annotations

import decimal
import io
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from hive_ingest.errors import ConfigurationError
from hive_ingest.record_writer.bad_records import BadValue

#: Converts a value that fastavro has decoded to the one that Arrow takes; None where they are the same.
_Convert = Callable[[Any], Any] | None

_LOGICAL: Final = "hiveIngestLogicalType"
_PRIMITIVES: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
#: Arrow types by logical type and its underlying type. Instants become wall clock in UTC.
_LOGICAL_TYPES: Final[dict[tuple[str | None, Any], pa.DataType]] = {
    ("date", "int"): pa.date32(),
    **{
        (f"{prefix}timestamp-{name}", "long"): pa.timestamp(unit)
        for prefix in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
#: Unions of numbers that have one type without loss.
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_EXACT: Final = decimal.Context(prec=1000, Emax=10**6, Emin=-(10**6), traps=[decimal.Inexact])


def fastavro_module() -> Any:
    """The package fastavro.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import fastavro
    except ImportError as error:
        raise ConfigurationError("fastavro is not installed: pip install 'hive-ingest[avro]'") from error
    return fastavro


class AvroSchema:
    """The schema of a record: the last one of `texts`, after those that it refers to.

    Raises:
        BadValue: It is not an Avro schema, or not that of a record.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        fastavro = fastavro_module()
        self._read = fastavro.schemaless_reader
        self._named: dict[str, Any] = {}
        try:
            for text in texts:
                self.parsed = fastavro.parse_schema(_renamed(json.loads(text)), named_schemas=self._named)
        except Exception as error:
            raise BadValue(f"its schema is not valid: {type(error).__name__}: {error}") from error
        if not isinstance(self.parsed, Mapping) or self.parsed.get("type") != "record":
            raise BadValue("its schema is not that of a record")
        try:
            self._read_defaults(self.parsed)
        except (UnicodeEncodeError, RecursionError) as error:
            raise BadValue(f"its schema is not valid: a default is no value of its type: {error}") from error
        self.fields: dict[str, Any] = {field["name"]: field["type"] for field in self.parsed["fields"]}

    def read(self, datum: bytes, reader_schema: AvroSchema | None) -> dict[str, Any]:
        """The values of a record's fields, with the fields of `reader_schema` if there is one.

        Raises:
            BadValue: It is not a record of this schema.
        """
        file = io.BytesIO(datum)
        try:
            record: dict[str, Any] = self._read(file, self.parsed, reader_schema and reader_schema.parsed)
        except Exception as error:
            raise BadValue(f"it is not a record of its schema: {type(error).__name__}: {error}") from error
        if file.tell() != len(datum):
            raise BadValue(f"{len(datum) - file.tell()} bytes follow after the record")
        return record

    def arrow_type(self, name: str) -> pa.DataType:
        """The Arrow type of a field. Raises BadValue if there is none."""
        return self._arrow_type(self.fields[name], ())

    def converter(self, name: str) -> _Convert:
        """Converts a field's values for Arrow. Call `arrow_type` first: it refuses recursive types."""
        return self._converter(self.fields[name])

    def _read_defaults(self, schema: Any) -> None:
        """Replace the defaults of all fields by the values that JSON has for them: fastavro takes it as it is."""
        if isinstance(schema, list):
            for branch in schema:
                self._read_defaults(branch)
        elif isinstance(schema, dict):
            for part in (schema.get("type"), schema.get("items"), schema.get("values")):
                self._read_defaults(part)
            for field in schema.get("fields", ()):
                self._read_defaults(field["type"])
                if "default" in field:
                    field["default"] = self._default(field["type"], field["default"])

    def _default(self, schema: Any, value: Any) -> Any:
        """A value of a schema, by its JSON: each byte is a character, and a record may lack fields with defaults."""
        schema = self._resolved(schema)
        if value is None:
            return None
        if isinstance(schema, list):
            return self._default(next((branch for branch in schema if branch != "null"), "null"), value)
        kind, _ = _kinds(schema)
        if kind in ("bytes", "fixed") and isinstance(value, str):
            return value.encode("latin-1")
        if kind == "array" and isinstance(value, list):
            return [self._default(schema["items"], item) for item in value]
        if kind == "map" and isinstance(value, dict):
            return {key: self._default(schema["values"], item) for key, item in value.items()}
        if kind == "record" and isinstance(value, dict):
            whole = {field["name"]: field["default"] for field in schema["fields"] if "default" in field} | value
            types = {field["name"]: field["type"] for field in schema["fields"]}
            return {name: self._default(types[name], item) for name, item in whole.items() if name in types}
        is_nested = isinstance(kind, dict | list) or kind in self._named
        return self._default(kind, value) if is_nested else value

    def _resolved(self, schema: Any) -> Any:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def _arrow_type(self, schema: Any, inside: tuple[str, ...]) -> pa.DataType:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._arrow_type(_not_null(schema), inside)
        kind, logical = _kinds(schema)
        if kind == "record":
            name = schema["name"]
            if name in inside:
                raise BadValue(f"the record {name!r} contains itself, which is not possible in Hive's types")
            fields = [(field["name"], self._arrow_type(field["type"], (*inside, name))) for field in schema["fields"]]
            return pa.struct(fields)
        if kind == "array":
            return pa.list_(self._arrow_type(schema["items"], inside))
        if kind == "map":
            return pa.map_(pa.string(), self._arrow_type(schema["values"], inside))
        if kind == "enum":
            return pa.string()
        if logical == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = schema["precision"], schema.get("scale", 0)
            return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        if kind == "fixed":
            return pa.string() if logical == "uuid" else pa.binary(schema["size"])
        if kind not in _PRIMITIVES:
            return self._arrow_type(kind, inside)  # {"type": "a.Name"}, or a nested definition
        return _LOGICAL_TYPES.get((logical, kind), _PRIMITIVES[kind])

    def _converter(self, schema: Any) -> _Convert:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return _or_null(self._converter(_not_null(schema)))
        kind, logical = _kinds(schema)
        if kind == "record":
            return _each_field({field["name"]: self._converter(field["type"]) for field in schema["fields"]})
        if kind == "array":
            return _each_item(self._converter(schema["items"]))
        if kind == "map":
            return _each_value(self._converter(schema["values"]))
        if logical == "decimal" and kind in ("bytes", "fixed"):
            scale = schema.get("scale", 0)
            return lambda data: decimal.Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)
        if logical == "uuid" and kind == "fixed":
            return lambda data: str(uuid.UUID(bytes=data))
        return None if kind in _PRIMITIVES or kind in ("enum", "fixed") else self._converter(kind)


def _kinds(schema: Any) -> tuple[Any, str | None]:
    """The type and the logical type."""
    return (schema, None) if isinstance(schema, str) else (schema["type"], schema.get(_LOGICAL))


def _not_null(union: list[Any]) -> Any:
    """The one type of a union besides null. Raises BadValue if there are several without a common one."""
    found = [branch for branch in union if branch != "null"]
    if len(found) <= 1:
        return found[0] if found else "null"
    names = [branch if isinstance(branch, str) else branch["type"] for branch in found]
    plain = all(isinstance(branch, str) or _LOGICAL not in branch for branch in found)
    wider = _WIDER.get(frozenset(map(str, names))) if plain else None
    if wider is None:
        raise BadValue(f"a union of {', '.join(map(str, names))} has no single type in Hive")
    return wider


def _renamed(schema: Any) -> Any:
    """A schema whose logical types have another name, so that fastavro does not convert them."""
    if isinstance(schema, list):
        return [_renamed(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {_LOGICAL if key == "logicalType" else key: value for key, value in schema.items()}
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _renamed(found[key])
    if isinstance(found.get("fields"), list):
        found["fields"] = [_renamed(field) for field in found["fields"]]
    return found


def _or_null(convert: _Convert) -> _Convert:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _each_item(convert: _Convert) -> _Convert:
    return None if convert is None else lambda items: [convert(item) for item in items]


def _each_value(convert: _Convert) -> _Convert:
    return None if convert is None else lambda values: {key: convert(value) for key, value in values.items()}


def _each_field(converters: Mapping[str, _Convert]) -> _Convert:
    needed = {name: convert for name, convert in converters.items() if convert is not None}
    if not needed:
        return None
    return lambda record: {**record, **{name: convert(record[name]) for name, convert in needed.items()}}
