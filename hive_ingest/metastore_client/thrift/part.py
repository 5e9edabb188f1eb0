"""The state that the parts of the Thrift client share."""

from __future__ import annotations

from dataclasses import dataclass

from hive_ingest.config import parse_seconds
from hive_ingest.metastore_client.thrift.channel import Channel
from hive_ingest.metastore_client.thrift.versions import ServerVersion

#: Hive's default, in case a server does not report the setting.
_DEFAULT_TXN_TIMEOUT = "300s"


@dataclass(slots=True)
class Context:
    """The state of a client of one metastore."""

    channel: Channel
    #: The folder of databases that are created without a location; "" leaves it to the server.
    warehouse: str
    # Settings of the server; None before they are requested.
    known_txn_timeout_seconds: float | None = None
    known_metastore_id: str | None = None
    uses_min_history: bool | None = None
    wants_notifications: bool | None = None

    @property
    def txn_timeout_seconds(self) -> float:
        """How long a transaction lives without a heartbeat (`hive.txn.timeout`), requested once."""
        if self.known_txn_timeout_seconds is None:
            setting = ("hive.txn.timeout", _DEFAULT_TXN_TIMEOUT)
            self.known_txn_timeout_seconds = parse_seconds(
                self.channel.call("get_config_value", *setting, is_repeatable=True)
            )
        return self.known_txn_timeout_seconds

    @property
    def metastore_id(self) -> str:
        """The UUID of the metastore's database, requested once."""
        if self.known_metastore_id is None:
            self.known_metastore_id = str(self.channel.call("get_metastore_db_uuid", is_repeatable=True))
        return self.known_metastore_id


class Part:
    """A group of calls of the client, over the channel of its context."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._channel = context.channel

    @property
    def _version(self) -> ServerVersion:
        return self._channel.version
