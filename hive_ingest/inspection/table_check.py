"""Checks a table: every rule of the format on every file of a snapshot, and the files against the metastore."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.inspection.findings import Finding, Severity, TableCheck
from hive_ingest.inspection.folder_check import FolderCheck
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.reader import DEFAULT_LOCK_WAIT_SECONDS, PartitionToRead, Snapshot, check_readable, partitions_of
from hive_ingest.storage import Location
from hive_ingest.transactions import ReadTransaction, check_write_ids, list_staging, staged_transaction

_AGENT_INFO = "hive-ingest check"


@dataclass(slots=True)
class _Totals:
    files: int = 0
    bytes: int = 0
    rows: int = 0


def check_table(
    metastore: MetastoreClient | str,
    table: str | TableName,
    *,
    where: str | None = None,
    decode_rows: bool = True,
    lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS,
) -> TableCheck:
    """Check the files of a table and what its metastore knows about them. Nothing is changed.

    Checked are names of folders and files, the version files, checksums, tails, columns, operations, write ids, bucket
    properties, the order and uniqueness of row ids, key indexes, statistics, overlapping deltas, write ids and
    transactions that the metastore does not know, missing folders and unregistered partitions, and what aborted
    transactions left. Every row is decoded, unless `decode_rows` is false.

    Args:
        metastore: A client, or the URI of a metastore.
        table: `"database.table"`.
        where: Leaves out partitions in which no row can pass this filter.
        decode_rows: Whether rows are decoded; otherwise only the files' ends are read, and small files' checksums.
        lock_wait_seconds: How long to wait for the lock that keeps the files.

    Raises:
        NoSuchObject, LockTimeout, ConfigurationError, UnsupportedFeature, TxnAborted: As `scan`. What is wrong with
            files and folders is not raised.
    """
    name = TableName.of(table)
    with opened_metastore(metastore) as client:
        transaction = ReadTransaction(client, name, lock_wait_seconds=lock_wait_seconds, agent_info=_AGENT_INFO)
        try:
            found = client.get_table(name)
            check_readable(found)
            snapshot = Snapshot(transaction.valid_write_ids, transaction.valid_txns)
            findings, totals = list(_metastore_findings(client, found)), _Totals()
            partitions = partitions_of(client, found, where)
            for partition in partitions:
                transaction.check()
                findings += _partition_findings(found, partition, snapshot, totals, decode_rows=decode_rows)
        except BaseException as error:
            transaction.fail(error)
            raise
        transaction.commit()
    return TableCheck(name, tuple(findings), len(partitions), totals.files, totals.bytes, totals.rows)


def _partition_findings(
    table: Table, partition: PartitionToRead, snapshot: Snapshot, totals: _Totals, *, decode_rows: bool
) -> Iterator[Finding]:
    check = FolderCheck(table, partition.location, snapshot, decode_rows=decode_rows)
    yield from check.findings()
    totals.files += check.files
    totals.bytes += check.bytes
    totals.rows += check.rows


def _metastore_findings(client: MetastoreClient, table: Table) -> Iterator[Finding]:
    try:
        report = check_write_ids(client, table.name)
    except StreamingIOFailure as error:
        yield Finding(Severity.ERROR, "folders", table.location, str(error))
        return
    repair = "the metastore was restored from an older copy: run hive-ingest repair"
    for folder in report.folders:
        why = f"its write ids are above {report.highest_allocated}, the highest that the metastore has allocated"
        yield Finding(Severity.ERROR, "write ids known", str(folder), f"{why}; {repair}")
    for folder in report.compactions:
        why = f"its transaction is above {report.highest_opened}, the highest that the metastore has opened"
        yield Finding(Severity.ERROR, "write ids known", str(folder), f"{why}; {repair}")
    for name in report.unregistered_partitions:
        why = f"the metastore does not have the partition {name}; {repair}"
        yield Finding(Severity.ERROR, "partitions known", table.location, why)
    root = Location.of(table.location)
    for name in report.unread_partitions:
        why = "the metastore does not have this partition, so nobody reads its rows: add the partition, or move it away"
        yield Finding(Severity.WARNING, "partitions known", str(root / name), why)
    yield from _staging_findings(client, root)


def _staging_findings(client: MetastoreClient, location: Location) -> Iterator[Finding]:
    """Hidden files of writers that are gone; the next connection to the table removes them."""
    entries = list_staging(location)
    open_txns = set(client.get_valid_txns().open)
    for entry in entries:
        txn_id = staged_transaction(entry.name, client.metastore_id)
        if txn_id is not None and txn_id not in open_txns:
            why = f"transaction {txn_id}, which wrote it, has ended: the next writer that connects removes it"
            yield Finding(Severity.NOTE, "leftovers", entry.path, why)
