"""A snapshot that several reads share.

Its transaction stays open, and so do its locks, until it is closed. No cleaner removes a file that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.errors import ConfigurationError, ConnectionMisuse
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import TableName
from hive_ingest.transactions import ReadTransaction

DEFAULT_LOCK_WAIT_SECONDS = 60.0
DEFAULT_AGENT_INFO = "hive-ingest reader"


class ReadScope(Protocol):
    """What keeps the files of a read: a transaction of its own, or a share of a held snapshot."""

    @property
    def valid_txns(self) -> ValidTxnList: ...
    @property
    def valid_write_ids(self) -> ValidWriteIdList: ...
    def check(self) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...
    def fail(self, because: BaseException, /) -> None: ...
    def end_with(self, reader: object, what: str, /) -> None: ...


def hold_snapshot(
    metastore: MetastoreClient | str,
    tables: str | TableName | Sequence[str | TableName],
    *,
    lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS,
    agent_info: str = DEFAULT_AGENT_INFO,
) -> HeldSnapshot:
    """Take a snapshot of one or several tables, for any number of reads: `scan(…, snapshot=snapshot)`.

    All of them see what was committed in all of the tables when the last lock was granted. Writers, compactions and
    cleaners go on; the files that compactions replace stay until the snapshot is closed. Overwrites and DROP wait for
    it. So close it soon, or use a `with` block.

    Args:
        metastore: A client, or the URI of a metastore for a client that is closed with the snapshot.
        tables: `"database.table"`, or a list of such names.
        lock_wait_seconds: How long to wait for the locks that keep the files.
        agent_info: What SHOW LOCKS shows for the reader.

    Raises:
        ConfigurationError: No table is named.
        NoSuchObject: There is no such table.
        LockTimeout: A lock was not granted in time.
    """
    names = [TableName.of(each) for each in ([tables] if isinstance(tables, str | TableName) else tables)]
    unique = list(dict.fromkeys(names))
    if not unique:
        raise ConfigurationError("a snapshot needs at least one table: give its name")
    uri = metastore if isinstance(metastore, str) else None
    client = connect_metastore(metastore) if isinstance(metastore, str) else metastore
    try:
        transaction = ReadTransaction(
            client, *unique, lock_wait_seconds=lock_wait_seconds, agent_info=agent_info, owns_client=uri is not None
        )
    except BaseException:
        if uri is not None:
            client.close()
        raise
    try:
        for name in unique:
            client.get_table(name)
    except BaseException as error:
        transaction.fail(error)
        raise
    return HeldSnapshot(client, transaction, uri)


class HeldSnapshot:
    """One snapshot of some tables, for several reads, until `close`; see `hold_snapshot`.

    Reads in several threads may share it. One that is forgotten warns and is closed.
    """

    def __init__(self, client: MetastoreClient, transaction: ReadTransaction, uri: str | None) -> None:
        """
        Args:
            client: The metastore's.
            transaction: Open, with locks on the tables.
            uri: What the client was connected to, if it is closed with the snapshot.
        """
        self._client = client
        self._transaction = transaction
        self._uri = uri
        transaction.end_with(self, f"the snapshot of {self._names}", "was not closed")

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Those that can be read at it."""
        return self._transaction.tables

    def close(self) -> None:
        """End it: no read can use it any more, and cleaners remove what it kept. Idempotent."""
        self._transaction.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self._transaction.fail(exc)
        self.close()

    def __repr__(self) -> str:
        state = "" if self._transaction.is_open else ", closed"
        return f"<HeldSnapshot of {self._names}{state}>"

    @property
    def _names(self) -> str:
        return ", ".join(map(str, self.tables))

    # -- for readers -------------------------------------------------------------------------------

    def share(self, metastore: MetastoreClient | str, table: TableName) -> tuple[MetastoreClient, SnapshotShare]:
        """The client, and what keeps the files of one read.

        Raises:
            ConnectionMisuse: The snapshot was closed.
            ConfigurationError: It is one of other tables, or of another metastore.
            TxnAborted: Its transaction is gone.
        """
        self.check()
        if table not in self.tables:
            raise ConfigurationError(
                f"{table} is not in the snapshot of {self._names}: name all tables in hold_snapshot([…])"
            )
        is_same = metastore == self._uri if isinstance(metastore, str) else self._is_same(metastore)
        if not is_same:
            raise ConfigurationError(
                f"the snapshot of {self._names} was not taken in the metastore that the read names: "
                "pass the same client, or the same URI, to both"
            )
        return self._client, SnapshotShare(self, self._transaction, table)

    def check(self) -> None:
        """Raises ConnectionMisuse after `close`, TxnAborted if a heartbeat found the transaction gone."""
        if not self._transaction.is_open:
            raise ConnectionMisuse(
                f"the snapshot of {self._names} was closed, and cleaners may have removed its files: take another one"
            )
        self._transaction.check()

    def _is_same(self, metastore: MetastoreClient) -> bool:
        return metastore is self._client or metastore.metastore_id == self._client.metastore_id


class SnapshotShare:
    """What one read has of a held snapshot. Ending the read leaves the snapshot open."""

    def __init__(self, snapshot: HeldSnapshot, transaction: ReadTransaction, table: TableName) -> None:
        self._snapshot = snapshot  # keeps it from being collected, which would close it
        self._transaction = transaction
        self.valid_txns = transaction.valid_txns
        self.valid_write_ids = transaction.write_ids_of(table)

    def check(self) -> None:
        """Raises ConnectionMisuse after the snapshot was closed, TxnAborted if its transaction is gone."""
        self._snapshot.check()

    def commit(self) -> None:
        """After the last row. Raises as `check`; the metastore is asked, because files may have been missed."""
        self._snapshot.check()
        self._transaction.beat()

    def close(self) -> None:
        """Does nothing: the snapshot is closed on its own."""

    def fail(self, because: BaseException) -> None:
        """Does nothing: other reads may go on."""

    def end_with(self, reader: object, what: str) -> None:
        """Does nothing: a read that is forgotten holds nothing of its own."""
