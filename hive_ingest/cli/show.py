"""`hive-ingest show …`: what the metastore and the folders of a table hold."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli.option_names import Command
from hive_ingest.cli.options import (
    MetastoreOption,
    OptionalTableArgument,
    Output,
    OutputOption,
    TableArgument,
    WarehouseOption,
    connected,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hive_ingest.metastore_client import MetastoreClient
    from hive_ingest.model import CompactionInfo, LockInfo, TableName, TxnId, TxnInfo

app = typer.Typer(
    help="Inspect databases, tables, partitions, deltas, transactions, locks and compactions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
MIB = 1 << 20


@app.command(cls=Command)
def transactions(
    metastore: MetastoreOption,
    table: OptionalTableArgument = None,
    warehouse: WarehouseOption = None,
    old_minutes: Annotated[
        float,
        typer.Option("--old-minutes", metavar="N", min=0, help="Mark transactions that have been open for N minutes."),
    ] = 10.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """List open and aborted transactions. With a table: only those that hold a lock on it or wait for one."""
    from hive_ingest.cli.rows import write_rows

    with connected(metastore, warehouse) as client:
        locks = client.show_locks(table)
        owners = {lock.txn_id: lock.agent_info for lock in locks}
        infos = [info for info in client.get_open_txns_info().transactions if table is None or info.id in owners]
    rows = [_transaction_row(info, owners, old_minutes) for info in infos]
    write_rows(
        ("txn", "state", "kind", "age_seconds", "last_heartbeat_seconds", "user", "host", "owner", "remark"),
        rows,
        output,
    )


def _transaction_row(info: TxnInfo, owners: dict[Any, str], old_minutes: float) -> tuple[Any, ...]:
    from hive_ingest.model import TxnState, TxnType

    is_open = info.state is TxnState.OPEN
    age = _seconds_since(info.started_ms)
    is_old = is_open and age >= 60 * old_minutes
    remark = f"OLD: open for {old_minutes:g} minutes or more, holds up cleaning" if is_old else info.abort_reason
    kind = "reader" if info.type is TxnType.READ_ONLY else info.type.name.lower()
    # A server may report the agent of locks only (Hive 4.0.1: "Unknown" for a transaction).
    owner = owners.get(info.id, info.agent_info)
    beat = _seconds_since(info.last_heartbeat_ms) if is_open else None
    return info.id, info.state.name.lower(), kind, age, beat, info.user, info.hostname, owner, remark


def _seconds_since(milliseconds: int) -> float:
    """By this machine's clock, which may differ from the metastore's."""
    return max(0.0, round(time.time() - milliseconds / 1000, 1))


@app.command(cls=Command, short_help="List locks, and what they wait for.")
def locks(
    metastore: MetastoreOption,
    table: OptionalTableArgument = None,
    warehouse: WarehouseOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List locks, granted and waiting, and what they wait for.

    The lock on a source of a sink has the source's name, or a digest of it before its first commit.
    """
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.streaming.sinks import with_sources_named

    with connected(metastore, warehouse) as client:
        rows = [_lock_row(lock) for lock in with_sources_named(client, client.show_locks(table))]
    write_rows(
        (
            "lock",
            "txn",
            "table",
            "partition",
            "state",
            "type",
            "blocked_by",
            "last_heartbeat_seconds",
            "user",
            "host",
            "owner",
        ),
        rows,
        output,
    )


def _lock_row(lock: LockInfo) -> tuple[Any, ...]:
    return (
        f"{lock.lock_id}.{lock.internal_id}",
        lock.txn_id or None,
        ".".join(part for part in (lock.database, lock.table) if part),
        lock.partition_name,
        lock.state.name.lower(),
        lock.type.name.lower(),
        f"{lock.blocked_by_lock_id}.{lock.blocked_by_internal_id}" if lock.blocked_by_lock_id else None,
        _seconds_since(lock.last_heartbeat_ms) if lock.last_heartbeat_ms else None,
        lock.user,
        lock.hostname,
        lock.agent_info,
    )


@app.command(cls=Command)
def partitions(
    table: TableArgument,
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the partitions of a table and their folders."""
    from hive_ingest.acid import partition_name
    from hive_ingest.cli.rows import write_rows

    with connected(metastore, warehouse) as client:
        keys = [key.name for key in client.get_table(table).partition_keys]
        found = client.list_partitions(table) if keys else []
    rows = sorted((partition_name(keys, partition.values), partition.location) for partition in found)
    write_rows(("partition", "location"), rows, output)


@app.command(cls=Command)
def databases(
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    pattern: Annotated[
        str, typer.Option("--pattern", metavar="PATTERN", help="Only these names: * is any text, | divides.")
    ] = "*",
    output: OutputOption = Output.TABLE,
) -> None:
    """List the databases and their folders."""
    from hive_ingest.cli.rows import write_rows

    with connected(metastore, warehouse) as client:
        found = [client.get_database(name) for name in client.get_databases(pattern)]
    rows = [(database.name, database.location, database.comment) for database in found]
    write_rows(("database", "location", "comment"), rows, output)


@app.command(cls=Command, short_help="List tables, how they are partitioned, and their folders.")
def tables(
    metastore: MetastoreOption,
    database: Annotated[
        str | None, typer.Argument(metavar="DB", help="Only this database.", show_default=False)
    ] = None,
    warehouse: WarehouseOption = None,
    pattern: Annotated[
        str, typer.Option("--pattern", metavar="PATTERN", help="Only these names: * is any text, | divides.")
    ] = "*",
    output: OutputOption = Output.TABLE,
) -> None:
    """List tables: how many columns they have, how they are partitioned and bucketed, and where they are."""
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.model import TableName

    with connected(metastore, warehouse) as client:
        names = client.get_databases() if database is None else [client.get_database(database).name]
        found = [client.get_table(TableName(each, name)) for each in names for name in client.get_tables(each, pattern)]
    rows = [
        (
            str(table.name),
            table.is_transactional,
            len(table.columns),
            ", ".join(key.name for key in table.partition_keys),
            f"{table.num_buckets} by {', '.join(table.bucket_columns)}" if table.is_bucketed else "",
            table.location,
        )
        for table in found
    ]
    write_rows(("table", "transactional", "columns", "partition_keys", "buckets", "location"), rows, output)


@app.command(cls=Command, short_help="Count the delta folders of each partition.")
def deltas(
    metastore: MetastoreOption,
    table: OptionalTableArgument = None,
    warehouse: WarehouseOption = None,
    small_mib: Annotated[
        float, typer.Option("--small-mib", metavar="N", min=0, help="Count deltas below N MiB as small.")
    ] = 16.0,
    rows: Annotated[bool, typer.Option("--rows", help="Count rows as well, which opens every file.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the delta folders of each partition: those read, small, open, aborted and obsolete, and their size."""
    from hive_ingest.cli.deltas import COLUMNS, partition_deltas
    from hive_ingest.cli.rows import write_rows

    with connected(metastore, warehouse) as client:
        found = [
            report
            for name in _tables(client, table)
            for report in partition_deltas(client, name, small_bytes=int(small_mib * MIB), count_rows=rows)
        ]
    columns = COLUMNS[table is not None : None if rows else -1]
    write_rows(columns, [[getattr(report, column) for column in columns] for report in found], output)


@app.command(cls=Command, short_help="List compactions, queued and ended.")
def compactions(
    metastore: MetastoreOption,
    table: OptionalTableArgument = None,
    warehouse: WarehouseOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The queue and the history of compactions, newest first."""
    from hive_ingest.cli.rows import write_rows

    with connected(metastore, warehouse) as client:
        found = client.show_compactions(table)
        open_txns = client.get_valid_txns().open
    write_rows(
        (
            "id",
            "table",
            "partition",
            "type",
            "state",
            "worker",
            "job",
            "properties",
            "age_seconds",
            "start",
            "duration_seconds",
            "files_before",
            "files_after",
            "bytes_before",
            "bytes_after",
            "remark",
        ),
        [_compaction_row(info, open_txns) for info in found],
        output,
    )


def _compaction_row(info: CompactionInfo, open_txns: Sequence[TxnId]) -> tuple[Any, ...]:
    from hive_ingest.compaction import NO_WORKER_SECONDS, sizes_of, worker_name
    from hive_ingest.model import CompactionState

    age = _seconds_since(info.enqueue_time_ms) if info.enqueue_time_ms else None
    end_ms = info.commit_time_ms or info.end_ms
    remark = info.error_message or ""
    is_ready = info.state is CompactionState.READY_FOR_CLEANING
    if is_ready and not remark and open_txns and info.next_txn_id is not None and open_txns[0] < info.next_txn_id:
        remark = f"open transaction {open_txns[0]} may read the old files"
    if info.state is CompactionState.INITIATED and age is not None and age > NO_WORKER_SECONDS:
        remark = f"WAITING for {age:.0f} s: no worker has taken it, run hive-ingest compactor"
    sizes = sizes_of(info)
    return (
        info.id,
        str(info.table),
        info.partition_name,
        info.type.name.lower(),
        info.state.text,
        worker_name(info.worker_id),
        info.hadoop_job_id,
        ", ".join(f"{name}={value}" for name, value in sorted(info.properties.items())) or None,
        age,
        _utc(info.start_ms) if info.start_ms else None,
        round((end_ms - info.start_ms) / 1000, 1) if end_ms and info.start_ms else None,
        *(sizes.get(name) for name in ("files_before", "files_after", "bytes_before", "bytes_after")),
        remark,
    )


def _utc(milliseconds: int) -> str:
    at = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _tables(client: MetastoreClient, table: str | None) -> Sequence[TableName]:
    from hive_ingest.model import TableName

    if table is not None:
        return [TableName.of(table)]
    names = [TableName(database, name) for database in client.get_databases() for name in client.get_tables(database)]
    return [name for name in names if client.get_table(name).is_transactional]
