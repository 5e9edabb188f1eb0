"""Records in Avro, in Confluent's wire format, with schemas from a registry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from hive_ingest.errors import ConfigurationError
from hive_ingest.record_writer.arrow.casts import Casts, FieldCast, cast_fields
from hive_ingest.record_writer.avro.schemas import AvroSchema, fastavro_module
from hive_ingest.record_writer.bad_records import BadValue, OnError
from hive_ingest.record_writer.json.records import UnknownFields
from hive_ingest.record_writer.list_writer import RecordListWriter
from hive_ingest.record_writer.options import MissingPartitionKeys, check_choice
from hive_ingest.record_writer.static_keys import StaticKeys
from hive_ingest.record_writer.typed_columns import typed_columns
from hive_ingest.record_writer.writer import RecordSchema

#: A zero byte and the schema's id, in four bytes.
_HEADER_BYTES: Final = 5
_MAGIC: Final = 0

logger = logging.getLogger("hive_ingest.record_writer")


class AvroSchemas(Protocol):
    """Where schemas come from, such as `hive_ingest.streaming.kafka.SchemaRegistry`. Several threads use it."""

    def avro_schema(self, schema_id: int) -> Sequence[str]:
        """The schema of an id as JSON, after the schemas that it refers to.

        It is called at least once for each id, and should cache the result: the schema of an id never changes.

        Raises:
            BadValue: There is certainly no Avro schema with this id: the record is bad.
            StreamingError: The lookup failed: the transaction fails.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Plan:
    """How records of one writer's schema become rows. `converters` are those of the fields that need one."""

    writer_schema: AvroSchema
    names: list[str]
    types: list[pa.DataType]
    converters: list[Any]
    casts: list[FieldCast]


class AvroWriter(RecordListWriter):
    """Records in Avro, in Confluent's wire format: a zero byte, the schema's id, and the datum.

    `write()` takes bytes, or an iterable of them. Fields match columns, and fields of structs, without regard to case;
    each record is decoded by the schema that it was written with, so records of many versions may be mixed.
    docs/records.md lists the Hive types that Avro's types can be stored as.

    Args:
        schemas: Where the schemas come from: a `SchemaRegistry`.
        reader_schema: A schema as JSON, to which each record is resolved as Avro defines it: with its defaults,
            aliases and promotions. Default: each record's own.
        on_error: "fail" (a bad record fails the transaction) or "skip" (it is skipped and counted).
        missing_columns: "null" or "fail" (the record is bad), for data columns (and fields of structs) that the schema
            lacks.
        missing_partition_keys: "fail" or "null" (the default partition), for partition columns that the schema lacks.
        unknown_fields: "ignore" (logged once for each field) or "fail" (the record is bad).

    Raises:
        ConfigurationError: An option is not valid, or fastavro is not installed.
    """

    def __init__(
        self,
        schemas: AvroSchemas,
        *,
        reader_schema: str | None = None,
        on_error: OnError = "fail",
        missing_columns: MissingPartitionKeys = "null",
        missing_partition_keys: MissingPartitionKeys = "fail",
        unknown_fields: UnknownFields = "ignore",
    ) -> None:
        check_choice("missing_columns", missing_columns, ("null", "fail"))
        check_choice("missing_partition_keys", missing_partition_keys, ("fail", "null"))
        check_choice("unknown_fields", unknown_fields, ("ignore", "fail"))
        fastavro_module()
        self._schemas = schemas
        self._reader_schema = _reader_schema(reader_schema)
        self._missing_columns = missing_columns
        self._missing_partition_keys = missing_partition_keys
        self._unknown_fields = unknown_fields
        self._named: set[str] = set()
        self._lock = threading.Lock()
        self._plans: dict[int, _Plan | BadValue] = {}
        super().__init__(on_error=on_error)

    def check(self) -> None:
        """Have the source of the schemas check that it can be reached, if it has a method `check`."""
        check = getattr(self._schemas, "check", None)
        if check is not None:
            check()

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema.

        Raises:
            StreamingConnectionError: The names of two columns differ only in case.
        """
        super().bind(schema)
        self._static = StaticKeys(schema)
        self._partition_keys = {column.name.lower() for column in schema.partition_columns}
        self._columns = [*typed_columns(schema.all_columns), *self._static.columns]
        self._arrow_schema = schema.arrow
        self._plans = {}

    def to_batch(self, records: list[Any]) -> pa.RecordBatch:
        """Decode records. Raises BadValue if one of them is bad, and what `AvroSchemas.avro_schema` raises."""
        by_id: dict[int, list[int]] = {}
        for place, record in enumerate(records):
            by_id.setdefault(_schema_id(record), []).append(place)
        if len(by_id) == 1:
            return self._decoded(next(iter(by_id)), records)
        batches = [self._decoded(id, [records[place] for place in places]) for id, places in by_id.items()]
        order = [place for places in by_id.values() for place in places]
        rows = [0] * len(order)
        for row, place in enumerate(order):
            rows[place] = row
        return pa.concat_batches(batches).take(pa.array(rows, pa.int64()))

    def _decoded(self, schema_id: int, records: list[Any]) -> pa.RecordBatch:
        try:
            return self._batch(self._plan(schema_id), records)
        except BadValue as bad:
            which = f"schema id {schema_id}"
            raise BadValue(bad.why if which in bad.why else f"{bad.why} ({which})", *bad.path) from bad

    def _batch(self, plan: _Plan, records: list[Any]) -> pa.RecordBatch:
        reader = self._reader_schema
        rows = [plan.writer_schema.read(record[_HEADER_BYTES:], reader) for record in records]
        arrays = []
        for name, type_, convert in zip(plan.names, plan.types, plan.converters, strict=True):
            values = [row[name] for row in rows]
            arrays.append(_array(name, values if convert is None else [convert(value) for value in values], type_))
        columns = cast_fields(plan.casts, arrays, len(records))
        width = len(self._arrow_schema)
        self._static.check(columns[width:])
        return pa.RecordBatch.from_arrays(columns[:width], schema=self._arrow_schema)

    def _plan(self, schema_id: int) -> _Plan:
        with self._lock:
            if schema_id not in self._plans:
                schema = self._schemas.avro_schema(schema_id)
                try:
                    self._plans[schema_id] = self._make_plan(AvroSchema(schema))
                except BadValue as bad:
                    self._plans[schema_id] = bad
            plan = self._plans[schema_id]
        if isinstance(plan, BadValue):
            raise BadValue(plan.why, *plan.path)
        return plan

    def _make_plan(self, writer_schema: AvroSchema) -> _Plan:
        schema = self._reader_schema or writer_schema
        columns = {name for name, _ in self._columns}
        names = [name for name in schema.fields if name.lower() in columns]
        for name in schema.fields.keys() - set(names):
            self._unknown(name)
        if columns and not names:
            raise BadValue("no field of the schema matches a column: check that the record belongs to this table")
        types = [_arrow_type(schema, name) for name in names]
        sources = [pa.field(name, type_) for name, type_ in zip(names, types, strict=True)]
        casts = Casts(missing=self._missing, unknown=self._unknown).fields(sources, self._columns)
        return _Plan(writer_schema, names, types, [schema.converter(name) for name in names], casts)

    def _unknown(self, path: str) -> None:
        if self._unknown_fields == "fail":
            raise BadValue(f"field {path!r} is unknown: add a column, or set unknown_fields='ignore'")
        if path not in self._named:
            self._named.add(path)
            logger.warning("field %s matches no column and is ignored", ascii(path))

    def _missing(self, path: str) -> None:
        if path in self._static.names:
            return
        if path in self._partition_keys:
            if self._missing_partition_keys == "fail":
                raise BadValue(
                    "the schema lacks the partition key: add it (null is the default partition), or set "
                    "missing_partition_keys='null'",
                    path,
                )
        elif self._missing_columns == "fail":
            raise BadValue("the schema lacks the field: add it, or set missing_columns='null'", path)


def _reader_schema(text: str | None) -> AvroSchema | None:
    if text is None:
        return None
    try:
        return AvroSchema([text])
    except BadValue as bad:
        raise ConfigurationError(f"reader_schema is not valid: {bad}") from bad


def _schema_id(record: Any) -> int:
    if not isinstance(record, bytes):
        raise BadValue(f"a {type(record).__name__} is not Avro: write bytes")
    if len(record) < _HEADER_BYTES or record[0] != _MAGIC:
        raise BadValue("it does not begin with a byte of zero and the id of a schema, as Confluent's wire format does")
    return int.from_bytes(record[1:_HEADER_BYTES], "big")


def _array(name: str, values: list[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise BadValue(str(error), name.lower()) from error


def _arrow_type(schema: AvroSchema, name: str) -> pa.DataType:
    try:
        return schema.arrow_type(name)
    except BadValue as bad:
        raise bad.inside(name.lower()) from bad
