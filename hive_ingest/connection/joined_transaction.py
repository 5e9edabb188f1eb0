"""A writer that has joined somebody else's open transaction (Java: `UnManagedSingleTransaction`).

    owner                                              writer, in any process, without a metastore
    conn.begin_transaction()
    shared = conn.share_transaction()   ── pickled ──▶  with JoinedTransaction(shared, ArrowWriter(), …) as writer:
                                                           writer.write(…)
    conn.commit_transaction(             ◀── pickled ──     prepared = writer.prepare()
        prepared=[…])

The files that a writer prepares have hidden names; the owner renames them to visible ones and commits, or aborts
everything. A writer that dies, or whose result is not used, leaves hidden files, which go when the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from hive_ingest.acid import encode_bucket
from hive_ingest.config import StreamingSettings
from hive_ingest.connection.thread_affinity import ThreadAffinity
from hive_ingest.connection.transaction import Action, TransactionState, next_state
from hive_ingest.delta import DeltaTarget, TransactionWriter
from hive_ingest.errors import ConfigurationError, ConnectionMisuse, CorruptFile, PartitionCreationFailed
from hive_ingest.faults import reach
from hive_ingest.model import Table, TxnId, WriteId
from hive_ingest.record_writer import RecordSchema, RecordWriter
from hive_ingest.transactions import StagedFile, log_failure, new_staging


@dataclass(frozen=True, slots=True)
class SharedTransaction:
    """An open transaction, as its owner passes it to writers in other processes. Can be pickled."""

    table: Table
    txn_id: TxnId
    metastore_id: str
    write_id: WriteId
    static_values: tuple[str, ...]
    is_overwrite: bool
    settings: StreamingSettings


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """What one writer has prepared for the owner's commit. Can be pickled."""

    table: Table
    txn_id: TxnId
    files: tuple[StagedFile, ...]
    records_skipped: int
    spills: int

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def prepared_writes(prepared: Iterable[PreparedWrite]) -> list[PreparedWrite]:
    """What was passed to a commit, as a list. Raises ConfigurationError for anything else than prepared writes."""
    writes = list(prepared) if isinstance(prepared, Iterable) else [prepared]
    for write in writes:
        if not isinstance(write, PreparedWrite):
            raise ConfigurationError(
                f"prepared has a {type(write).__name__}: pass a list of what JoinedTransaction.prepare() returned"
            )
    return writes


def check_prepared(shared: SharedTransaction, prepared: Iterable[PreparedWrite]) -> None:
    """Raises ConnectionMisuse for files of another transaction."""
    for write in prepared:
        if write.txn_id != shared.txn_id or write.table.id != shared.table.id:
            raise ConnectionMisuse(
                f"what was prepared in transaction {write.txn_id} of {write.table.name} cannot be committed by "
                f"transaction {shared.txn_id} of {shared.table.name}: hand it over to its own"
            )


def files_to_commit(
    shared: SharedTransaction, own: Sequence[StagedFile], prepared: Iterable[PreparedWrite]
) -> list[StagedFile]:
    """All files of a transaction, its owner's and those of the writers that joined it, checked against each other.

    Raises ConnectionMisuse for files that would have the same name, PartitionCreationFailed for more partitions than
    are allowed in one.
    """
    files = list(own)
    for write in prepared:
        files += [_checked(file) for file in write.files]
    places: set[tuple[object, ...]] = set()
    for file in files:
        place = (file.partition, file.folder_name, file.file_name)
        if place in places:
            raise ConnectionMisuse(
                f"two writers of transaction {shared.txn_id} made {file.folder_name}/{file.file_name} of partition "
                f"{file.partition} of {shared.table.name}: give each its own statement_id or writer_bucket"
            )
        places.add(place)
    most = shared.settings.max_partitions_per_transaction
    if len({file.partition for file in files}) > most:
        raise PartitionCreationFailed(
            f"the writers of transaction {shared.txn_id} wrote more than max_partitions_per_transaction={most} "
            "partitions together: commit more often, or raise the limit"
        )
    return files


def _checked(file: StagedFile) -> StagedFile:
    """Check that a file is still as its writer finished it. Raises CorruptFile, PathNotFound."""
    size = file.location.store.file_size(file.location.path)
    if size != file.size_bytes:
        raise CorruptFile(
            f"{str(file.location)!r} has {size} bytes, but its writer finished it with {file.size_bytes}: it has been "
            "changed since then. Write the transaction again"
        )
    return file


class JoinedTransaction:
    """Writes one share of a transaction; one thread owns it.

    Two writers of one transaction must differ in `statement_id`, or in an unbucketed table in `writer_bucket`
    (each 0 to 4,095), or never write the same bucket of the same partition: the owner's commit refuses the rest.
    Left as a context manager without `prepare`, it is aborted.

    Raises ConfigurationError for an id out of range, and what `StreamingConnection.write` raises.
    """

    def __init__(
        self,
        transaction: SharedTransaction,
        record_writer: RecordWriter,
        *,
        statement_id: int = 0,
        writer_bucket: int = 0,
        settings: StreamingSettings | None = None,
    ) -> None:
        self._transaction = transaction
        self._state = TransactionState.OPEN
        self._owner = ThreadAffinity(f"the writer in transaction {transaction.txn_id}")
        self._pool: ThreadPoolExecutor | None = None
        self._settings = settings or transaction.settings
        encode_bucket(writer_bucket, statement_id)  # refuses what has no room in it before the first row
        table = transaction.table
        record_writer.bind(RecordSchema.of(table, transaction.static_values))
        target = DeltaTarget(
            table,
            transaction.write_id,
            new_staging(table, transaction.txn_id, transaction.metastore_id),
            statement_id=statement_id,
            static_values=transaction.static_values,
            writer_bucket=writer_bucket,
            is_overwrite=transaction.is_overwrite,
        )
        self._writer = TransactionWriter(record_writer, target, self._settings, self._threads)
        reach("after_join")

    @property
    def state(self) -> TransactionState:
        """OPEN, PREPARED_FOR_COMMIT, FAILED or ABORTED."""
        return self._state

    def write(self, records: object) -> None:
        """As `StreamingConnection.write`."""
        self._run(Action.WRITE)
        try:
            self._writer.write(records)
        except BaseException:
            self._state = next_state(self._state, Action.FAIL)
            raise

    def prepare(self) -> PreparedWrite:
        """Finish all files, synced but not visible; the state is PREPARED_FOR_COMMIT (Java: `commitTransaction`)."""
        after = self._run(Action.PREPARE)
        reach("before_prepare")
        try:
            files = tuple(self._writer.finish())
        except BaseException:
            self._state = next_state(self._state, Action.FAIL)
            raise
        self._state = after
        self._close_pool()
        reach("after_prepare")
        counts = self._writer.counts
        return PreparedWrite(self._transaction.table, self._transaction.txn_id, files, counts.skipped, counts.spills)

    def abort(self) -> None:
        """Abort this share, even if it is prepared: its files are removed. The transaction stays open."""
        self._state = self._run(Action.ABORT)
        log_failure(self._writer.discard, "removing hidden files")
        self._close_pool()

    def _run(self, action: Action) -> TransactionState:
        self._owner.check()
        return next_state(self._state, action)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._settings.writer_threads, thread_name_prefix="hive-ingest-writer")
        return self._pool

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._state in (TransactionState.OPEN, TransactionState.FAILED):
            self.abort()
