"""A MetastoreClient for a real Hive Metastore over Thrift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from hive_ingest.metastore_client.forwarding import ForwardingClient, by
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


class ThriftMetastoreClient(ForwardingClient):
    """A client of a real metastore, created by `connect_metastore`.

    Threads may share it. After a fork the child's calls open new connections.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._transactions = transactions = Transactions(context)
        self._commits = self._write_ids = self._snapshots = transactions
        self._notifications = Notifications(context)
        self._compactions = compactions = Compactions(context)
        self._compaction_queue = self._compaction_history = self._compaction_cleaning = compactions
        self._locks = Locks(context, transactions)
        self._databases = Databases(context, self._locks)
        self._tables = Tables(context, self._locks, self._databases)
        self._partitions = Partitions(context, self._locks, self._tables)

    add_write_notification_log = by("_notifications", Notifications.add_write_notification_log)

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
        """Whether the server has `hive.metastore.dml.events` on, requested once. Version 3 has no such call."""
        return self._notifications.wants_write_notifications

    # -- about itself ------------------------------------------------------------------------------

    @classmethod
    def connect(cls, uri: str, warehouse: str, arguments: Mapping[str, Any]) -> Self:
        """Raises ConfigurationError, MetastoreUnavailable, MetastoreError, UnsupportedFeature (before Hive 3)."""
        addresses = parse_addresses(uris_of_hive_site() if uri == "thrift://" else uri)
        client = cls(Context(Channel(addresses, ThriftOptions.load(arguments)), warehouse))
        try:
            client._context.txn_timeout_seconds  # noqa: B018 - connect early, where the caller passes the URI
        except BaseException:
            client.close()
            raise
        return client

    @property
    def uri(self) -> str:
        """The URI that was passed."""
        return ",".join(map(str, self._context.channel.addresses))

    @property
    def metastore_id(self) -> str:
        """The UUID of the metastore's database, requested once."""
        return self._context.metastore_id

    @property
    def server_version(self) -> str:
        """As the server reports it: "4.0.1"; servers of version 3 all say "3.0"."""
        return self._context.channel.version.text

    @property
    def keeps_min_history(self) -> bool:
        """True for servers of version 3. Later servers do not report it, so it is assumed to be false."""
        return self._context.channel.version.always_keeps_history_level

    @property
    def checks_write_conflicts(self) -> bool:
        """True for servers of version 3, which do not know `exclWriteEnabled`."""
        return self._context.channel.version.always_checks_write_conflicts

    @property
    def txn_timeout_seconds(self) -> float:
        """How long a transaction lives without a heartbeat (`hive.txn.timeout`), requested once."""
        return self._context.txn_timeout_seconds

    def clone(self) -> Self:
        """Another client of the same metastore, which is closed separately. It connects at its first call."""
        channel = self._context.channel
        return type(self)(replace(self._context, channel=Channel(channel.addresses, channel.options)))

    def close(self) -> None:
        """Close the client. Idempotent. Every later call raises ConnectionMisuse."""
        self._context.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ThriftMetastoreClient({self.uri!r})"
