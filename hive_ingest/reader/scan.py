"""Snapshot reads of an ACID table: `scan` gives batches, `read_table` a table.

Both see exactly what was committed when their lock was granted: base + deltas − delete events, without a row of an
open or aborted transaction.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import ConfigurationError, ConnectionMisuse, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.reader.fields import field_path
from hive_ingest.reader.held_snapshot import (
    DEFAULT_AGENT_INFO,
    DEFAULT_LOCK_WAIT_SECONDS,
    HeldSnapshot,
    ReadScope,
)
from hive_ingest.reader.html import html_table
from hive_ingest.reader.partitions import PartitionToRead, prune, typed_partitions, whole_table
from hive_ingest.reader.predicate import Predicate
from hive_ingest.reader.rows import ROW_ID_COLUMN, Projection, Snapshot, full_schema, read_partition
from hive_ingest.reader.where import parse_where, stripes_of
from hive_ingest.schema import arrow_schema
from hive_ingest.transactions import ReadTransaction

DEFAULT_BATCH_ROWS = 131_072


def scan(
    metastore: MetastoreClient | str,
    table: str | TableName,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    filter: pc.Expression | None = None,
    row_ids: bool = False,
    snapshot: HeldSnapshot | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    verify_checksums: bool = True,
    lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS,
    agent_info: str = DEFAULT_AGENT_INFO,
) -> Scan:
    """Read a table batch by batch, at one snapshot.

    Memory holds one ORC stripe, or small files that are read together, and the delete events of one partition. Rows
    come by partition name, then file, then in the order of the file. A char(n) comes padded to n characters, as Hive
    returns it; a column that was added after a file was written is null in its rows.

    Args:
        metastore: A client, or the URI of a metastore for a client that is closed with the scan.
        table: `"database.table"`.
        columns: Names in the order wanted, partition keys among them. Default: all, partition keys last.
            `"payload.user.id"` is a field of a struct, as a column of that name; nothing else of the struct is read.
        where: A condition as text, in SQL: `"month = 3 and (origin like 'JF%' or dest is not null)"` (docs/filters.md).
        filter: The same as a boolean Arrow expression, over any columns, partition keys and `row__id`. Rows are read
            for which both are true; partitions for which one cannot be are not even listed. It leaves out stripes of
            files by the conditions that `where` could express too.
        row_ids: Whether to append `row__id struct<writeid: int64, bucketid: int32, rowid: int64>`, Hive's ROW__ID.
        snapshot: Read at a snapshot that `hold_snapshot` took in this metastore, not at a new one.
        batch_rows: The most rows in a batch.
        verify_checksums: Whether to verify what is read of files that have checksums (all that were written here)
            before it is decoded. It takes up to a fifth more processor time when all columns are read, next to nothing
            for a few. Without it, small files are read one by one, which is slower.
        lock_wait_seconds: How long to wait for the lock that keeps the files. A held snapshot has its lock already.
        agent_info: What SHOW LOCKS shows for the reader.

    Raises:
        NoSuchObject: There is no such table.
        LockTimeout: The lock was not granted in time.
        ConfigurationError: There is no such column, a filter does not fit, or the snapshot is not one of this table.
        ConnectionMisuse: The snapshot was closed.
        UnsupportedFeature: An insert-only table, among others.
        StreamingError: While reading: CorruptFile, StreamingIOFailure, TxnAborted. The transaction is ended.
    """
    if batch_rows < 1:
        raise ConfigurationError(f"batch_rows is {batch_rows}: give at least 1")
    name = TableName.of(table)
    client, scope = open_scope(metastore, name, snapshot, lock_wait_seconds=lock_wait_seconds, agent_info=agent_info)
    try:
        projection, partitions = what_to_read(client, name, columns, where, filter, row_ids, verify_checksums)
    except BaseException as error:
        scope.fail(error)
        raise
    return Scan(scope, projection, partitions, batch_rows)


def open_scope(
    metastore: MetastoreClient | str,
    table: TableName,
    snapshot: HeldSnapshot | None,
    *,
    lock_wait_seconds: float,
    agent_info: str,
) -> tuple[MetastoreClient, ReadScope]:
    """A client, and what keeps the files of a read: a share of the snapshot, or else a transaction of its own."""
    if snapshot is not None:
        return snapshot.share(metastore, table)
    owns_client = isinstance(metastore, str)
    client = connect_metastore(metastore) if isinstance(metastore, str) else metastore
    try:
        return client, ReadTransaction(
            client, table, lock_wait_seconds=lock_wait_seconds, agent_info=agent_info, owns_client=owns_client
        )
    except BaseException:
        if owns_client:
            client.close()
        raise


def read_table(
    metastore: MetastoreClient | str,
    table: str | TableName,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    filter: pc.Expression | None = None,
    row_ids: bool = False,
    snapshot: HeldSnapshot | None = None,
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
        snapshot=snapshot,
        verify_checksums=verify_checksums,
        lock_wait_seconds=lock_wait_seconds,
        agent_info=agent_info,
    ) as rows:
        return rows.read_all()


class Scan:
    """The batches of a snapshot, read as they are asked for; behaves as a `pyarrow.RecordBatchReader`.

    It owns its transaction, unless it reads at a held snapshot. The transaction ends with the last batch, an error,
    `close`, or the `with` block; a scan that is forgotten warns and ends it. Anything that takes an Arrow stream takes
    it, as in `pa.table(scan)`. For one thread at a time.
    """

    def __init__(
        self,
        scope: ReadScope,
        projection: Projection,
        partitions: Sequence[PartitionToRead],
        batch_rows: int,
    ) -> None:
        self._scope = scope
        self._schema = projection.schema
        self._table = projection.table.name
        self._is_complete = self._is_closed = self._is_streamed = False
        self._batches = _batches(scope, projection, partitions, batch_rows)
        scope.end_with(self, f"a scan of {projection.table.name}")

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
        """The batches that are left, as an Arrow stream.

        Some libraries request a stream only for its schema, so only the first that is read gets the batches; reading
        another one is an error. It would look like the end of the rows.
        """
        reader: Any = pa.RecordBatchReader.from_batches(self._schema, self._streamed())
        return reader.__arrow_c_stream__(requested_schema)

    def _streamed(self) -> Iterator[pa.RecordBatch]:
        if self._is_streamed or self._is_complete:
            raise ConnectionMisuse(
                f"the scan of {self._table} has been read already, or is read twice by one query: a scan can be read "
                "once. Scan again, or use read_table"
            )
        self._is_streamed = True
        yield from self

    def close(self) -> None:
        """End the transaction, and read no further. Idempotent."""
        self._is_closed = True
        self._batches.close()
        self._scope.close()

    def __repr__(self) -> str:
        return f"<{self._title}: {', '.join(f'{field.name} {field.type}' for field in self._schema)}>"

    def _repr_html_(self) -> str:
        """The columns, for notebooks. Reads no row."""
        return html_table(self._title, ["column", "type"], [(each.name, str(each.type)) for each in self._schema])

    @property
    def _title(self) -> str:
        state = ", read to its end" if self._is_complete else ", closed" if self._is_closed else ""
        return f"Scan of {self._table}{state}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self._scope.fail(exc)
        self.close()


def _batches(
    scope: ReadScope, projection: Projection, partitions: Sequence[PartitionToRead], batch_rows: int
) -> Generator[pa.RecordBatch, None, bool]:
    """Yield all batches, and return True.

    An error or the last batch ends the transaction; a generator that is closed early leaves it open.
    """
    snapshot = Snapshot(scope.valid_write_ids, scope.valid_txns)
    try:
        for partition in partitions:
            scope.check()  # a file system may have reasons of its own to refuse a forked child
            for batch in read_partition(partition, projection, snapshot):
                scope.check()
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)
        scope.commit()
        return True
    except GeneratorExit:
        raise
    except BaseException as error:
        scope.fail(error)
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
    projection = _projection(found, columns, _predicate(found, where, filter), row_ids)
    return replace(projection, verify_checksums=verify_checksums), _partitions(client, found, projection)


def check_readable(table: Table) -> None:
    """Raises UnsupportedFeature."""
    if not table.is_transactional:
        raise UnsupportedFeature(f"{table.name} is not transactional: read its files at {table.location} directly")
    if table.is_insert_only:
        raise UnsupportedFeature(f"{table.name} is an insert-only table, which cannot be read yet: read it with Hive")
    if any(column.name == ROW_ID_COLUMN for column in (*table.columns, *table.partition_keys)):
        raise UnsupportedFeature(
            f"{table.name} has a column named {ROW_ID_COLUMN!r}, as the virtual column is named that shows ROW__ID: "
            "rename it (ALTER TABLE … CHANGE)"
        )


def _predicate(table: Table, where: str | None, filter: pc.Expression | None) -> Predicate | None:
    """Raises ConfigurationError for a filter that does not fit."""
    if where is None and filter is None:
        return None
    columns = (*table.columns, *table.partition_keys)
    parsed = None if where is None else parse_where(where, columns)
    stripes = None if filter is None else stripes_of(filter, columns)
    return Predicate(full_schema(table), where=parsed, filter=filter, filter_stripes=stripes)


def _projection(table: Table, columns: Sequence[str] | None, predicate: Predicate | None, row_ids: bool) -> Projection:
    """Raises ConfigurationError for a column that is not there, or is given twice."""
    if isinstance(columns, str):
        raise ConfigurationError(f"columns={columns!r} is one text: give a list of names")
    known = arrow_schema((*table.columns, *table.partition_keys))
    try:
        output = [".".join(field_path(known, name)) for name in (known.names if columns is None else columns)]
    except ConfigurationError as error:
        raise ConfigurationError(f"{table.name}: {error}") from None
    if len(set(output)) < len(output):
        raise ConfigurationError(f"{table.name}: a column can be given only once, not {', '.join(output)}")
    return Projection(table, (*output, ROW_ID_COLUMN) if row_ids else tuple(output), predicate)


def partitions_of(client: MetastoreClient, table: Table, where: str | None) -> list[PartitionToRead]:
    """The partitions that may hold a row that passes a filter, by name. Raises ConfigurationError, InvalidOperation."""
    return _partitions(client, table, _projection(table, [], _predicate(table, where, None), row_ids=False))


def _partitions(client: MetastoreClient, table: Table, projection: Projection) -> list[PartitionToRead]:
    """Those that may hold a row that passes the filter."""
    if not table.is_partitioned:
        return [whole_table(table)]
    partitions = typed_partitions(table, client.list_partitions(table.name))
    if projection.predicate is None:
        return partitions
    return prune(partitions, full_schema(table), projection.predicate.expression)
