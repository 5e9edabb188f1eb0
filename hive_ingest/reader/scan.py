"""Snapshot reads of an ACID table: `scan` gives batches, `read_table` a table.

Both see exactly what was committed when their lock was granted: base + deltas − delete events, without a row of an
open or aborted transaction.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import ConfigurationError, ConnectionMisuse, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.reader.partitions import PartitionToRead, prune, typed_partitions, whole_table
from hive_ingest.reader.predicate import Predicate
from hive_ingest.reader.rows import ROW_ID_COLUMN, Projection, Snapshot, full_schema, read_partition
from hive_ingest.reader.where import parse_where
from hive_ingest.transactions import ReadTransaction

DEFAULT_BATCH_ROWS = 131_072
DEFAULT_LOCK_WAIT_SECONDS = 60.0
DEFAULT_AGENT_INFO = "hive-ingest reader"


def scan(
    metastore: MetastoreClient | str,
    table: str | TableName,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    filter: pc.Expression | None = None,
    row_ids: bool = False,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    verify_checksums: bool = True,
    lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS,
    agent_info: str = DEFAULT_AGENT_INFO,
) -> Scan:
    """Read a table batch by batch; memory holds one ORC stripe, or small files that are read together, and the delete
    events of one partition.

    `metastore`: a client, or the URI of a metastore for a client that is closed with the scan.
    `columns`: names in the order wanted, partition keys among them; all by default, partition keys last.
    `where`: a condition as text, in SQL: `"month = 3 and (origin like 'JF%' or dest is not null)"` (docs/filters.md).
    `filter`: the same as a boolean Arrow expression, over any columns, partition keys and `row__id`. Rows are read for
    which both are true; partitions for which one cannot be are not even listed.
    `row_ids` appends `row__id struct<writeid: int64, bucketid: int32, rowid: int64>`, Hive's ROW__ID.
    `batch_rows`: most rows in a batch. `agent_info` is what SHOW LOCKS shows for the reader.
    `verify_checksums`: verify what is read of files that have checksums (all that were written here), before it is
    decoded. It takes up to a fifth more processor time when all columns are read, next to nothing for a few. Without
    it, small files are read one by one, which is slower.

    Rows come by partition name, then file, then as they lie in the file. char(n) comes padded to n characters, as
    Hive returns it; a column that was added after a file was written is null in its rows.

    Raises NoSuchObject, LockTimeout (not granted within `lock_wait_seconds`), ConfigurationError (no such column, a
    filter that does not fit), UnsupportedFeature (insert-only tables and files without ACID columns, among others);
    while reading also CorruptFile, StreamingIOFailure and TxnAborted. In each case the transaction is ended.
    """
    if batch_rows < 1:
        raise ConfigurationError(f"batch_rows is {batch_rows}: give at least 1")
    name = TableName.of(table)
    owns_client = isinstance(metastore, str)
    client = connect_metastore(metastore) if isinstance(metastore, str) else metastore
    try:
        transaction = ReadTransaction(
            client, name, lock_wait_seconds=lock_wait_seconds, agent_info=agent_info, owns_client=owns_client
        )
    except BaseException:
        if owns_client:
            client.close()
        raise
    try:
        projection, partitions = what_to_read(client, name, columns, where, filter, row_ids, verify_checksums)
    except BaseException as error:
        transaction.fail(error)
        raise
    return Scan(transaction, projection, partitions, batch_rows)


def read_table(
    metastore: MetastoreClient | str,
    table: str | TableName,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    filter: pc.Expression | None = None,
    row_ids: bool = False,
    verify_checksums: bool = True,
    lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS,
    agent_info: str = DEFAULT_AGENT_INFO,
) -> pa.Table:
    """All rows of a snapshot as a `pyarrow.Table`; arguments, order and errors as in `scan`."""
    with scan(
        metastore,
        table,
        columns=columns,
        where=where,
        filter=filter,
        row_ids=row_ids,
        verify_checksums=verify_checksums,
        lock_wait_seconds=lock_wait_seconds,
        agent_info=agent_info,
    ) as rows:
        return rows.read_all()


class Scan:
    """The batches of a snapshot, read as they are asked for; behaves as a `pyarrow.RecordBatchReader`.

    It owns its transaction, which ends with the last batch, an error, `close`, or the `with` block; one that is
    forgotten warns and ends it. Anything that takes an Arrow stream takes it, as in `pa.table(scan)`. For one
    thread at a time.
    """

    def __init__(
        self,
        transaction: ReadTransaction,
        projection: Projection,
        partitions: Sequence[PartitionToRead],
        batch_rows: int,
    ) -> None:
        self._transaction = transaction
        self._schema = projection.schema
        self._table = projection.table.name
        self._is_complete = False
        self._batches = _batches(transaction, projection, partitions, batch_rows)
        transaction.end_with(self, f"a scan of {projection.table.name}")

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        """The next batch.

        Raises:
            StopIteration: After the last one.
            ConnectionMisuse: The scan was closed, or has failed, before the last one.
            StreamingError: The batch cannot be read; the transaction is ended.
        """
        try:
            return next(self._batches)
        except StopIteration as end:
            self._is_complete = self._is_complete or bool(end.value)
            if self._is_complete:
                raise
        # The end of the batches would look like the end of the rows.
        raise ConnectionMisuse(
            f"the scan of {self._table} was closed, or failed, before its last batch: scan again to read all rows"
        )

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch. Raises as `__next__` does."""
        return next(self)

    def read_all(self) -> pa.Table:
        """All batches that are left, as a table; the transaction is ended."""
        return pa.Table.from_batches(list(self), schema=self._schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader: Any = pa.RecordBatchReader.from_batches(self._schema, self)
        return reader.__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """End the transaction, and read no further. Idempotent."""
        self._batches.close()
        self._transaction.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self._transaction.fail(exc)
        self.close()


def _batches(
    transaction: ReadTransaction, projection: Projection, partitions: Sequence[PartitionToRead], batch_rows: int
) -> Generator[pa.RecordBatch, None, bool]:
    """Yield all batches, and return True.

    An error or the last batch ends the transaction; a generator that is closed early leaves it open.
    """
    snapshot = Snapshot(transaction.valid_write_ids, transaction.valid_txns)
    try:
        for partition in partitions:
            for batch in read_partition(partition, projection, snapshot):
                transaction.check()
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)
        transaction.commit()
        return True
    except GeneratorExit:
        raise
    except BaseException as error:
        transaction.fail(error)
        raise


# -- what to read ----------------------------------------------------------------------------------


def what_to_read(
    client: MetastoreClient,
    table: TableName,
    columns: Sequence[str] | None,
    where: str | None,
    filter: pc.Expression | None,
    row_ids: bool,
    verify_checksums: bool,
) -> tuple[Projection, list[PartitionToRead]]:
    """Asked within the read transaction. Raises NoSuchObject, ConfigurationError, UnsupportedFeature."""
    found = client.get_table(table)
    check_readable(found)
    conditions = [parse_where(where, (*found.columns, *found.partition_keys))] if where is not None else []
    conditions += [filter] if filter is not None else []
    condition = functools.reduce(operator.and_, conditions) if conditions else None
    projection = replace(_projection(found, columns, condition, row_ids), verify_checksums=verify_checksums)
    return projection, _partitions(client, found, projection)


def check_readable(table: Table) -> None:
    """Raises UnsupportedFeature."""
    if not table.is_transactional:
        raise UnsupportedFeature(f"{table.name} is not transactional: read its files at {table.location} directly")
    if table.is_insert_only:
        raise UnsupportedFeature(f"{table.name} is an insert-only table, which cannot be read yet: read it with Hive")


def _projection(table: Table, columns: Sequence[str] | None, filter: pc.Expression | None, row_ids: bool) -> Projection:
    """Raises ConfigurationError for a column that is not there, or a filter that does not fit."""
    predicate = None if filter is None else Predicate(filter, full_schema(table))
    known = [column.name for column in (*table.columns, *table.partition_keys)]
    if isinstance(columns, str):
        raise ConfigurationError(f"columns={columns!r} is one text: give a list of names")
    output = known if columns is None else [name.lower() for name in columns]
    unknown = [name for name in output if name not in known]
    if unknown or len(set(output)) < len(output):
        wrong = f"has no column {unknown[0]!r}" if unknown else "cannot give a column twice"
        raise ConfigurationError(f"{table.name} {wrong}: choose from {', '.join(known)}")
    return Projection(table, (*output, ROW_ID_COLUMN) if row_ids else tuple(output), predicate)


def partitions_of(client: MetastoreClient, table: Table, where: str | None) -> list[PartitionToRead]:
    """The partitions that may hold a row that passes a filter, by name. Raises ConfigurationError, InvalidOperation."""
    condition = None if where is None else parse_where(where, (*table.columns, *table.partition_keys))
    return _partitions(client, table, _projection(table, [], condition, row_ids=False))


def _partitions(client: MetastoreClient, table: Table, projection: Projection) -> list[PartitionToRead]:
    """Those that may hold a row that passes the filter."""
    if not table.is_partitioned:
        return [whole_table(table)]
    partitions = typed_partitions(table, client.list_partitions(table.name))
    if projection.predicate is None:
        return partitions
    return prune(partitions, full_schema(table), projection.predicate.expression)
