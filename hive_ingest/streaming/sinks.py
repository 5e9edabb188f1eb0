"""Sinks for operators: which sinks there are, and the progress of each source.

A sink's progress is read in a transaction of its own, so no cleaner removes a file meanwhile. Reading the latest rows
of all sources reads the whole progress table, which has a file for each commit until Hive compacts it.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from hive_ingest.connection import (
    PROGRESS_COLUMNS,
    PROGRESS_TABLE_SUFFIX,
    SourceProgress,
    progress_rows,
    progress_table_name,
    with_source_names,
)
from hive_ingest.errors import ConfigurationError, StreamingError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import LockInfo, Table, TableName
from hive_ingest.reader import DEFAULT_LOCK_WAIT_SECONDS, newest_rows
from hive_ingest.transactions import ReadTransaction

_log = logging.getLogger(__name__)

_SUFFIX = PROGRESS_TABLE_SUFFIX
_AGENT_INFO = "hive-ingest sinks"
#: Sort key in a heap: sequence and transaction, which no two rows of a source share.
_Entry: TypeAlias = tuple[int, int, SourceProgress]


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink, its sources and its newest commit.

    Attributes:
        table: None if that table no longer exists, or if nothing was committed.
        newest: The newest commit: a row for each source of its writer. Empty if nothing was committed.
        sources: The names of all sources that have progress, also those of other writers.
    """

    database: str
    name: str
    table: TableName | None
    newest: tuple[SourceProgress, ...]
    sources: frozenset[str]

    @property
    def progress_table(self) -> TableName:
        return progress_table_name(self.database, self.name)


def list_sinks(client: MetastoreClient, database: str) -> list[Sink]:
    """The sinks of a database, by name. Reads their whole progress tables. Raises NoSuchObject."""
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
        first = next(batches, [])
        sources = {row.source for rows in itertools.chain([first], batches) for row in rows}
    last = max((row.txn_id for row in first), default=None)
    newest = tuple(row for row in first if row.txn_id == last)
    written = tables.get(newest[0].table_id) if newest else None
    return Sink(table.name.database, table.name.table.removesuffix(_SUFFIX), written, newest, frozenset(sources))


def sinks_of(client: MetastoreClient, table: Table) -> list[str]:
    """The names of the sinks that write a table. Reads the newest commit of each sink of its database.

    A sink whose progress cannot be read is logged and left out.
    """
    found = []
    for name in client.get_tables(table.name.database, f"*{_SUFFIX}"):
        progress_table = client.get_table(TableName(table.name.database, name))
        if not _is_progress_table(progress_table):
            continue
        try:
            with _newest_first(client, progress_table.name) as batches:
                newest = next(batches, [])
        except StreamingError as error:
            _log.warning("whether %s has positions for %s is not known: %s", progress_table.name, table.name, error)
            continue
        if any(row.table_id in table.known_ids for row in newest):
            found.append(name.removesuffix(_SUFFIX))
    return found


def sink_exists(client: MetastoreClient, database: str, sink: str) -> bool:
    """Whether a sink has a progress table. Raises ConfigurationError for a name that no sink can have."""
    name = progress_table_name(database, sink)
    return name.table in client.get_tables(database, name.table)


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


def with_sources_named(client: MetastoreClient, locks: Sequence[LockInfo]) -> list[LockInfo]:
    """The same locks; those on a source of a sink show its name, which is known from its first commit on."""
    tables = {
        TableName(lock.database, lock.table)
        for lock in locks
        if lock.table and lock.table.endswith(_SUFFIX) and (lock.partition_name or "").startswith("source=")
    }
    return with_source_names(locks, {table: _known_sources(client, table) for table in tables})


def _known_sources(client: MetastoreClient, progress_table: TableName) -> list[str]:
    try:
        with _newest_first(client, progress_table, lock_wait_seconds=0) as batches:
            return sorted({row.source for rows in batches for row in rows})
    except StreamingError as error:
        _log.info("the sources of %s could not be read: %s", progress_table, error)
        return []


def _keep_latest(heap: list[_Entry], row: SourceProgress, most: int) -> None:
    """Files come newest first, but the rows of a compacted one by age."""
    entry = (row.sequence, row.txn_id, row)
    if len(heap) < most:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)


@contextmanager
def _newest_first(
    client: MetastoreClient, name: TableName, *, lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS
) -> Iterator[Iterator[list[SourceProgress]]]:
    """The rows of a progress table, a list for each stripe, as one snapshot sees them."""
    table = client.get_table(name)
    if not _is_progress_table(table):
        raise ConfigurationError(f"{name} is not the progress table of a sink: give a table named <sink>{_SUFFIX}")
    transaction = ReadTransaction(client, name, lock_wait_seconds=lock_wait_seconds, agent_info=_AGENT_INFO)
    try:
        yield map(_rows, newest_rows(client, table, transaction.valid_write_ids))
        transaction.check()
    except BaseException as error:
        transaction.fail(error)
        raise
    transaction.close()


def _rows(batch: pa.RecordBatch) -> list[SourceProgress]:
    return [row for row, _ in progress_rows(batch)]


def _is_progress_table(table: Table) -> bool:
    """A user's own table may have such a name too."""
    names = [column.name for column in table.columns]
    return table.name.table.endswith(_SUFFIX) and names[: len(PROGRESS_COLUMNS)] == list(PROGRESS_COLUMNS)
