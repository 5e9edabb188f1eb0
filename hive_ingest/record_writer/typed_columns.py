"""The columns of a record schema with parsed types, checked for names that differ only in case."""

from __future__ import annotations

from collections.abc import Iterable

from hive_ingest.errors import InvalidTransactionState, StreamingConnectionError
from hive_ingest.model import Column
from hive_ingest.schema import HiveType, parse_type

TypedColumn = tuple[str, HiveType]


def typed_columns(columns: Iterable[Column]) -> list[TypedColumn]:
    """The (lower-case name, type) of each column.

    Raises:
        StreamingConnectionError: Two names differ only in case.
    """
    found: dict[str, HiveType] = {}
    for column in columns:
        name = column.name.lower()
        if name in found:
            raise StreamingConnectionError(
                f"two columns are named {name!r} (ignoring case): records cannot distinguish them; rename one"
            )
        found[name] = parse_type(column.type)
    return list(found.items())


def not_bound(writer: object) -> InvalidTransactionState:
    """The error of a writer that is used before `bind`."""
    return InvalidTransactionState(
        f"{type(writer).__name__} has no schema yet: pass it to StreamingConnection.connect, or call bind() first"
    )
