"""A metastore: catalog, transaction manager and compaction queue in one client, embedded or real."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from hive_ingest.metastore_client.catalog import Catalog
from hive_ingest.metastore_client.compaction_queue import CompactionQueue
from hive_ingest.metastore_client.transaction_manager import TransactionManager


@runtime_checkable
class MetastoreClient(Catalog, TransactionManager, CompactionQueue, Protocol):
    """A client of one metastore, which threads may share."""

    @property
    def uri(self) -> str:
        """Where it is, without any password."""
        ...

    @property
    def metastore_id(self) -> str:
        """A UUID that distinguishes this metastore from others."""
        ...

    def clone(self) -> Self:
        """Another client of the same metastore, closed on its own."""
        ...

    def close(self) -> None:
        """Idempotent."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
