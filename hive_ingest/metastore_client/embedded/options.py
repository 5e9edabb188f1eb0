"""Options of an embedded metastore. They belong to the client and are stored nowhere."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hive_ingest.errors import ConfigurationError

#: What differs from "above 0". An interval of 0 keeps house at every occasion.
_MAY_BE = {
    "housekeeping_interval_seconds": "0 or more",
    "ddl_lock_wait_seconds": "0 or more",
    "clock_offset_seconds": "anything",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """What `connect_metastore` accepts beside the address and the warehouse."""

    #: Transactions that may be open at once (`hive.max.open.txns`).
    max_open_txns: int = 100_000
    #: Transactions that one open_txns gives at most (`hive.txn.max.open.batch`).
    max_open_batch: int = 1_000
    #: How long a transaction, or a lock outside one, lives without a heartbeat (`hive.txn.timeout`).
    txn_timeout_seconds: float = 300.0
    #: How long an aborted transaction that wrote nothing is remembered.
    aborted_txn_retention_seconds: float = 86_400.0
    #: How long a committed transaction that wrote nothing is remembered.
    committed_txn_retention_seconds: float = 300.0
    #: How often housekeeping runs on its own, in whoever opens transactions or waits for locks.
    housekeeping_interval_seconds: float = 60.0
    #: How long to wait for another session's write before MetastoreUnavailable (PostgreSQL: `lock_timeout`).
    busy_timeout_seconds: float = 30.0
    #: PostgreSQL's `statement_timeout`: how long one statement may take.
    statement_timeout_seconds: float = 60.0
    #: PostgreSQL's `idle_in_transaction_session_timeout`: how long a process that is stopped or suspended inside a call
    #: may keep its row locks. Below `busy_timeout_seconds`, so that the others outlast it.
    idle_in_transaction_timeout_seconds: float = 15.0
    #: How long DROP and ALTER wait for those who read or write the object.
    ddl_lock_wait_seconds: float = 60.0
    #: For tests: how far the database's clock seems moved on. Only this client and its clones see it.
    clock_offset_seconds: float = 0.0

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            kind = int if isinstance(option.default, int) else int | float
            if isinstance(value, bool) or not isinstance(value, kind):
                raise ConfigurationError(f"{option.name}={value!r}: give a {'whole ' if kind is int else ''}number")
            lowest = _MAY_BE.get(option.name, "above 0")
            if (lowest == "above 0" and value <= 0) or (lowest == "0 or more" and value < 0):
                raise ConfigurationError(f"{option.name}={value!r}: give a number {lowest}")


def embedded_options(options: dict[str, object]) -> EmbeddedOptions:
    """Raises ConfigurationError for an unknown option or a value that cannot be meant."""
    known = [option.name for option in fields(EmbeddedOptions)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigurationError(f"unknown option {unknown[0]!r}: an embedded metastore knows {', '.join(known)}")
    return EmbeddedOptions(**options)  # type: ignore[arg-type]  # checked in __post_init__
