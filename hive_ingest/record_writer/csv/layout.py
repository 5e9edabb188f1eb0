"""Which column each field of a CSV record has, by the header or by the order of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_ingest.errors import SerializationError, StreamingConnectionError


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The columns of the fields.

    Attributes:
        fields: The column of each field; None for one that is ignored.
        unknown: The names of the ignored fields.
    """

    fields: tuple[str | None, ...]
    unknown: frozenset[str] = frozenset()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that have a field."""
        return frozenset(name for name in self.fields if name is not None)


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """What a header must and may name.

    Attributes:
        columns: The data columns.
        partition_columns: The dynamic partition keys.
        static_columns: The static partition keys, whose values are compared.
        missing_columns: Whether a data column may be missing: "fail" or "null".
        missing_partition_keys: Whether a partition key may be missing: "fail" or "null".
        unknown_fields: Whether a name may match no column: "ignore" or "fail".
    """

    columns: tuple[str, ...]
    partition_columns: tuple[str, ...]
    static_columns: tuple[str, ...]
    missing_columns: str
    missing_partition_keys: str
    unknown_fields: str

    def layout(self, header: Sequence[str]) -> CsvLayout:
        """The layout of records with that header. Names match without regard to case and to blanks around them.

        Raises:
            SerializationError: The header does not follow the rules.
        """
        known = {*self.columns, *self.partition_columns, *self.static_columns}
        names = [name.strip().lower() for name in header]
        fields = tuple(name if name in known else None for name in names)
        unknown = frozenset(name for name in names if name not in known)
        named = [name for name in fields if name is not None]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise SerializationError(f"the header names the column {twice[0]!r} twice (ignoring case)")
        if not named:
            raise SerializationError(
                f"the header {_shown(header)} names no column of the table: check that the first record is a header "
                "(else set header=False), and field_delimiter"
            )
        if unknown and self.unknown_fields == "fail":
            raise SerializationError(
                f"the header names {_shown(sorted(unknown))}, which the table does not have: add the columns, or set "
                "unknown_fields='ignore'"
            )
        self._check_missing(self.columns, named, "missing_columns")
        self._check_missing(self.partition_columns, named, "missing_partition_keys")
        return CsvLayout(fields, unknown)

    def _check_missing(self, required: Sequence[str], named: list[str], option: str) -> None:
        missing = [name for name in required if name not in named]
        if missing and getattr(self, option) == "fail":
            raise SerializationError(
                f"the header lacks {_shown(missing)}: add the names, or set {option}='null' to have nulls there"
            )


def ordered_layout(order: Sequence[str] | None, columns: Sequence[str], partition_columns: Sequence[str]) -> CsvLayout:
    """The layout of records without a header.

    Args:
        order: The columns in the order of the fields, or None for the order of the table.
        columns: The data columns of the table.
        partition_columns: Its dynamic partition keys.

    Raises:
        StreamingConnectionError: `order` names a column that the table does not have, or one twice, or leaves out a
            partition key.
    """
    names = [*columns, *partition_columns]
    if order is None:
        return CsvLayout(tuple(names))
    if unknown := [name for name in order if name not in names]:
        raise StreamingConnectionError(f"columns={list(order)}: the table has no column {', '.join(unknown)}")
    if len(set(order)) < len(order) or not order:
        raise StreamingConnectionError(f"columns={list(order)}: name at least one column, and none twice")
    if missing := [name for name in partition_columns if name not in order]:
        raise StreamingConnectionError(
            f"columns={list(order)} leaves out the partition key {missing[0]!r}: name it, or give its value in "
            "static_partition_values"
        )
    return CsvLayout(tuple(order))


def _shown(names: Sequence[str]) -> str:
    most = 5
    return ", ".join(map(repr, names[:most])) + (f", … ({len(names)} in all)" if len(names) > most else "")
