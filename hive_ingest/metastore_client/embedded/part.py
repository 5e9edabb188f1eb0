"""What the parts of the embedded client share."""

from __future__ import annotations

import getpass
import os
import socket
from abc import ABC, abstractmethod
from datetime import UTC, datetime

from hive_ingest.acid.write_ids import ValidTxnList
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.metastore_client.embedded.sessions import Session, Sessions
from hive_ingest.model import TableName, TxnId

#: In TXN_META_INFO of a transaction that nobody kept alive; the time is in TXN_LAST_HEARTBEAT.
TIMED_OUT = "timed out"


class ClientPart(ABC):
    """A part of the client: some calls of the protocol over one database connection.

    The abstract methods are what one part needs of another.
    """

    _db: Sessions
    _options: EmbeddedOptions
    _warehouse: str

    @abstractmethod
    def _keep_house_if_due(self) -> None:
        """Cheap when it is not due."""

    @abstractmethod
    def _heartbeat_txn(self, txn_id: TxnId) -> None:
        """Raises NoSuchTxn, TxnAborted."""

    @abstractmethod
    def _drop_table(self, session: Session, name: TableName, *, delete_data: bool = True) -> list[str]:
        """Out of the catalog; gives the folders to remove after the commit. Raises NoSuchObject."""

    @abstractmethod
    def get_valid_txns(self, txn_id: TxnId | None = None) -> ValidTxnList:
        """A snapshot of now."""


def this_host() -> str:
    return socket.gethostname()


def this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry in passwd
        return str(os.getuid())


def abort_reason(meta_info: str | None, last_heartbeat_ms: int) -> str:
    """Why a transaction was aborted, in words."""
    if meta_info == TIMED_OUT:
        return f"{TIMED_OUT}, last heartbeat {_utc(last_heartbeat_ms)}"
    return meta_info or ""


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
