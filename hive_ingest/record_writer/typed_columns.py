"""Columns of a record schema with their types parsed, checked for what no writer can tell apart."""

from __future__ import annotations

from collections.abc import Iterable

from hive_ingest.errors import InvalidTransactionState, StreamingConnectionError
from hive_ingest.model import Column
from hive_ingest.schema import HiveType, parse_type

TypedColumn = tuple[str, HiveType]


def typed_columns(columns: Iterable[Column]) -> list[TypedColumn]:
    """(lower-case name, type) of each. Raises StreamingConnectionError for names that differ only by case."""
    found: dict[str, HiveType] = {}
    for column in columns:
        name = column.name.lower()
        if name in found:
            raise StreamingConnectionError(
                f"two columns are named {name!r}, case aside: records cannot tell them apart"
            )
        found[name] = parse_type(column.type)
    return list(found.items())


def not_bound(writer: object) -> InvalidTransactionState:
    """The error of a writer that was never told its schema."""
    return InvalidTransactionState(
        f"{type(writer).__name__} has no schema yet: pass it to StreamingConnection.connect, or call bind() first"
    )
