"""The embedded metastore: a MetastoreClient over SQLite or PostgreSQL, in this process."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.embedded.backends import backend_for
from hive_ingest.metastore_client.embedded.commits import Commits
from hive_ingest.metastore_client.embedded.compaction_cleaning import CompactionCleaning
from hive_ingest.metastore_client.embedded.compaction_history import CompactionHistory
from hive_ingest.metastore_client.embedded.compactions import Compactions
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.databases import Databases, default_location
from hive_ingest.metastore_client.embedded.folders import make_folders
from hive_ingest.metastore_client.embedded.housekeeping import Housekeeping
from hive_ingest.metastore_client.embedded.locks import Locks
from hive_ingest.metastore_client.embedded.migrations import GET_METASTORE_ID, no_metastore, open_schema
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.metastore_client.embedded.partitions import Partitions
from hive_ingest.metastore_client.embedded.sessions import Sessions
from hive_ingest.metastore_client.embedded.snapshots import Snapshots
from hive_ingest.metastore_client.embedded.tables import Tables
from hive_ingest.metastore_client.embedded.transactions import Transactions
from hive_ingest.metastore_client.embedded.uris import MetastoreUri, check_warehouse, parse_uri
from hive_ingest.metastore_client.embedded.write_ids import WriteIds
from hive_ingest.metastore_client.forwarding import ForwardingClient, by
from hive_ingest.metastore_client.locations import local_path, normal_location
from hive_ingest.model import TableName, TxnId, WriteId


class EmbeddedMetastoreClient(ForwardingClient):
    """A client of an embedded metastore; made by `connect_metastore`.

    Many processes may share one metastore, and many threads one client. After a fork the child's calls open
    connections of their own.
    """

    def __init__(self, sessions: Sessions, warehouse: str, options: EmbeddedOptions) -> None:
        self._context = context = Context(sessions, options, warehouse)
        self._housekeeping = Housekeeping(context)
        self._transactions = Transactions(context, self._housekeeping.run_if_due)
        self._commits = Commits(context)
        self._snapshots = Snapshots(context)
        self._compaction_queue = Compactions(context)
        self._compaction_history = CompactionHistory(context)
        self._compaction_cleaning = CompactionCleaning(context, self._housekeeping.forget_and_prune)
        self._write_ids = WriteIds(context, self._snapshots)
        self._locks = Locks(context, self._transactions, self._housekeeping)
        self._databases = Databases(context, self._locks)
        self._tables = Tables(context, self._locks)
        self._partitions = Partitions(context, self._locks, self._tables)

    run_housekeeping = by("_housekeeping", Housekeeping.run)

    @property
    def runs_compactions(self) -> bool:
        """True."""
        return True

    @property
    def has_own_cleaner(self) -> bool:
        """False: whoever runs a compactor cleans."""
        return False

    # -- about itself ------------------------------------------------------------------------------

    @classmethod
    def connect(cls, uri: str, warehouse: str | None, options: EmbeddedOptions, *, create: bool = False) -> Self:
        """Open the metastore, or create it.

        Args:
            uri: Of SQLite or PostgreSQL.
            warehouse: Where databases lie that have no location: for a new metastore, or to be compared with that of
                an existing one. None stands for that; in a new one, for `warehouse` beside the SQLite file.
            options: Limits.
            create: Whether a missing SQLite file, or the tables in an empty PostgreSQL database, may be created.

        Raises:
            ConfigurationError: An invalid address or warehouse, or one that is not the metastore's.
            MetastoreError: There is no metastore, and `create` is false.
            MetastoreSchemaError: The database is not a metastore of ours, or of a newer version.
            MetastoreUnavailable: No connection.
        """
        address = parse_uri(uri)
        given = None if warehouse is None else check_warehouse(warehouse)
        backend = backend_for(address, options)
        if address.is_sqlite and not address.path.exists():
            if not create:
                raise no_metastore(f"there is no file {str(address.path)!r}")
            make_folders([normal_location(str(address.path.parent))])
            address.path.touch()
        sessions = Sessions(backend, clock_offset_seconds=options.clock_offset_seconds)
        try:
            # Not created for an existing metastore: its missing warehouse may be on a disk that is not mounted.
            open_schema(sessions, functools.partial(_new_warehouse, address, given) if create else None)
            if backend.durability_query:
                backend.check_durability(sessions.execute_sql(backend.durability_query))
            warehouse = default_location(sessions)
            if given is not None:
                _check_same_warehouse(address, warehouse, given)
            return cls(sessions, warehouse, options)
        except BaseException:
            sessions.close()
            raise

    @property
    def uri(self) -> str:
        """The address, without any password."""
        return str(self._context.sessions.backend.uri)

    @functools.cached_property
    def metastore_id(self) -> str:
        """A UUID that distinguishes this metastore from others, created with its tables."""
        return str(self._context.sessions.query(GET_METASTORE_ID)[0][0])

    @property
    def keeps_min_history(self) -> bool:
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
        """The folder of databases that have no location of their own."""
        return self._context.warehouse

    @property
    def txn_timeout_seconds(self) -> float:
        """How long a transaction lives without a heartbeat (`hive.txn.timeout`)."""
        return self._context.options.txn_timeout_seconds

    @property
    def clock_offset_seconds(self) -> float:
        """For tests: how far the database's clock seems moved on, to this client and its later clones only."""
        return self._context.sessions.clock_offset_seconds

    @clock_offset_seconds.setter
    def clock_offset_seconds(self, seconds: float) -> None:
        self._context.sessions.clock_offset_seconds = seconds

    def clone(self) -> Self:
        """Another client of the same metastore, which is closed separately."""
        return type(self)(self._context.sessions.clone(), self._context.warehouse, self._context.options)

    def close(self) -> None:
        """Idempotent. Every later call raises ConnectionMisuse."""
        self._context.sessions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddedMetastoreClient({self.uri!r}, warehouse={self.warehouse!r})"


def _check_same_warehouse(address: MetastoreUri, warehouse: str, given: str) -> None:
    """Raises ConfigurationError."""
    its_path, given_path = local_path(warehouse), local_path(given)
    is_same_folder = its_path is not None and given_path is not None and its_path.resolve() == given_path.resolve()
    if warehouse != given and not is_same_folder:
        raise ConfigurationError(
            f"the metastore {address} has the warehouse {warehouse!r}, and warehouse={given!r} was given: leave it "
            "out, or give the database or table that is to lie elsewhere a location of its own"
        )


def _new_warehouse(address: MetastoreUri, given: str | None) -> str:
    """The warehouse of a metastore that is being created; creates the folder."""
    if given is None and not address.is_sqlite:
        raise ConfigurationError("no warehouse: give the folder in which databases and tables are stored")
    location = given or normal_location(str(address.path.parent / "warehouse"))
    make_folders([location])
    return location
