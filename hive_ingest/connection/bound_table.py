"""The table of a connection, which is read again at each begin, and the record writer bound to its columns."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Sequence

from hive_ingest.connection.checks import check_still_fits, check_streamable, checked_partition_name, existing_table
from hive_ingest.delta import WriteCounts
from hive_ingest.errors import ConfigurationError, StreamingConnectionError
from hive_ingest.metastore_client import MetastoreClient, check_text
from hive_ingest.model import CommitKeyValue, Table
from hive_ingest.record_writer import RecordSchema, RecordWriter

_log = logging.getLogger(__name__)

#: The owner of each record writer, by the writer's identity: one shared by two connections would mix their records.
_writers_in_use: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()


def hold_record_writer(record_writer: RecordWriter, connection: object) -> None:
    """Reserve a record writer until `release_record_writer`, or until the connection is collected."""
    _writers_in_use[id(record_writer)] = connection


def release_record_writer(record_writer: RecordWriter) -> None:
    """Idempotent."""
    _writers_in_use.pop(id(record_writer), None)


def check_record_writer(record_writer: object) -> None:
    """Raises StreamingConnectionError for an object that is not a record writer or serves another connection."""
    if not isinstance(record_writer, RecordWriter):
        raise StreamingConnectionError(
            f"{record_writer!r} is not a record writer: use StrictJsonWriter, StrictDelimitedInputWriter, "
            "ArrowWriter or an object with the methods of hive_ingest.record_writer.RecordWriter"
        )
    other = _writers_in_use.get(id(record_writer))
    if other is not None:
        raise StreamingConnectionError(
            f"the record writer serves {other!r} already: give each connection one of its own"
        )


class BoundTable:
    """A table as of the last begin.

    Attributes:
        table: Its description.
        record_writer: Knows the columns of `table`.
        static_values: Values of the leading partition keys.
    """

    def __init__(
        self, client: MetastoreClient, table: Table, record_writer: RecordWriter, static_values: Sequence[str]
    ) -> None:
        self._client = client
        self.table = table
        self.record_writer = record_writer
        self.static_values = tuple(static_values)
        self._has_warned = False
        self._bind(table)

    def _bind(self, table: Table) -> None:
        self.record_writer.bind(RecordSchema.of(table, self.static_values))

    def read_again(self) -> None:
        """Use columns that were added. Raises InvalidTable for any other change."""
        table = existing_table(self._client, self.table.name)
        if table == self.table:
            return
        check_streamable(table)
        check_still_fits(self.table, table)
        self._bind(table)
        self.table = table  # only now: after an error the next begin reads it again

    def checked_partitions(self, names: Iterable[str]) -> list[str]:
        """Names of partitions as Hive writes them. Raises ConfigurationError for a name that the table cannot have."""
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise ConfigurationError(f"partitions={names!r} is not a list: pass a list of names, such as ['k=v']")
        return [checked_partition_name(self.table, self.static_values, name) for name in names]

    def key_value(self, key: str | None, value: str | None) -> CommitKeyValue | None:
        """The table parameter that a commit changes, if it was given. Raises ConfigurationError for half of one."""
        if key is None and value is None:
            return None
        if key is None or value is None:
            raise ConfigurationError("commit_transaction needs both key and value, or neither")
        check_text("key", key)
        check_text("value", value)
        return CommitKeyValue(self.table.id, key, value)

    def warn_of_unmatched_columns(self, counts: WriteCounts) -> None:
        """Log once the columns for which no record of a transaction with rows had a field."""
        matched = counts.matched_columns
        if self._has_warned or matched is None or not counts.rows:
            return
        self._has_warned = True
        keys = self.table.partition_keys[len(self.static_values) :]
        missing = [column.name for column in (*self.table.columns, *keys) if column.name not in matched]
        if missing:
            _log.warning(
                "%s: no record had a field for these columns, which are null: %s", self.table.name, ", ".join(missing)
            )
