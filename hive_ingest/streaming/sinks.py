"""The operator's side of sinks: which there are, how far each source is, and to which Spark query one is bound.

A sink's progress is read in a transaction of its own, so no cleaner takes a file away meanwhile. Whoever asks for the
latest rows of all sources reads the whole progress table: a file for each commit, until Hive compacts it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from hive_ingest.config import StreamingSettings
from hive_ingest.connection import SourceProgress, StreamingConnection
from hive_ingest.connection.progress import (
    PROGRESS_COLUMNS,
    PROGRESS_TABLE_SUFFIX,
    progress_rows,
    progress_table_name,
)
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.model import Table, TableName
from hive_ingest.reader.newest import newest_rows
from hive_ingest.reader.scan import DEFAULT_LOCK_WAIT_SECONDS
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.streaming.spark.checkpoint import NO_BATCH, Checkpoint, read_checkpoint
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, bound_to, position_of
from hive_ingest.transactions.read_transaction import ReadTransaction

_SUFFIX = PROGRESS_TABLE_SUFFIX
_AGENT_INFO = "hive-ingest sinks"
#: Of a heap: sequence and transaction, which no two rows of a source share.
_Entry: TypeAlias = tuple[int, int, SourceProgress]


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink and its newest commit, which has a row for each source of its writer; none when nothing was committed.

    `table` is None when the table that was written into is gone, or when nothing was committed.
    """

    database: str
    name: str
    table: TableName | None
    newest: tuple[SourceProgress, ...]

    @property
    def progress_table(self) -> TableName:
        return progress_table_name(self.database, self.name)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What `adopt_query` has done.

    `before` is the progress that the sink had of Spark, None when it had none. From now on `query_id` is the only
    query that may write, and of its batches those above `batch_id` (-1: all). `last_written` is its last batch that
    the sink had committed before, None when there is none.
    """

    progress_table: TableName
    before: SourceProgress | None
    query_id: str
    batch_id: int
    last_written: int | None

    @property
    def is_changed(self) -> bool:
        """False when the sink was bound exactly so before, and nothing was committed."""
        return self.before is None or self.before.position != position_of(self.query_id, self.batch_id)


# -- looking ---------------------------------------------------------------------------------------


def list_sinks(client: MetastoreClient, database: str) -> list[Sink]:
    """The sinks of a database, by name. Opens only the newest file of each. Raises NoSuchObject."""
    client.get_database(database)
    found = [client.get_table(TableName(database, name)) for name in client.get_tables(database, f"*{_SUFFIX}")]
    progress_tables = [table for table in found if _is_progress_table(table)]
    if not progress_tables:
        return []
    tables = [client.get_table(TableName(database, name)) for name in client.get_tables(database)]
    by_id = {table_id: table.name for table in tables for table_id in table.known_ids}
    return [_sink(client, table, by_id) for table in progress_tables]


def _sink(client: MetastoreClient, table: Table, tables: Mapping[int, TableName]) -> Sink:
    with _newest_first(client, table.name) as batches:
        newest = _newest_commit(batches)
    name = table.name.table.removesuffix(_SUFFIX)
    return Sink(table.name.database, name, tables.get(newest[0].table_id) if newest else None, newest)


def _newest_commit(batches: Iterator[list[SourceProgress]]) -> tuple[SourceProgress, ...]:
    rows = next(batches, [])
    last = max((row.txn_id for row in rows), default=None)
    return tuple(row for row in rows if row.txn_id == last)


def latest_progress(client: MetastoreClient, progress_table: str | TableName) -> dict[str, SourceProgress]:
    """The latest row of each source of a sink, by name. Raises what `progress_history` does."""
    return {source: rows[0] for source, rows in progress_history(client, progress_table).items()}


def progress_history(
    client: MetastoreClient, progress_table: str | TableName, *, rows_per_source: int = 1, source: str | None = None
) -> dict[str, list[SourceProgress]]:
    """The last rows of each source of a sink, newest first; the sources by name.

    `source`: only of that one; then reading stops at its last row wanted. Raises NoSuchObject, ConfigurationError (a
    table that holds no progress), SinkConflict (written by a newer version of this package), LockTimeout, TxnAborted.
    """
    if rows_per_source < 1:
        raise ConfigurationError(f"rows_per_source={rows_per_source}: give 1 or more")
    found: defaultdict[str, list[_Entry]] = defaultdict(list)
    with _newest_first(client, TableName.of(progress_table)) as batches:
        for rows in batches:
            for row in rows:
                if source in (None, row.source):
                    _keep_latest(found[row.source], row, rows_per_source)
            if source is not None and len(found[source]) == rows_per_source:
                break
    return {name: [row for *_, row in sorted(heap, reverse=True)] for name, heap in sorted(found.items()) if heap}


def _keep_latest(heap: list[_Entry], row: SourceProgress, most: int) -> None:
    """Files come newest first, but the rows of a compacted one by age."""
    entry = (row.sequence, row.txn_id, row)
    if len(heap) < most:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)


@contextmanager
def _newest_first(client: MetastoreClient, name: TableName) -> Iterator[Iterator[list[SourceProgress]]]:
    """The rows of a progress table, a list for each stripe, as one snapshot sees them."""
    table = client.get_table(name)
    if not _is_progress_table(table):
        raise ConfigurationError(f"{name} is no progress of a sink: give a table named <sink>{_SUFFIX}")
    transaction = ReadTransaction(client, name, lock_wait_seconds=DEFAULT_LOCK_WAIT_SECONDS, agent_info=_AGENT_INFO)
    try:
        yield map(_rows, newest_rows(client, table, transaction.valid_write_ids))
        transaction.check()
    except BaseException as error:
        transaction.abort(error)
        raise
    transaction.close()


def _rows(batch: pa.RecordBatch) -> list[SourceProgress]:
    return [row for row, _ in progress_rows(batch)]


def _is_progress_table(table: Table) -> bool:
    """A user's own table may be called so too."""
    names = [column.name for column in table.columns]
    return table.name.table.endswith(_SUFFIX) and names[: len(PROGRESS_COLUMNS)] == list(PROGRESS_COLUMNS)


# -- binding ---------------------------------------------------------------------------------------


def adopt_query(
    client: MetastoreClient,
    table: str | TableName,
    sink: str,
    query_id: str,
    batch_id: int | None = None,
    *,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
) -> Adoption:
    """Bind a sink to a Spark query on purpose: from now on that one writes, and no other.

    `batch_id` is the last batch of the query that must not be written (again), -1 for none. Without it, that is the
    last one which the sink has committed for this query, so that a query which comes back doubles nothing. A sink
    that is not there yet is made. Stop the query that wrote before first: between two of its batches it holds no
    lock, so it is not noticed, and its next batch is refused.

    Raises SinkConflict (the sink belongs to another table), SinkInUse (a batch was being written, and still was after
    `lock_wait_seconds`), InvalidTable, ConfigurationError, and what a commit raises.
    """
    return _adopt(client, TableName.of(table), sink, query_id, batch_id, NO_BATCH, settings)


def adopt_checkpoint(
    client: MetastoreClient,
    table: str | TableName,
    sink: str,
    checkpoint: str | Checkpoint,
    batch_id: int | None = None,
    *,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
) -> Adoption:
    """`adopt_query`, of the query whose checkpoint this is: a path or a URI, or what `read_checkpoint` returned.

    Without `batch_id` it is the later one of two: the last batch in the checkpoint's commits, and the last one that
    the sink has committed for this query, which Spark may not have noted any more. Raises also what `read_checkpoint`
    raises.
    """
    found = checkpoint if isinstance(checkpoint, Checkpoint) else read_checkpoint(checkpoint)
    return _adopt(client, TableName.of(table), sink, found.query_id, batch_id, found.last_committed, settings)


def _adopt(
    client: MetastoreClient,
    table: TableName,
    sink: str,
    query_id: str,
    batch_id: int | None,
    known_batch_id: int,
    settings: StreamingSettings | Mapping[str, Any] | None,
) -> Adoption:
    if not query_id or (batch_id is not None and batch_id < NO_BATCH):
        raise ConfigurationError(f"query id {query_id!r}, batch id {batch_id}: give an id, and -1 or more")
    with StreamingConnection.connect(
        client,
        database=table.database,
        table=table.table,
        record_writer=ArrowWriter(),
        agent_info=_AGENT_INFO,
        settings=settings,
        sink=sink,
        sources=[SPARK_SOURCE],
    ) as connection:
        adopting = _Adopting(client, progress_table_name(table.database, sink), query_id, batch_id, known_batch_id)
        connection.seek(adopting)
    return adopting.adoption


class _Adopting:
    """Called while the sink is locked, so nobody moves it between the look at it and the commit."""

    adoption: Adoption

    def __init__(
        self,
        client: MetastoreClient,
        progress_table: TableName,
        query_id: str,
        batch_id: int | None,
        known_batch_id: int,
    ) -> None:
        self._client = client
        self._progress_table = progress_table
        self._query_id = query_id
        self._batch_id = batch_id
        self._known_batch_id = known_batch_id

    def __call__(self, progress: Mapping[str, SourceProgress | None]) -> dict[str, Any]:
        """The position to commit; none when it is the present one."""
        before = progress[SPARK_SOURCE]
        last_written = self._last_written() if before is not None else None
        batch_id = self._batch_id
        if batch_id is None:
            batch_id = max(self._known_batch_id, NO_BATCH if last_written is None else last_written)
        self.adoption = Adoption(self._progress_table, before, self._query_id, batch_id, last_written)
        return {SPARK_SOURCE: position_of(self._query_id, batch_id)} if self.adoption.is_changed else {}

    def _last_written(self) -> int | None:
        """By the sink's history: other queries may have come since."""
        table = self._client.get_table(self._progress_table)
        (snapshot,) = self._client.get_valid_write_ids([self._progress_table])
        for batch in newest_rows(self._client, table, snapshot):
            rows = [(row.sequence, bound_to(row.position)) for row in _rows(batch) if row.source == SPARK_SOURCE]
            ours = [(sequence, bound[1]) for sequence, bound in rows if bound and bound[0] == self._query_id]
            if ours:
                return max(ours)[1]
        return None
