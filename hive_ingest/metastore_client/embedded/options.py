"""Options of an embedded metastore. They belong to the client and are stored nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hive_ingest.config import check_options, option, options_from


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """What `connect_metastore` accepts beside the address and the warehouse."""

    max_open_txns: int = option(
        100_000, "transactions that may be open at once", above=0, hive_key="hive.max.open.txns"
    )
    max_open_batch: int = option(
        1_000, "the most transactions that one open_txns opens", above=0, hive_key="hive.txn.max.open.batch"
    )
    txn_timeout_seconds: float = option(
        300.0,
        "how long a transaction, or a lock outside one, lives without a heartbeat",
        above=0,
        hive_key="hive.txn.timeout",
    )
    aborted_txn_retention_seconds: float = option(
        86_400.0, "how long an aborted transaction that wrote nothing is remembered", above=0
    )
    committed_txn_retention_seconds: float = option(
        300.0, "how long a committed transaction that wrote nothing is remembered", above=0
    )
    housekeeping_interval_seconds: float = option(
        60.0, "how often housekeeping runs, in any process that opens transactions or waits for locks", at_least=0
    )
    busy_timeout_seconds: float = option(
        30.0, "how long to wait for another session's write (PostgreSQL: lock_timeout)", above=0
    )
    statement_timeout_seconds: float = option(60.0, "PostgreSQL's statement_timeout", above=0)
    #: Below `busy_timeout_seconds`, so that the others outlast it.
    idle_in_transaction_timeout_seconds: float = option(
        15.0,
        "PostgreSQL's idle_in_transaction_session_timeout: how long a process that is stopped or suspended inside a "
        "call may keep its row locks",
        above=0,
    )
    ddl_lock_wait_seconds: float = option(
        60.0, "how long DROP and ALTER wait for those who read or write the object", at_least=0
    )
    clock_offset_seconds: float = option(
        0.0, "for tests: how far the database's clock seems moved on, to this client and its clones"
    )

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def load(cls, arguments: Mapping[str, Any]) -> Self:
        """Raises ConfigurationError for an unknown option or an invalid value."""
        return options_from(cls, ("the arguments, for an embedded metastore", arguments))
