"""Records that are Arrow rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import pyarrow as pa

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer.arrow.casts import Casts, FieldCast, cast_fields
from hive_ingest.record_writer.arrow.copies import Copy, copy_of, owned_type
from hive_ingest.record_writer.arrow.rows import ROWS_AT_ONCE, RowBatches, is_row, stream_of
from hive_ingest.record_writer.bad_records import BadRecord, BadRecords, BadValue, OnError
from hive_ingest.record_writer.json.records import UnknownFields
from hive_ingest.record_writer.options import MissingPartitionKeys, check_choice, check_positive
from hive_ingest.record_writer.partition_texts import EmptyPartitionValues, PartitionTexts
from hive_ingest.record_writer.record_by_record import to_batch
from hive_ingest.record_writer.static_keys import StaticKeys
from hive_ingest.record_writer.typed_columns import TypedColumn, not_bound, typed_columns
from hive_ingest.record_writer.writer import Parsed, RecordSchema
from hive_ingest.schema import is_unnamed_index

DEFAULT_BLOCK_BYTES: Final = 8 << 20

MissingColumns = Literal["fail", "null"]
ZonedTimestamps = Literal["fail", "local"]

logger = logging.getLogger("hive_ingest.record_writer")


@dataclass(frozen=True, slots=True)
class ArrowPlan:
    """How batches of one schema become rows of the table.

    `places` are the columns of the data that the table has (None: all, in order); `fields` refer to these columns by
    position, and `copy` copies them.
    """

    places: list[int] | None
    copy: Copy
    fields: list[FieldCast]
    unknown: frozenset[str]

    @property
    def matched(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.place is not None)


@dataclass(frozen=True, slots=True)
class ArrowBlock:
    """Batches of one schema; `first_record` counts from 0 since the transaction began."""

    batches: list[pa.RecordBatch]
    first_record: int
    plan: ArrowPlan

    @property
    def nbytes(self) -> int:
        total: int = sum(batch.get_total_buffer_size() for batch in self.batches)
        return total


class ArrowWriter:
    """Records that are rows of Arrow data, whose columns match the table's by name, without regard to case.

    `write()` takes a RecordBatch, a Table, a RecordBatchReader, anything with the Arrow PyCapsule interface
    (`__arrow_c_stream__`, `__arrow_c_array__`: data frames of pandas, polars and others), a mapping or a dataclass,
    which is one row, or an iterable of any of those. The data is copied, so the caller may reuse its memory after
    `write()`. Types are cast if every value stays the same; docs/types.md lists them.

    Args:
        on_error: "fail" (a bad record fails the transaction) or "skip" (it is skipped and counted).
        missing_columns: "fail" or "null", for data columns (and fields of structs) that the data lacks.
        missing_partition_keys: "fail" or "null" (the default partition), for partition columns that the data lacks.
        unknown_fields: "ignore" (logged once for each field) or "fail", for those that the table lacks.
        empty_partition_values: "null" (an empty text as the value of a partition column is the default partition) or
            "fail" (the record is bad).
        coerce: "strict" or "lossless" (also other types that hold the same value, such as text for an int).
            docs/types.md lists them.
        zoned_timestamps: "fail" or "local" (local time in the zone of the Arrow type), because Hive's timestamps have
            no time zone.
        block_bytes: Size of the Arrow data that is cast in one call.

    Raises:
        ConfigurationError: An option is not valid.
    """

    def __init__(
        self,
        *,
        on_error: OnError = "fail",
        missing_columns: MissingColumns = "fail",
        missing_partition_keys: MissingPartitionKeys = "fail",
        unknown_fields: UnknownFields = "ignore",
        empty_partition_values: EmptyPartitionValues = "null",
        coerce: Literal["strict", "lossless"] = "strict",
        zoned_timestamps: ZonedTimestamps = "fail",
        block_bytes: int = DEFAULT_BLOCK_BYTES,
    ) -> None:
        check_choice("missing_columns", missing_columns, ("fail", "null"))
        check_choice("missing_partition_keys", missing_partition_keys, ("fail", "null"))
        check_choice("unknown_fields", unknown_fields, ("ignore", "fail"))
        check_choice("empty_partition_values", empty_partition_values, ("null", "fail"))
        check_choice("coerce", coerce, ("strict", "lossless"))
        check_choice("zoned_timestamps", zoned_timestamps, ("fail", "local"))
        check_positive("block_bytes", block_bytes)
        self._bad_records = BadRecords(on_error)
        self._missing_columns = missing_columns
        self._missing_partition_keys = missing_partition_keys
        self._unknown_fields = unknown_fields
        self._empty_partition_values: EmptyPartitionValues = empty_partition_values
        self._is_lossless = coerce == "lossless"
        self._local_instants = zoned_timestamps == "local"
        self._block_bytes = block_bytes
        self._named: set[str] = set()
        self._columns: list[TypedColumn] | None = None
        self._plan: tuple[pa.Schema, ArrowPlan] | None = None
        self.discard()

    @property
    def on_error(self) -> OnError:
        """What happens to a bad record."""
        return self._bad_records.on_error

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema.

        Raises:
            StreamingConnectionError: The names of two columns differ only in case.
        """
        self._static = StaticKeys(schema)
        self._keys = PartitionTexts(schema, self._empty_partition_values)
        self._partition_keys = {column.name for column in schema.partition_columns}
        self._columns = [*typed_columns(schema.all_columns), *self._static.columns]
        self._arrow_schema = schema.arrow
        self._rows = RowBatches(self._columns)
        self._plan = None

    def discard(self) -> None:
        """Drop all kept records; record numbers start at 0 again."""
        self._drop_batches()
        self._next_record = 0

    def _drop_batches(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._kept_bytes = 0
        self._kept_plan: ArrowPlan

    def write(self, records: object) -> Iterator[ArrowBlock]:
        """Keep a copy of the rows; yield the blocks that are ready to be parsed.

        Raises:
            SerializationError: The columns do not fit the table's, or the data is not valid.
        """
        for part in _parts(records):
            for batch in self._rows.batches(part, self._records_written()) if isinstance(part, list) else (part,):
                if batch.num_rows:
                    yield from self._keep(batch)

    def drain(self) -> Iterator[ArrowBlock]:
        """Yield all kept records as a block."""
        batches = self._batches
        self._drop_batches()
        if batches:
            first_record = self._next_record
            self._next_record += sum(batch.num_rows for batch in batches)
            yield ArrowBlock(batches, first_record, self._kept_plan)

    def _keep(self, batch: pa.RecordBatch) -> Iterator[ArrowBlock]:
        plan = self._plan_for(batch.schema)
        if self._batches and plan is not self._kept_plan:
            yield from self.drain()
        self._kept_plan = plan
        if plan.places is not None:
            batch = batch.select(plan.places)
        most = self._block_bytes * 3 // 2
        # The size of the batch that it is a slice of is an upper bound, and much cheaper to compute.
        nbytes = batch.get_total_buffer_size()
        if nbytes >= most:
            nbytes = batch.nbytes
        if nbytes < most:
            self._append(batch, plan)
            if self._kept_bytes >= self._block_bytes:
                yield from self.drain()
            return
        rows = max(1, batch.num_rows * self._block_bytes // nbytes)
        for start in range(0, batch.num_rows, rows):
            self._append(batch.slice(start, rows), plan)
            # A slice of views refers to more than it holds, so several pieces make a block.
            if self._kept_bytes >= self._block_bytes // 2:
                yield from self.drain()

    def _append(self, batch: pa.RecordBatch, plan: ArrowPlan) -> None:
        try:
            batch.validate()  # cheap, and a broken array of another library could crash the process in the copy
            owned = plan.copy(batch)
        except pa.ArrowException as error:
            record = self._records_written()
            raise SerializationError(f"record {record}: the Arrow data is not valid: {error}", record=record) from error
        self._batches.append(owned)
        self._kept_bytes += owned.get_total_buffer_size()

    def _records_written(self) -> int:
        kept: int = sum(batch.num_rows for batch in self._batches)
        return self._next_record + kept

    def _plan_for(self, schema: pa.Schema) -> ArrowPlan:
        if self._columns is None:
            raise not_bound(self)
        if self._plan is None or self._plan[0] != schema:
            self._plan = (schema, self._make_plan(schema, self._columns))
        return self._plan[1]

    def _make_plan(self, schema: pa.Schema, columns: list[TypedColumn]) -> ArrowPlan:
        unknown: set[str] = set()

        def note_unknown(name: str) -> None:
            if not is_unnamed_index(name):
                unknown.add(name)

        casts = Casts(
            missing=self._column_missing,
            unknown=note_unknown,
            local_instants=self._local_instants,
            lossless=self._is_lossless,
        )
        try:
            fields = casts.fields([field.with_type(owned_type(field.type)) for field in schema], columns)
        except BadValue as bad:
            raise SerializationError(
                f"the Arrow data does not fit the table: {bad}", record=self._records_written()
            ) from bad
        self._check_unknown(unknown)
        if fields and all(field.place is None for field in fields):
            raise SerializationError(
                f"the Arrow data does not fit the table, which has none of its columns ({', '.join(schema.names[:9])})",
                record=self._records_written(),
            )
        places = [field.place for field in fields if field.place is not None]
        kept = pa.schema([schema.field(place) for place in places])
        positions = {place: position for position, place in enumerate(places)}
        fields = [replace(field, place=None if field.place is None else positions[field.place]) for field in fields]
        is_all = places == list(range(len(schema)))
        return ArrowPlan(None if is_all else places, copy_of(kept), fields, frozenset(unknown))

    def _column_missing(self, path: str) -> None:
        if path in self._static.names:
            return
        if path in self._partition_keys:
            if self._missing_partition_keys == "fail":
                raise BadValue(
                    f"the partition key {path!r} is missing: add it (null is the default partition), or set "
                    "missing_partition_keys='null'"
                )
        elif self._missing_columns == "fail":
            raise BadValue(f"{path!r} is missing: add it, or set missing_columns='null'")

    def _check_unknown(self, unknown: set[str]) -> None:
        if unknown and self._unknown_fields == "fail":
            names = ", ".join(sorted(unknown))
            raise SerializationError(
                f"the Arrow data does not fit the table: it has no column for {names}. Drop them, or set "
                "unknown_fields='ignore'",
                record=self._records_written(),
            )
        for name in sorted(unknown - self._named):
            logger.warning("field %s matches no column and is ignored", ascii(name))
        self._named |= unknown

    def parse(self, block: Any) -> Parsed:
        """Cast a block of this writer.

        Raises:
            SerializationError: For the first row that does not fit, unless bad records are skipped.
        """
        found: list[pa.RecordBatch] = []
        skipped: list[BadRecord] = []
        first = block.first_record
        for batch in block.batches:
            found.extend(self._cast(batch, block.plan, first, skipped))
            first += batch.num_rows
        batch = self._joined(found, block.first_record)
        records = first - block.first_record
        return Parsed(
            batch,
            records,
            len(skipped),
            block.plan.unknown,
            block.plan.matched,
            is_checked=True,
            bad_records=tuple(skipped),
        )

    def _joined(self, batches: list[pa.RecordBatch], first_record: int) -> pa.RecordBatch:
        if not batches:
            return to_batch([], self._arrow_schema)
        try:
            return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        except pa.ArrowException as error:
            raise SerializationError(
                f"the block at record {first_record} is too large for one Arrow batch: {error}. Lower block_bytes",
                record=first_record,
            ) from error

    def _cast(
        self, batch: pa.RecordBatch, plan: ArrowPlan, first_record: int, skipped: list[BadRecord]
    ) -> Iterable[pa.RecordBatch]:
        """Cast a batch. Bad rows are found by halving and appended to `skipped`, which gives several pieces."""
        try:
            arrays = cast_fields(plan.fields, batch.columns, batch.num_rows)
            width = len(self._arrow_schema)
            self._static.check(arrays[width:])
            found = self._validated(arrays[:width])
            self._keys.check(found)
        except BadValue as bad:
            if batch.num_rows == 1:
                row = plan.copy(batch)  # the slice would keep all rows in memory
                skipped.append(self._bad_records.skip(bad, first_record, None, row))
                return []
            half = batch.num_rows // 2
            pieces = list(self._cast(batch.slice(0, half), plan, first_record, skipped))
            return [*pieces, *self._cast(batch.slice(half), plan, first_record + half, skipped)]
        return [found]

    def _validated(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        """The arrays as a batch. Raises BadValue if their offsets point outside of their data."""
        try:
            return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)
        except pa.ArrowException as error:
            raise BadValue(f"the Arrow data is not valid: {error}") from error


def _parts(records: Any) -> Iterator[pa.RecordBatch | list[Any]]:
    """Iterate lazily over the batches of any kind of Arrow data, and over lists of rows that are Python objects."""
    if isinstance(records, pa.RecordBatch):
        yield records
    elif isinstance(records, pa.Table):
        yield from records.to_batches()
    elif isinstance(records, pa.RecordBatchReader):
        yield from records
    elif hasattr(records, "__arrow_c_stream__"):
        yield from stream_of(records)
    elif hasattr(records, "__arrow_c_array__"):
        yield pa.record_batch(records)
    elif is_row(records):
        yield [records]
    elif isinstance(records, Iterable) and not isinstance(records, str | bytes | bytearray | memoryview):
        yield from _parts_of_items(records)
    else:
        is_lazy = callable(getattr(records, "collect", None))
        raise SerializationError(
            f"ArrowWriter does not accept a {type(records).__name__}: "
            + ("call its collect() first, or " if is_lazy else "")
            + "write a RecordBatch, a Table, anything with the Arrow interface, a mapping, a dataclass, or an iterable "
            "of those"
        )


def _parts_of_items(items: Iterable[Any]) -> Iterator[pa.RecordBatch | list[Any]]:
    rows: list[Any] = []
    for item in items:
        if is_row(item):
            rows.append(item)
            if len(rows) < ROWS_AT_ONCE:
                continue
        if rows:
            yield rows
            rows = []
        if not is_row(item):
            yield from _parts(item)
    if rows:
        yield rows
