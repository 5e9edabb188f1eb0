"""The embedded metastore: a MetastoreClient over SQLite or PostgreSQL, in this process."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.embedded.backends import backend_for
from hive_ingest.metastore_client.embedded.commits import CommitCalls
from hive_ingest.metastore_client.embedded.databases import default_location
from hive_ingest.metastore_client.embedded.folders import make_folders
from hive_ingest.metastore_client.embedded.housekeeping import HousekeepingCalls
from hive_ingest.metastore_client.embedded.locks import LockCalls
from hive_ingest.metastore_client.embedded.migrations import no_metastore, open_schema
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.metastore_client.embedded.partitions import PartitionCalls
from hive_ingest.metastore_client.embedded.sessions import Sessions
from hive_ingest.metastore_client.embedded.snapshots import SnapshotCalls
from hive_ingest.metastore_client.embedded.transactions import TransactionCalls
from hive_ingest.metastore_client.embedded.uris import MetastoreUri, check_warehouse, parse_uri
from hive_ingest.metastore_client.embedded.write_ids import WriteIdCalls
from hive_ingest.metastore_client.locations import normal_location
from hive_ingest.model import TableName, TxnId, WriteId


class EmbeddedMetastoreClient(
    HousekeepingCalls, TransactionCalls, CommitCalls, LockCalls, SnapshotCalls, WriteIdCalls, PartitionCalls
):
    """A client of an embedded metastore; made by `connect_metastore`.

    Many processes may share one metastore, and many threads one client. After a fork the child's calls open
    connections of their own.
    """

    def __init__(self, sessions: Sessions, warehouse: str, options: EmbeddedOptions) -> None:
        self._db = sessions
        self._warehouse = warehouse
        self._options = options

    @classmethod
    def connect(cls, uri: str, warehouse: str | None, options: EmbeddedOptions, *, create: bool = False) -> Self:
        """Open the metastore, or make it.

        Args:
            uri: Of SQLite or PostgreSQL.
            warehouse: Where databases lie that have no location. None stands for the folder that the metastore was
                made with; in a new one, for `warehouse` beside the SQLite file.
            options: Limits.
            create: Whether a missing SQLite file, or the tables in an empty PostgreSQL database, may be made.

        Raises:
            ConfigurationError: An invalid address or warehouse.
            MetastoreError: There is no metastore, and `create` is false.
            MetastoreSchemaError: The database is not a metastore of ours, or of a newer version.
            MetastoreUnavailable: No connection.
        """
        address = parse_uri(uri)
        given = None if warehouse is None else check_warehouse(address, warehouse)
        backend = backend_for(address, options)
        if address.is_sqlite and not address.path.exists():
            if not create:
                raise no_metastore(f"there is no file {str(address.path)!r}")
            make_folders([normal_location(str(address.path.parent))])
            address.path.touch()
        sessions = Sessions(backend, clock_offset_seconds=options.clock_offset_seconds)
        try:
            # Not made in a metastore that exists: a warehouse that is missing there may be on a disk not mounted.
            open_schema(sessions, functools.partial(_new_warehouse, address, given) if create else None)
            if backend.durability_query:
                backend.check_durability(sessions.execute_sql(backend.durability_query))
            return cls(sessions, given or default_location(sessions), options)
        except BaseException:
            sessions.close()
            raise

    @property
    def uri(self) -> str:
        """Where it is, without any password."""
        return str(self._db.backend.uri)

    @property
    def remembers_overtakers(self) -> bool:
        """True: MIN_HISTORY_LEVEL is always kept."""
        return True

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
        """Another client of the same metastore, closed on its own."""
        return type(self)(self._db.clone(), self._warehouse, self._options)

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


def _new_warehouse(address: MetastoreUri, given: str | None) -> str:
    """The warehouse of a metastore that is being made; makes the folder."""
    if given is None and not address.is_sqlite:
        raise ConfigurationError("no warehouse: give the folder in which databases and tables shall lie")
    location = given or normal_location(str(address.path.parent / "warehouse"))
    make_folders([location])
    return location
