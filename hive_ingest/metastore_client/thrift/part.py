"""What the parts of the Thrift client share."""

from __future__ import annotations

from hive_ingest.metastore_client.thrift.channel import Channel
from hive_ingest.metastore_client.thrift.versions import ServerVersion


class ClientPart:
    """Some calls of the protocol over one channel."""

    _channel: Channel
    #: Where databases lie that are made without a location; "" leaves it to the server.
    _warehouse: str

    @property
    def _version(self) -> ServerVersion:
        return self._channel.version
