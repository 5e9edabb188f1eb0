"""The embedded metastore: a MetastoreClient over SQLite or PostgreSQL, in this process."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import bindparam, insert, select

from hive_ingest.metastore_client.embedded import tables as t
from hive_ingest.metastore_client.embedded.backends import backend_for
from hive_ingest.metastore_client.embedded.commits import CommitCalls
from hive_ingest.metastore_client.embedded.database import Database, Session
from hive_ingest.metastore_client.embedded.folders import make_folders
from hive_ingest.metastore_client.embedded.housekeeping import HousekeepingCalls
from hive_ingest.metastore_client.embedded.locks import LockCalls
from hive_ingest.metastore_client.embedded.migrations import open_schema
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.metastore_client.embedded.partitions import PartitionCalls
from hive_ingest.metastore_client.embedded.snapshots import SnapshotCalls
from hive_ingest.metastore_client.embedded.transactions import TransactionCalls
from hive_ingest.metastore_client.embedded.uris import check_warehouse, parse_uri
from hive_ingest.metastore_client.embedded.write_ids import WriteIdCalls
from hive_ingest.metastore_client.locations import normal_location
from hive_ingest.model import TableName, TxnId, WriteId


class EmbeddedMetastoreClient(
    HousekeepingCalls, TransactionCalls, CommitCalls, LockCalls, SnapshotCalls, WriteIdCalls, PartitionCalls
):
    """One connection to an embedded metastore; made by `connect_metastore`.

    Many processes may share one metastore. A client is used from one thread at a time; after a fork the child's
    first call opens a connection of its own.
    """

    def __init__(self, database: Database, warehouse: str, options: EmbeddedOptions) -> None:
        self._db = database
        self._warehouse = warehouse
        self._options = options
        self._metastore_id: str | None = None

    @classmethod
    def connect(cls, uri: str, warehouse: str, options: EmbeddedOptions) -> Self:
        """Make or open the metastore. Raises ConfigurationError, MetastoreSchemaError, MetastoreUnavailable."""
        address = parse_uri(uri)
        location = check_warehouse(address, warehouse)
        if address.is_sqlite:
            make_folders([normal_location(str(address.path.parent))])
        make_folders([location])
        backend = backend_for(address, options.busy_timeout_seconds)
        database = Database(backend, clock_offset_seconds=options.clock_offset_seconds)
        try:
            open_schema(database, location)
        except BaseException:
            database.close()
            raise
        return cls(database, location, options)

    @property
    def uri(self) -> str:
        """Where it is, without any password."""
        return str(self._db.backend.uri)

    @property
    def metastore_id(self) -> str:
        """A UUID, made when it is first asked for."""
        if self._metastore_id is None:
            self._metastore_id = self._db.run(_get_or_make_id)
        return self._metastore_id

    @property
    def remembers_overtakers(self) -> bool:
        """True: MIN_HISTORY_LEVEL is always kept."""
        return True

    @property
    def checks_write_conflicts(self) -> bool:
        """False: that is left to locks, as on Hive 4."""
        return False

    @property
    def wants_write_notifications(self) -> bool:
        """False: there are no listeners."""
        return False

    def add_write_notification_log(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        table: str | TableName,
        files: Sequence[str],
        partition_values: Sequence[str] = (),
    ) -> None:
        """Nothing."""

    @property
    def warehouse(self) -> str:
        """Where databases lie that have no location of their own."""
        return self._warehouse

    @property
    def txn_timeout_seconds(self) -> float:
        """How long a transaction lives without a heartbeat (`hive.txn.timeout`)."""
        return self._options.txn_timeout_seconds

    @property
    def clock_offset_seconds(self) -> float:
        """For tests: how far the database's clock seems moved on, to this client and its later clones only."""
        return self._db.clock_offset_seconds

    @clock_offset_seconds.setter
    def clock_offset_seconds(self, seconds: float) -> None:
        self._db.clock_offset_seconds = seconds

    def clone(self) -> Self:
        """Another client of the same metastore, with a connection of its own, for another thread."""
        database = Database(self._db.backend, clock_offset_seconds=self.clock_offset_seconds)
        other = type(self)(database, self._warehouse, self._options)
        other._metastore_id = self._metastore_id
        return other

    def close(self) -> None:
        """Idempotent. Every later call raises ConnectionMisuse."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddedMetastoreClient({self.uri!r}, warehouse={self._warehouse!r})"


_ID_ROW = "metastore_id"
_GET_ID = select(t.HOUSEKEEPING_LEASE.c.HKL_HOLDER).where(t.HOUSEKEEPING_LEASE.c.HKL_NAME == _ID_ROW)
_SET_ID = insert(t.HOUSEKEEPING_LEASE).values(HKL_NAME=_ID_ROW, HKL_HOLDER=bindparam("id"), HKL_EXPIRES=0, HKL_DUE=0)


def _get_or_make_id(session: Session) -> str:
    found = session.scalar(_GET_ID)
    if found is None:
        found = str(uuid.uuid4())
        session.execute(_SET_ID, id=found)
    return str(found)
