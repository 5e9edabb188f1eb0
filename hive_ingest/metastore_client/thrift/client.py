"""A real Hive Metastore over Thrift: a MetastoreClient that connects, fails over and repeats as is safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from hive_ingest.metastore_client.forwarding import by
from hive_ingest.metastore_client.thrift.addresses import parse_addresses
from hive_ingest.metastore_client.thrift.channel import Channel
from hive_ingest.metastore_client.thrift.compactions import Compactions
from hive_ingest.metastore_client.thrift.databases import Databases
from hive_ingest.metastore_client.thrift.locks import Locks
from hive_ingest.metastore_client.thrift.notifications import Notifications
from hive_ingest.metastore_client.thrift.options import ThriftOptions, uris_of_hive_site
from hive_ingest.metastore_client.thrift.part import Context
from hive_ingest.metastore_client.thrift.partitions import Partitions
from hive_ingest.metastore_client.thrift.tables import Tables
from hive_ingest.metastore_client.thrift.transactions import Transactions


class ThriftMetastoreClient:
    """One client of a real metastore; made by `connect_metastore`.

    Many threads may share it. After a fork the child's calls open connections of their own.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._transactions = Transactions(context)
        self._notifications = Notifications(context)
        self._compactions = Compactions(context)
        self._locks = Locks(context, self._transactions)
        self._databases = Databases(context, self._locks)
        self._tables = Tables(context, self._locks, self._databases)
        self._partitions = Partitions(context, self._locks, self._tables)

    # -- the catalog -------------------------------------------------------------------------------

    create_database = by("_databases", Databases.create_database)
    get_database = by("_databases", Databases.get_database)
    get_databases = by("_databases", Databases.get_databases)
    alter_database = by("_databases", Databases.alter_database)
    drop_database = by("_databases", Databases.drop_database)
    create_table = by("_tables", Tables.create_table)
    get_table = by("_tables", Tables.get_table)
    get_tables = by("_tables", Tables.get_tables)
    alter_table = by("_tables", Tables.alter_table)
    add_column = by("_tables", Tables.add_column)
    drop_table = by("_tables", Tables.drop_table)
    add_partitions = by("_partitions", Partitions.add_partitions)
    get_partition = by("_partitions", Partitions.get_partition)
    get_partitions_by_names = by("_partitions", Partitions.get_partitions_by_names)
    list_partitions = by("_partitions", Partitions.list_partitions)
    list_partition_names = by("_partitions", Partitions.list_partition_names)
    get_partitions_by_filter = by("_partitions", Partitions.get_partitions_by_filter)
    alter_partition = by("_partitions", Partitions.alter_partition)
    drop_partition = by("_partitions", Partitions.drop_partition)

    # -- the transaction manager -------------------------------------------------------------------

    open_txns = by("_transactions", Transactions.open_txns)
    allocate_table_write_ids = by("_transactions", Transactions.allocate_table_write_ids)
    get_max_allocated_write_id = by("_transactions", Transactions.get_max_allocated_write_id)
    raise_write_ids = by("_transactions", Transactions.raise_write_ids)
    add_dynamic_partitions = by("_transactions", Transactions.add_dynamic_partitions)
    commit_txn = by("_transactions", Transactions.commit_txn)
    abort_txn = by("_transactions", Transactions.abort_txn)
    abort_txns = by("_transactions", Transactions.abort_txns)
    heartbeat_txn_range = by("_transactions", Transactions.heartbeat_txn_range)
    get_open_txns_info = by("_transactions", Transactions.get_open_txns_info)
    get_valid_txns = by("_transactions", Transactions.get_valid_txns)
    get_valid_write_ids = by("_transactions", Transactions.get_valid_write_ids)
    add_write_ids_to_min_history = by("_transactions", Transactions.add_write_ids_to_min_history)
    lock = by("_locks", Locks.lock)
    check_lock = by("_locks", Locks.check_lock)
    unlock = by("_locks", Locks.unlock)
    heartbeat = by("_locks", Locks.heartbeat)
    show_locks = by("_locks", Locks.show_locks)
    add_write_notification_log = by("_notifications", Notifications.add_write_notification_log)

    # -- the compaction queue ----------------------------------------------------------------------

    compact = by("_compactions", Compactions.compact)
    show_compactions = by("_compactions", Compactions.show_compactions)
    get_latest_committed_compactions = by("_compactions", Compactions.get_latest_committed_compactions)
    find_next_compact = by("_compactions", Compactions.find_next_compact)
    update_compactor_state = by("_compactions", Compactions.update_compactor_state)
    set_hadoop_job_id = by("_compactions", Compactions.set_hadoop_job_id)
    mark_compacted = by("_compactions", Compactions.mark_compacted)
    mark_failed = by("_compactions", Compactions.mark_failed)
    mark_refused = by("_compactions", Compactions.mark_refused)
    revoke_from_local_workers = by("_compactions", Compactions.revoke_from_local_workers)
    revoke_timed_out_workers = by("_compactions", Compactions.revoke_timed_out_workers)
    find_potential_compactions = by("_compactions", Compactions.find_potential_compactions)
    check_failed_compactions = by("_compactions", Compactions.check_failed_compactions)
    find_min_open_txn_id_for_cleaner = by("_compactions", Compactions.find_min_open_txn_id_for_cleaner)
    find_ready_to_clean = by("_compactions", Compactions.find_ready_to_clean)
    find_ready_to_clean_aborts = by("_compactions", Compactions.find_ready_to_clean_aborts)
    get_aborted_components = by("_compactions", Compactions.get_aborted_components)
    mark_cleaner_start = by("_compactions", Compactions.mark_cleaner_start)
    set_cleaner_retry_retention = by("_compactions", Compactions.set_cleaner_retry_retention)
    mark_cleaned = by("_compactions", Compactions.mark_cleaned)
    purge_completed_compactions = by("_compactions", Compactions.purge_completed_compactions)

    @property
    def runs_compactions(self) -> bool:
        """True from version 4 on, whose queue a worker outside the server can serve too."""
        return self._compactions.runs_compactions

    @property
    def has_own_cleaner(self) -> bool:
        """True: the server's initiator, cleaner and housekeeping are its own."""
        return True

    @property
    def wants_write_notifications(self) -> bool:
        """Whether the server has `hive.metastore.dml.events` on; asked of it once. Version 3 has no such call."""
        return self._notifications.wants_write_notifications

    # -- about itself ------------------------------------------------------------------------------

    @classmethod
    def connect(cls, uri: str, warehouse: str, arguments: Mapping[str, Any]) -> Self:
        """Raises ConfigurationError, MetastoreUnavailable, MetastoreError, UnsupportedFeature (before Hive 3)."""
        addresses = parse_addresses(uris_of_hive_site() if uri == "thrift://" else uri)
        client = cls(Context(Channel(addresses, ThriftOptions.load(arguments)), warehouse))
        try:
            client._context.txn_timeout_seconds  # noqa: B018 - asked for early, while the address is at hand
        except BaseException:
            client.close()
            raise
        return client

    @property
    def uri(self) -> str:
        """The addresses, as they were given."""
        return ",".join(map(str, self._context.channel.addresses))

    @property
    def metastore_id(self) -> str:
        """The UUID of the metastore's database, asked of the server once."""
        return self._context.metastore_id

    @property
    def server_version(self) -> str:
        """As the server reports it: "4.0.1"; servers of version 3 all say "3.0"."""
        return self._context.channel.version.text

    @property
    def keeps_min_history(self) -> bool:
        """True for servers of version 3. Later servers do not report it, so it is taken for false."""
        return self._context.channel.version.always_keeps_history_level

    @property
    def checks_write_conflicts(self) -> bool:
        """True for servers of version 3, which do not know `exclWriteEnabled`."""
        return self._context.channel.version.always_checks_write_conflicts

    @property
    def txn_timeout_seconds(self) -> float:
        """How long a transaction lives without a heartbeat (`hive.txn.timeout`), asked of the server once."""
        return self._context.txn_timeout_seconds

    def clone(self) -> Self:
        """Another client of the same metastore, closed on its own; it connects at its first call."""
        channel = self._context.channel
        return type(self)(replace(self._context, channel=Channel(channel.addresses, channel.options)))

    def close(self) -> None:
        """Idempotent. Every later call raises ConnectionMisuse."""
        self._context.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ThriftMetastoreClient({self.uri!r})"
