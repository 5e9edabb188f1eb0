"""The rows of one partition as its snapshot sees them: base + deltas − delete events, in the table's types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.arrow_arrays import boolean_array, number_array
from hive_ingest.errors import CorruptFile, StreamingError, UnsupportedFeature
from hive_ingest.model import Table
from hive_ingest.orc import (
    BUCKET,
    DELETE,
    INSERT,
    OPERATION,
    ORIGINAL_WRITE_ID,
    ROW_ID,
    WRITE_ID,
    AcidFileReader,
    DeleteEvents,
    FileGroup,
    FileToRead,
    RowIds,
    StripeBounds,
    StripeReader,
    StripeRows,
    ValueRange,
    is_worth_threads,
    open_ahead,
    stripes_ahead,
)
from hive_ingest.reader.evolution import ColumnSource, column_sources
from hive_ingest.reader.fields import field_path, needed_types, type_at, values_at
from hive_ingest.reader.folder import FolderToRead
from hive_ingest.reader.partitions import PartitionToRead
from hive_ingest.reader.predicate import Predicate
from hive_ingest.reader.stripe_filter import FieldPath
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import FileStore, Location

ROW_ID_COLUMN = "row__id"
#: ROW__ID as Hive shows it: write id, bucket property, row id.
ROW_ID_TYPE = pa.struct([("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())])
_ROW_ID_FIELDS = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)


def full_schema(table: Table) -> pa.Schema:
    """Data columns, partition keys, then `row__id`: all columns that a filter may use."""
    columns = arrow_schema((*table.columns, *table.partition_keys))
    return columns.append(pa.field(ROW_ID_COLUMN, ROW_ID_TYPE))


@dataclass(frozen=True, slots=True)
class Snapshot:
    valid_write_ids: ValidWriteIdList
    valid_txns: ValidTxnList


@dataclass(frozen=True, slots=True)
class Projection:
    """What to read of a table, and how.

    Attributes:
        output: Columns in order, and fields of structs as "payload.user.id".
        predicate: It may read others.
        schema: Of the batches.
        paths: Those of `output`.
        needed: Each column that is read, with its type; a struct may have fewer fields than in the table.
    """

    table: Table
    output: tuple[str, ...]
    predicate: Predicate | None
    verify_checksums: bool = True
    schema: pa.Schema = field(init=False)
    paths: tuple[FieldPath, ...] = field(init=False)
    needed: Mapping[str, pa.DataType] = field(init=False)

    def __post_init__(self) -> None:
        everything = full_schema(self.table)
        paths = tuple(field_path(everything, name) for name in self.output)
        output = zip(self.output, paths, strict=True)
        object.__setattr__(self, "schema", pa.schema([(name, type_at(everything, path)) for name, path in output]))
        object.__setattr__(self, "paths", paths)
        read = {*paths, *(self.predicate.paths if self.predicate else ())}
        object.__setattr__(self, "needed", needed_types(everything, read))


def read_partition(
    partition: PartitionToRead, projection: Projection, snapshot: Snapshot, *, newest_first: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows by file and position, in batches; nothing is opened before the first batch is asked for.

    Then small files are read ahead, many at a time. With `newest_first` files and their stripes come in reverse order,
    each file is opened when it is reached, and its folder not listed before: for callers that stop at the latest rows.
    """
    folder = _folder_of(partition, snapshot)
    reading = _PartitionReading(
        partition, projection, snapshot.valid_write_ids, folder.delete_event_files(), uses_threads=not newest_first
    )
    if not newest_first:
        yield from reading.batches(list(folder.data_files()))
        return
    for file in folder.data_files(newest_first=True):
        yield from reading.file_batches(file, newest_first=True)


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Files of one partition that a snapshot sees, found in one process and read in another."""

    partition: PartitionToRead
    data: tuple[FileToRead, ...]
    #: All of the partition, whichever of its data files are read.
    delete_events: tuple[FileToRead, ...]


def list_files(partition: PartitionToRead, snapshot: Snapshot) -> PartitionFiles:
    """All files of a partition. Raises what `FolderToRead.of` and `data_files` do."""
    folder = _folder_of(partition, snapshot)
    return PartitionFiles(partition, tuple(folder.data_files()), tuple(folder.delete_event_files()))


def read_files(files: PartitionFiles, projection: Projection, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """As `read_partition`, of files that were listed before; later ones are not read.

    Stripes are read one by one: these are shares of a scan, of which others are read at the same time.
    """
    reading = _PartitionReading(
        files.partition, projection, snapshot.valid_write_ids, files.delete_events, uses_threads=False
    )
    yield from reading.batches(files.data)


def _folder_of(partition: PartitionToRead, snapshot: Snapshot) -> FolderToRead:
    return FolderToRead.of(Location.of(partition.location), snapshot.valid_write_ids, snapshot.valid_txns)


class _PartitionReading:
    def __init__(
        self,
        partition: PartitionToRead,
        projection: Projection,
        valid_write_ids: ValidWriteIdList,
        delete_event_files: Iterable[FileToRead],
        *,
        uses_threads: bool,
    ) -> None:
        self._store = Location.of(partition.location).store
        self._partition = partition
        self._projection = projection
        self._write_ids = valid_write_ids
        self._uses_threads = uses_threads
        self._positions = {column.name: i for i, column in enumerate(projection.table.columns)}
        predicate = projection.predicate
        uses_columns = predicate is not None and any(path[0] in self._positions for path in predicate.paths)
        self._filters = predicate.stripes if predicate is not None and uses_columns else ()
        self._deletes = _load_delete_events(self._store, delete_event_files, valid_write_ids)

    def batches(self, files: Sequence[FileToRead]) -> Iterator[pa.RecordBatch]:
        """The rows of several files; errors come after the rows of the files before."""
        for group in open_ahead(self._store, files, verify_checksums=self._projection.verify_checksums):
            yield from self._group_batches(group)

    def _group_batches(self, group: FileGroup) -> Iterator[pa.RecordBatch]:
        try:
            first = group.readers[0].file
            found = list(self._stripes(group.joined, first, parts=group.readers)) if group.joined else None
        except (StreamingError, pa.ArrowException):
            found = None  # one by one: then the error names its file, and comes after the rows before it
        if found is not None:
            yield from found
            return
        for reader in group.readers:
            yield from self._stripes(reader, reader.file)

    def file_batches(self, file: FileToRead, *, newest_first: bool = False) -> Iterator[pa.RecordBatch]:
        """One batch for each stripe that has rows left."""
        with AcidFileReader(self._store, file, verify_checksums=self._projection.verify_checksums) as reader:
            yield from self._stripes(reader, file, newest_first=newest_first)

    def _stripes(
        self,
        reader: StripeReader,
        file: FileToRead,
        *,
        parts: Sequence[StripeReader] = (),
        newest_first: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Of one file, or of several, the `parts`, that are joined and of which `file` is the first."""
        sources = column_sources(
            self._projection.table.columns,
            frozenset(self._projection.needed),
            reader.row,
            reader.row_type,
            calendar=reader.calendar,
            path=reader.path,
            types=self._projection.needed,
        )
        names = [name for source in sources.values() for name in source.names]
        acid = self._acid_columns(file)

        def read(reader: StripeReader, stripe: int) -> pa.RecordBatch:
            return self._batch(reader.read(stripe, acid, names), file, sources)

        # Only now: a file that does not fit the table is refused, whatever its statistics are.
        stripes = self._wanted_stripes(reader) if not parts or any(map(self._wanted_stripes, parts)) else ()
        batches: Iterable[pa.RecordBatch]
        if self._uses_threads and is_worth_threads(file, len(stripes)):
            verify = self._projection.verify_checksums
            batches = stripes_ahead(self._store, file, stripes, read, verify_checksums=verify)
        else:
            batches = (read(reader, stripe) for stripe in (reversed(stripes) if newest_first else stripes))
        for batch in batches:
            if batch.num_rows:
                yield batch

    def _wanted_stripes(self, reader: StripeReader) -> Sequence[int]:
        """Those that may hold a row that passes the filter."""
        stripes = range(reader.num_stripes)
        if not self._filters:
            return stripes
        ranges = ((stripe, self._range_of(reader.bounds(stripe))) for stripe in stripes)
        return [stripe for stripe, range_of in ranges if all(each.may_match(range_of) for each in self._filters)]

    def _range_of(self, bounds: StripeBounds | None) -> Callable[[FieldPath], ValueRange | None]:
        def range_of(path: FieldPath) -> ValueRange | None:
            position = self._positions.get(path[0])  # a partition key has none: by it, partitions have been left out
            return None if bounds is None or position is None else bounds.of(position, path[1:])

        return range_of

    def _acid_columns(self, file: FileToRead) -> list[str]:
        wants_row_ids = bool(self._deletes) or ROW_ID_COLUMN in self._projection.needed
        return [OPERATION, *(_ROW_ID_FIELDS if wants_row_ids else ()), *((WRITE_ID,) if file.check_write_ids else ())]

    def _batch(self, rows: StripeRows, file: FileToRead, sources: dict[str, ColumnSource]) -> pa.RecordBatch:
        """The rows of a stripe that are visible and pass the filter."""
        keep = self._visible(rows, file)
        count = int(keep.sum())
        arrays = self._columns(rows, sources, keep, count)
        output = [values_at(arrays, path) for path in self._projection.paths]
        predicate = self._projection.predicate
        if predicate is not None and count:
            mask = predicate.mask(_as_batch(arrays, self._projection.table, count))
            if mask.true_count < count:
                output = [column.filter(mask) for column in output]
                count = mask.true_count
        return _batch_of(output, self._projection.schema, count)

    def _visible(self, rows: StripeRows, file: FileToRead) -> npt.NDArray[np.bool_]:
        if (rows.numbers(OPERATION) != INSERT).any():
            raise UnsupportedFeature(
                f"{file.path!r} holds updates or deletes among its rows, as Hive 2 wrote them: run a major compaction"
            )
        keep = np.ones(len(rows), dtype=np.bool_)
        if file.check_write_ids:
            keep &= self._write_ids.valid_mask(rows.numbers(WRITE_ID))
        if self._deletes:
            keep &= ~self._deletes.hits(rows.row_ids())
        return keep

    def _columns(
        self, rows: StripeRows, sources: dict[str, ColumnSource], keep: npt.NDArray[np.bool_], count: int
    ) -> dict[str, Any]:
        """Every needed column, by the table's name, for the rows to keep."""
        mask = None if count == len(rows) else boolean_array(keep)
        read = rows.columns()
        arrays = {}
        for name, source in sources.items():
            array = None if source.name is None else read[source.name]
            arrays[name] = source.read(array if array is None or mask is None else array.filter(mask), count)
        for name, value in self._partition.values.items():
            if name in self._projection.needed:
                arrays[name] = pa.repeat(value, count)
        if ROW_ID_COLUMN in self._projection.needed:
            arrays[ROW_ID_COLUMN] = _row_id_array(rows.row_ids().select(keep))
        return arrays


def _as_batch(arrays: dict[str, Any], table: Table, count: int) -> pa.RecordBatch:
    """For a filter: in the table's order, because it may refer to columns by position."""
    names = [name for name in full_schema(table).names if name in arrays]
    columns = [arrays[name] for name in names]
    return _batch_of(columns, pa.schema([(name, arrays[name].type) for name in names]), count)


def _batch_of(columns: Sequence[Any], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if len(schema) == 0:
        # A batch without columns keeps its number of rows only this way.
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _row_id_array(rows: RowIds) -> pa.StructArray:
    columns = [number_array(values) for values in (rows.write_ids, rows.buckets, rows.row_ids)]
    return pa.StructArray.from_arrays(columns, fields=list(ROW_ID_TYPE))


def _load_delete_events(
    store: FileStore, files: Iterable[FileToRead], valid_write_ids: ValidWriteIdList
) -> DeleteEvents | None:
    """All events of the partition that the snapshot sees; None if it has no files of them."""
    parts = [part for file in files for part in _delete_events_of(store, file, valid_write_ids)]
    return DeleteEvents(RowIds.concat(parts)) if parts else None


def _delete_events_of(store: FileStore, file: FileToRead, valid_write_ids: ValidWriteIdList) -> Iterator[RowIds]:
    columns = [OPERATION, *_ROW_ID_FIELDS, WRITE_ID]
    with AcidFileReader(store, file) as reader:
        for stripe in range(reader.num_stripes):
            rows = reader.read(stripe, columns, [])
            if (rows.numbers(OPERATION) != DELETE).any():
                raise CorruptFile(
                    f"{file.path!r} is in a folder of delete events, but holds rows: restore it from a copy"
                )
            keep = valid_write_ids.valid_mask(rows.numbers(WRITE_ID))
            yield rows.row_ids().select(keep)
