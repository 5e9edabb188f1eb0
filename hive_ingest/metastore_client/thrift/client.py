"""A real Hive Metastore over Thrift: a MetastoreClient that connects, fails over and repeats as is safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from hive_ingest.config import parse_seconds
from hive_ingest.metastore_client.thrift.addresses import Address, parse_addresses
from hive_ingest.metastore_client.thrift.channel import Channel
from hive_ingest.metastore_client.thrift.locks import LockCalls
from hive_ingest.metastore_client.thrift.notifications import NotificationCalls
from hive_ingest.metastore_client.thrift.options import ThriftOptions, uris_of_hive_site
from hive_ingest.metastore_client.thrift.partitions import PartitionCalls

#: A server without the setting (there is none) is taken to have Hive's default.
_DEFAULT_TIMEOUT = "300s"


class ThriftMetastoreClient(LockCalls, PartitionCalls, NotificationCalls):
    """One client of a real metastore; made by `connect_metastore`.

    It is used from one thread at a time; after a fork the child's first call opens a connection of its own.
    """

    def __init__(self, addresses: Sequence[Address], warehouse: str, options: ThriftOptions) -> None:
        self._channel = Channel(addresses, options)
        self._warehouse = warehouse
        self._txn_timeout_seconds: float | None = None
        self._metastore_id: str | None = None

    @classmethod
    def connect(cls, uri: str, warehouse: str, arguments: Mapping[str, Any]) -> Self:
        """Raises ConfigurationError, MetastoreUnavailable, MetastoreError, UnsupportedFeature (before Hive 3)."""
        addresses = parse_addresses(uris_of_hive_site() if uri == "thrift://" else uri)
        client = cls(addresses, warehouse, ThriftOptions.load(arguments))
        try:
            client._txn_timeout_seconds = client._ask_timeout()
        except BaseException:
            client.close()
            raise
        return client

    @property
    def uri(self) -> str:
        """The addresses, as they were given."""
        return ",".join(map(str, self._channel.addresses))

    @property
    def metastore_id(self) -> str:
        """The UUID of the server's database, asked of the server once."""
        if self._metastore_id is None:
            self._metastore_id = str(self._channel.call("get_metastore_db_uuid", is_repeatable=True))
        return self._metastore_id

    @property
    def server_version(self) -> str:
        """As the server tells it: "4.0.1"; servers of version 3 all say "3.0"."""
        return self._version.text

    @property
    def remembers_overtakers(self) -> bool:
        """True for servers of version 3. No call tells what a later one does, so it counts as forgetful."""
        return self._version.always_keeps_history_level

    @property
    def checks_write_conflicts(self) -> bool:
        """True for servers of version 3, which do not know `exclWriteEnabled`."""
        return self._version.always_checks_write_conflicts

    @property
    def txn_timeout_seconds(self) -> float:
        """How long a transaction lives without a heartbeat (`hive.txn.timeout`), asked of the server once."""
        if self._txn_timeout_seconds is None:
            self._txn_timeout_seconds = self._ask_timeout()
        return self._txn_timeout_seconds

    def _ask_timeout(self) -> float:
        setting = ("hive.txn.timeout", _DEFAULT_TIMEOUT)
        return parse_seconds(self._channel.call("get_config_value", *setting, is_repeatable=True))

    def clone(self) -> Self:
        """Another client of the same metastore, for another thread; it connects at its first call."""
        other = type(self)(self._channel.addresses, self._warehouse, self._channel.options)
        other._txn_timeout_seconds = self._txn_timeout_seconds
        other._metastore_id = self._metastore_id
        other._uses_min_history = self._uses_min_history
        other._wants_notifications = self._wants_notifications
        return other

    def close(self) -> None:
        """Idempotent. Every later call raises ConnectionMisuse."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ThriftMetastoreClient({self.uri!r})"
