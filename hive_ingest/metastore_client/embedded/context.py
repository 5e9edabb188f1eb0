"""The state that the parts of the embedded client share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hive_ingest.metastore_client.embedded.folder_tasks import FolderTasks
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.metastore_client.embedded.sessions import Sessions

#: In TXN_META_INFO of a transaction that nobody kept alive; the time is in TXN_LAST_HEARTBEAT.
TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Context:
    """The metastore of one client."""

    sessions: Sessions
    options: EmbeddedOptions
    #: The folder of databases that are created without a location.
    warehouse: str
    folder_tasks: FolderTasks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder_tasks", FolderTasks(self.sessions))


def abort_reason(meta_info: str | None, last_heartbeat_ms: int) -> str:
    """Why a transaction was aborted, in words."""
    if meta_info == TIMED_OUT:
        return f"{TIMED_OUT}, last heartbeat {_utc(last_heartbeat_ms)}"
    return meta_info or ""


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
