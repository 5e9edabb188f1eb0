"""One transaction of a connection, from the granted lock to its end. It knows the steps, not the user's states."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hive_ingest.acid import partition_name
from hive_ingest.connection.context import ConnectionContext
from hive_ingest.connection.joined_transaction import PreparedWrite, SharedTransaction, check_prepared, files_to_commit
from hive_ingest.connection.progress import SourceProgress
from hive_ingest.delta import DeltaTarget, DeltaWriter, TransactionWriter, WriteCounts
from hive_ingest.errors import ConfigurationError, NoSuchTxn, StreamingError, StreamingIOFailure, TxnAborted
from hive_ingest.model import CommitKeyValue, DataOperationType, Table, TableName, TxnId, WriteId
from hive_ingest.record_writer import RecordWriter
from hive_ingest.storage import Location
from hive_ingest.transactions import (
    Committer,
    LockedTransaction,
    TableWrite,
    log_failure,
    new_staging,
    remove_staging,
    send_heartbeat,
    stage_version_files,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A committed transaction.

    Attributes:
        partitions: Names of those that were written; none for an unpartitioned table.
        records_skipped: Bad records that were left out.
        progress_table: Where the positions of a sink are; None without one.
    """

    table: TableName
    txn_id: TxnId
    write_id: WriteId
    partitions: tuple[str, ...]
    partitions_created: tuple[str, ...]
    rows: int
    files: int
    file_bytes: int
    records_skipped: int = 0
    progress_table: TableName | None = None


class OpenTransaction:
    """Writes, then commits or aborts, once."""

    def __init__(
        self,
        context: ConnectionContext,
        table: Table,
        locked: LockedTransaction,
        record_writer: RecordWriter,
        static_values: Sequence[str],
    ) -> None:
        self._context = context
        self._table = table
        self._locked = locked
        self._static_values = tuple(static_values)
        self._is_shared = False
        #: When a heartbeat of the commit was sent that was answered.
        self._confirmed_at: float | None = None
        self._committer: Committer | None = None
        #: Of the tables that are written besides the data table.
        self._further_writers: list[DeltaWriter] = []
        if context.bad_rows is not None:
            context.bad_rows.begin()
        #: Hidden files that mark ACID folders; what is published leaves its list.
        self._version_files: list[list[Location]] = []
        self._staging = new_staging(table, self.txn_id, context.client.metastore_id)
        target = DeltaTarget(
            table,
            self.write_id,
            self._staging,
            static_values=self._static_values,
            is_overwrite=context.is_overwrite,
            is_committed_here=True,
        )
        self._folder_name = target.folder_name
        self._writer = TransactionWriter(record_writer, target, context.settings, context.pool, context.skipped.take)
        #: The writer's own method, for `StreamingConnection.write`.
        self.write = self._writer.write

    def flush(self) -> None:
        """Parse and spill all that was written."""
        self._writer.flush()

    @property
    def txn_id(self) -> TxnId:
        return self._locked.txn_id

    @property
    def write_id(self) -> WriteId:
        return self._locked.write_ids[self._table.name]

    @property
    def counts(self) -> WriteCounts:
        return self._writer.counts

    def share(self) -> SharedTransaction:
        """For writers in other processes; their hidden files are removed when this transaction ends.

        Raises:
            TxnAborted: It has ended.
            MetastoreError: The metastore cannot be asked.
        """
        if not self._is_shared:
            # The heartbeat makes the ids durable. Otherwise a power failure could give them to another transaction,
            # which would then accept what a writer on another machine has prepared in this one.
            try:
                self._context.client.heartbeat(txn_id=self.txn_id)
            except NoSuchTxn as error:
                raise TxnAborted(f"transaction {self.txn_id} cannot be shared: {error}") from error
        self._is_shared = True
        return self._as_shared()

    def _as_shared(self) -> SharedTransaction:
        return SharedTransaction(
            self._table,
            self.txn_id,
            self._context.client.metastore_id,
            self.write_id,
            self._static_values,
            self._context.is_overwrite,
            self._context.settings,
        )

    def check_arguments(self, positions: Mapping[str, Any], prepared: Iterable[PreparedWrite]) -> None:
        """Check what was passed to a commit, before anything is changed.

        Raises:
            ConfigurationError: Positions without a sink, of a source that is not owned, or not JSON.
            ConnectionMisuse: Something was prepared in another transaction.
        """
        check_prepared(self._as_shared(), prepared)
        progress = self._context.progress
        if progress is not None:
            progress.check_positions(positions)
        elif positions:
            raise ConfigurationError("positions need a sink: connect with sink=… and sources=…")

    def needs_position(self, prepared: Iterable[PreparedWrite]) -> bool:
        """Whether there are records of a sink, which only a commit with a position keeps from being written again.

        Raises the error of a bad record.
        """
        if self._context.progress is None:
            return False
        self._writer.parse_all()
        return self.counts.records > 0 or any(write.rows or write.records_skipped for write in prepared)

    def commit(
        self,
        *,
        partitions: Iterable[str] = (),
        prepared: Sequence[PreparedWrite] = (),
        key_value: CommitKeyValue | None = None,
        positions: Mapping[str, Any] | None = None,
        is_seek: bool = False,
    ) -> CommitInfo:
        """Finish the files and the progress rows, then the five steps of `committer.py`.

        Raises:
            TxnAborted: Nothing of the transaction is visible.
            StreamingError: See `StreamingConnection.commit_transaction`.
        """
        self._context.heartbeater.raise_if_lost(self.txn_id)
        try:
            return self._commit(partitions, prepared, key_value, positions or {}, is_seek=is_seek)
        except NoSuchTxn as error:  # before the commit was requested: later errors are the committer's
            raise TxnAborted(f"transaction {self.txn_id} was not committed: {error}") from error
        except StreamingIOFailure as error:
            self._raise_if_ended(error)
            raise

    def _raise_if_ended(self, failure: StreamingIOFailure) -> None:
        """Raise TxnAborted if the metastore has ended the transaction: its hidden files may be removed from then on."""
        try:
            self._context.client.heartbeat(txn_id=self.txn_id)
        except (TxnAborted, NoSuchTxn) as error:
            raise TxnAborted(
                f"transaction {self.txn_id} was not committed: {error}. Its hidden files may be gone: {failure}"
            ) from failure
        except StreamingError as error:
            _log.debug("cannot find out whether transaction %d is still open: %s", self.txn_id, error)

    def _commit(
        self,
        partitions: Iterable[str],
        prepared: Sequence[PreparedWrite],
        key_value: CommitKeyValue | None,
        positions: Mapping[str, Any],
        *,
        is_seek: bool,
    ) -> CommitInfo:
        rows = self._progress_rows(positions, is_seek)
        self._writer.parse_all(meanwhile=self._confirm_open)
        writes = self._stage(prepared, rows)
        settings = self._context.settings
        self._committer = Committer(
            self._context.client,
            self._context.heartbeater,
            self.txn_id,
            writes,
            fsync=settings.fsync,
            retry_seconds=settings.commit_retry_seconds,
            confirmed_at=self._confirmed_at,
        )
        progress = self._context.progress
        decide = functools.partial(progress.was_committed, self.txn_id) if progress is not None and rows else None
        self._committer.commit_insert(extra_partitions=partitions, key_value=key_value, was_committed=decide)
        if progress is not None and rows:
            progress.committed(self._locked.write_ids[progress.table.name], rows)
        return self._info(writes[0])

    def _confirm_open(self) -> None:
        """Send the heartbeat of the commit while other threads parse. If it fails, the committer sends it again."""
        try:
            self._confirmed_at = send_heartbeat(self._context.client, self._context.heartbeater, self.txn_id)
        except StreamingError as error:
            _log.debug("transaction %d is not confirmed as open yet: %s", self.txn_id, error)

    def _stage(self, prepared: Sequence[PreparedWrite], rows: dict[str, SourceProgress]) -> list[TableWrite]:
        """Finish all files of the commit: the data table's, then the progress table's, if there are rows for it."""
        if self._staging.store.closes_slowly:
            return self._stage_at_once(prepared, rows)
        data = self._data_write(prepared)
        self._context.skipped.before_commit(self.counts)
        return [data, *self._stage_progress(rows), *self._stage_bad_records()]

    def _stage_at_once(self, prepared: Sequence[PreparedWrite], rows: dict[str, SourceProgress]) -> list[TableWrite]:
        """All files are closed at the same time, those that mark the ACID folders too."""
        self._writer.parse_all()
        with ThreadPoolExecutor(2, "hive-ingest-commit") as pool:
            progress = pool.submit(self._stage_progress, rows)
            versions = pool.submit(self._stage_versions, self._staging, self._count_folders(prepared))
            data = self._data_write(prepared)
            data.version_files = versions.result()
            writes = [data, *progress.result()]
        self._context.skipped.before_commit(self.counts)
        return [*writes, *self._stage_bad_records()]

    def _count_folders(self, prepared: Sequence[PreparedWrite]) -> int:
        """How many ACID folders the data table gets."""
        own = {(partition, self._folder_name) for partition in self._writer.partitions}
        return len(own.union((file.partition, file.folder_name) for write in prepared for file in write.files))

    def _stage_versions(self, staging: Location, folders: int) -> list[Location]:
        if not folders or staging.store.first_file_makes_folder:
            return []
        files = stage_version_files(staging, folders, sync=self._context.settings.fsync)
        self._version_files.append(files)
        return files

    def _data_write(self, prepared: Sequence[PreparedWrite]) -> TableWrite:
        files = files_to_commit(self._as_shared(), self._writer.finish(), prepared)
        for write in prepared:
            self.counts.records += write.rows + write.records_skipped
            self.counts.rows += write.rows
            self.counts.skipped += write.records_skipped
            self.counts.spills += write.spills
        contended = self._locked.may_be_overtaken(self._table.name)
        if not self._context.is_overwrite:
            return TableWrite(self._table, self.write_id, files, contended)
        return TableWrite(
            self._table,
            self.write_id,
            files,
            contended,
            operation=DataOperationType.UPDATE,
            overwritten=self._overwritten_without_rows(),
        )

    def _overwritten_without_rows(self) -> tuple[str, ...]:
        """What an overwrite replaces even without rows: the table, or the one static partition."""
        keys = [key.name for key in self._table.partition_keys]
        if len(keys) != len(self._static_values):
            return ()
        return (partition_name(keys, self._static_values),)

    def _progress_rows(self, positions: Mapping[str, Any], is_seek: bool) -> dict[str, SourceProgress]:
        progress = self._context.progress
        return {} if progress is None else progress.next_rows(self.txn_id, positions, is_seek=is_seek)

    def _stage_progress(self, rows: dict[str, SourceProgress]) -> list[TableWrite]:
        progress = self._context.progress
        if progress is None or not rows:
            return []
        name = progress.table.name
        staging = new_staging(progress.table, self.txn_id, self._context.client.metastore_id)
        write_id = self._locked.write_ids[name]
        with ThreadPoolExecutor(1, "hive-ingest-commit") as pool:
            is_slow = staging.store.closes_slowly
            versions = pool.submit(self._stage_versions, staging, 1) if is_slow else None
            file, writer = progress.stage(write_id, staging, rows)
            self._further_writers.append(writer)
        write = TableWrite(progress.table, write_id, [file], self._locked.may_be_overtaken(name))
        if versions is not None:
            write.version_files = versions.result()
        return [write]

    def _stage_bad_records(self) -> list[TableWrite]:
        rows = self._context.bad_rows
        if rows is None:
            return []
        name = rows.table.name
        write_id = self._locked.write_ids[name]
        staging = new_staging(rows.table, self.txn_id, self._context.client.metastore_id)
        if (staged := rows.stage(write_id, staging)) is None:
            return []
        file, writer = staged
        self._further_writers.append(writer)
        return [TableWrite(rows.table, write_id, [file], self._locked.may_be_overtaken(name))]

    def _info(self, data: TableWrite) -> CommitInfo:
        return CommitInfo(
            table=self._table.name,
            txn_id=self.txn_id,
            write_id=self.write_id,
            partitions=tuple(data.partition_names()) if self._table.is_partitioned else (),
            partitions_created=tuple(data.partitions_created),
            rows=self.counts.rows,
            files=len(data.files),
            file_bytes=sum(file.size_bytes for file in data.files),
            records_skipped=self.counts.skipped,
            progress_table=self._context.progress.table.name if self._context.progress is not None else None,
        )

    @property
    def may_be_committed(self) -> bool:
        return self._committer is not None and self._committer.was_requested

    def withdraw(self) -> None:
        """Remove what got a visible name, unless the transaction may be committed."""
        if self._committer is not None:
            log_failure(self._committer.withdraw, "removing what was published")

    def clean_up(self, *, at_once: bool) -> None:
        """Remove the hidden files after the transaction has ended in any way, now or on another thread."""
        self._context.heartbeater.forget([self.txn_id])
        if not at_once:
            try:
                self._context.pool().submit(self._remove_staging)
                return
            except RuntimeError as error:  # no more threads, or the interpreter is shutting down
                _log.debug("hidden files are removed on the caller's thread: %s", error)
        self._remove_staging()

    def _remove_version_files(self) -> None:
        """Ends at the first that cannot be removed: a file system that does not answer takes a minute to say so."""
        for file in itertools.chain.from_iterable(self._version_files):
            file.delete_file()

    def _remove_staging(self) -> None:
        log_failure(self._writer.discard, "removing hidden files")
        log_failure(self._remove_version_files, "removing hidden files")
        if self._is_shared:
            metastore_id = self._context.client.metastore_id  # known since the first staging: no call
            log_failure(
                lambda: remove_staging(self._table, self.txn_id, metastore_id), "removing hidden files of other writers"
            )
        for writer in self._further_writers:
            log_failure(writer.discard, "removing hidden files of the tables of progress and bad records")
