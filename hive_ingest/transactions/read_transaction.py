"""The transaction of a reader: a lock, a snapshot, a heartbeat.

As long as it is open, no cleaner removes a file that its snapshot needs.
"""

from __future__ import annotations

import logging
import os

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.errors import ConnectionMisuse, NoSuchTxn, StreamingError, TxnAborted
from hive_ingest.metastore_client import MetastoreClient, check_text
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    TableName,
    TxnType,
)
from hive_ingest.transactions.heartbeat import Heartbeater
from hive_ingest.transactions.lock_errors import lock_timeout
from hive_ingest.transactions.lock_wait import LockWait
from hive_ingest.transactions.reaper import Guard, opening

_log = logging.getLogger(__name__)


class ReadTransaction:
    """An open read-only transaction with SHARED_READ locks on tables, and the snapshot taken under them.

    It belongs to the process that opened it: a forked child can neither use nor end it.
    """

    def __init__(
        self,
        client: MetastoreClient,
        *tables: TableName,
        lock_wait_seconds: float,
        agent_info: str,
        owns_client: bool = False,
    ) -> None:
        """Open it, lock the tables and take the snapshot.

        Args:
            client: The metastore's.
            tables: At least one.
            lock_wait_seconds: How long to wait for the locks.
            agent_info: What SHOW LOCKS shows.
            owns_client: Whether the client is closed with the transaction.

        Raises:
            ConfigurationError: `agent_info` is not a text that a metastore can store.
            LockTimeout: A lock was not granted. Nothing stays open.
            MetastoreError, TransactionError: Raised by the metastore.
        """
        check_text("agent_info", agent_info)
        self._client = client
        self._owns_client = owns_client
        self.tables = tables
        self._names = ", ".join(map(str, tables))
        self._pid = os.getpid()
        self._heartbeater = Heartbeater(client, name="hive-ingest-reader-heartbeat")
        self.is_open = True
        what = f"a reader of {self._names}"
        with opening():
            self._guard = Guard(None, client, self._end_unclosed, what, f"{what} was not closed")
            try:
                (self.txn_id,) = client.open_txns(1, agent_info=agent_info, txn_type=TxnType.READ_ONLY)
            except BaseException:
                self._guard.release()
                raise
        try:
            self._heartbeater.watch([self.txn_id])
            self._acquire(lock_wait_seconds, agent_info)
            # Only now: a writer that held a table before us is in the snapshot (qubole/spark-acid#35).
            self.valid_txns: ValidTxnList = client.get_valid_txns(self.txn_id)
            self._write_ids = client.get_valid_write_ids(tables, self.valid_txns)
            client.add_write_ids_to_min_history(self.txn_id, self._write_ids)
        except BaseException as error:
            self.fail(error)
            raise

    @property
    def valid_write_ids(self) -> ValidWriteIdList:
        """Of the only table, or of the first."""
        return self._write_ids[0]

    def write_ids_of(self, table: TableName) -> ValidWriteIdList:
        """The snapshot of one of the tables."""
        return self._write_ids[self.tables.index(table)]

    def end_with(self, reader: object, what: str, why: str = "was not read to its end or closed") -> None:
        """End it with a warning that names `what` if `reader` is garbage collected while it is open."""
        self._guard.watch(reader, f"{what} {why}")

    def _end_unclosed(self, client: MetastoreClient) -> None:
        if not self._end():
            return
        try:
            client.commit_txn(self.txn_id)
        except (TxnAborted, NoSuchTxn):
            pass
        finally:
            self._release_client()

    def check(self) -> None:
        """Raises TxnAborted if a heartbeat found the transaction gone, because its files may be removed.

        In a forked child, whose copy knows of no heartbeat since the fork, it raises ConnectionMisuse.
        """
        if self._is_inherited:
            raise ConnectionMisuse(
                f"a reader of {self._names} was inherited through a fork: read in the process that began it, or begin "
                "another read in this one"
            )
        try:
            self._heartbeater.raise_if_lost(self.txn_id)
        except TxnAborted as error:
            raise self._is_lost(error) from error

    def beat(self) -> None:
        """Send a heartbeat now. Raises TxnAborted if the transaction is gone, because files may have been missed."""
        try:
            self._client.heartbeat(txn_id=self.txn_id)
        except (TxnAborted, NoSuchTxn) as error:
            raise self._is_lost(error) from error

    def commit(self) -> None:
        """End it. Raises as `check` does, because files may have been missed."""
        if self._is_inherited:
            self.check()
        if not self._end():
            return
        try:
            self._client.commit_txn(self.txn_id)
        except (TxnAborted, NoSuchTxn) as error:
            raise self._is_lost(error) from error
        finally:
            self._release_client()

    def close(self) -> None:
        """End it before everything was read. The caller needs nothing more, so a failure is only logged."""
        if not self._end():
            return
        try:
            self._client.commit_txn(self.txn_id)
        except StreamingError as error:
            self._log_failed_end(error)
        finally:
            self._release_client()

    def fail(self, because: BaseException) -> None:
        """End it after an error, which a failure to do so never hides.

        It is committed all the same: it has written nothing that could be undone, and an aborted transaction would be
        listed, and taken for a problem, until it is forgotten.
        """
        if not self._end():
            return
        try:
            self._client.commit_txn(self.txn_id)
        except (TxnAborted, NoSuchTxn):
            pass
        except StreamingError as error:
            self._log_failed_end(error)
            because.add_note(f"and, while ending the reader's transaction {self.txn_id}: {error}")
        finally:
            self._release_client()

    def _release_client(self) -> None:
        if self._owns_client:
            self._client.close()

    def _log_failed_end(self, error: StreamingError) -> None:
        _log.warning("transaction %d of a reader could not be ended, it will time out: %s", self.txn_id, error)

    def _end(self) -> bool:
        """Returns whether it was still open, and is this process's to end."""
        was_open, self.is_open = self.is_open and not self._is_inherited, False
        if was_open:
            self._guard.release()
            self._heartbeater.stop()
        return was_open

    @property
    def _is_inherited(self) -> bool:
        return self._pid != os.getpid()

    def _is_lost(self, error: StreamingError) -> TxnAborted:
        return TxnAborted(
            f"the reader's transaction {self.txn_id} on {self._names} is gone ({error}), so files may have been "
            "missed: read again. If the metastore could not be reached, read faster than the transaction timeout"
        )

    # -- lock --------------------------------------------------------------------------------------

    def _acquire(self, lock_wait_seconds: float, agent_info: str) -> None:
        components = tuple(
            LockComponent(
                LockType.SHARED_READ,
                LockLevel.TABLE,
                table.database,
                table.table,
                operation_type=DataOperationType.SELECT,
            )
            for table in self.tables
        )
        answer = self._client.lock(LockRequest(components, self.txn_id, agent_info=agent_info))
        wait = LockWait(self._client, self.tables, lock_wait_seconds, wanted=f"the read lock on {self._names}")
        if not wait.acquires(answer):
            raise lock_timeout(self._names, wait.blockers(answer.lock_id), lock_wait_seconds, wanted="read lock")
