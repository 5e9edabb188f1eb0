"""Bad records as rows of a table, which commit with the transaction that skipped them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hive_ingest.config import StreamingSettings
from hive_ingest.connection.checks import check_streamable
from hive_ingest.delta import DeltaTarget, DeltaWriter, GroupKey
from hive_ingest.errors import ConfigurationError, NoSuchObject
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockType, Table, TableName, WriteId
from hive_ingest.record_writer import BadRecord, python_row
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import Location
from hive_ingest.transactions import StagedFile

BAD_RECORD_COLUMNS: Final = {
    "table_name": "string",
    "file": "string",
    "line": "bigint",
    "record_number": "bigint",
    "byte_offset": "bigint",
    "reason": "string",
    "record": "binary",
    "written_at": "timestamp",
}


@dataclass(frozen=True, slots=True)
class BadRecordTable:
    """A table for bad records, as `bad_records=` of `StreamingConnection.connect` and `ingest_files`.

    A row is written in the transaction that skipped the record, so it is visible exactly once, if and when the other
    rows of that transaction are. Its columns are `table_name`, `file` and `line` (of `ingest_files`), `record_number`
    (in the transaction), `byte_offset`, `reason`, `record` (the record as it was written, binary) and `written_at`
    (UTC). The rows are kept in memory until the commit.

    Attributes:
        name: `"database.table"`. The table is created if it is missing. One that exists may lack some of the columns,
            but has no others, no partitions and no buckets.
        located: Adds what is known of a record's origin. For the library's own use.
    """

    name: str | TableName
    located: Callable[[BadRecord], BadRecord] = dataclasses.field(default=lambda record: record, repr=False)


class BadRecordRows:
    """The rows of one connection for its `BadRecordTable`.

    Raises:
        ConfigurationError: The table has other columns, partitions or buckets, or is the data table itself.
        StreamingError: The table cannot be streamed into.
    """

    def __init__(
        self, client: MetastoreClient, target: BadRecordTable, data: TableName, settings: StreamingSettings
    ) -> None:
        self._located = target.located
        self._data = data
        self._settings = settings
        self._rows: list[dict[str, Any]] = []
        name = TableName.of(target.name)
        if name == data:
            raise ConfigurationError(f"bad_records: {name} is the table that the records are for: give another one")
        self.table = _bad_record_table(client, name)

    def lock_component(self) -> LockComponent:
        """SHARED_READ, as for every INSERT."""
        name = self.table.name
        return LockComponent(
            LockType.SHARED_READ, LockLevel.TABLE, name.database, name.table, operation_type=DataOperationType.INSERT
        )

    def begin(self) -> None:
        """Forget the rows of the last transaction."""
        self._rows = []

    def handle(self, records: Sequence[BadRecord]) -> None:
        """Keep a row for each record."""
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        self._rows.extend(self._row(self._located(record), now) for record in records)

    def flush(self) -> None:
        """Nothing to do: the rows are written by the commit."""

    def stage(self, write_id: WriteId, staging: Location) -> tuple[StagedFile, DeltaWriter] | None:
        """Write the rows to a hidden file, to be published with the data; None if there are none."""
        if not self._rows:
            return None
        names = [column.name for column in self.table.columns]
        rows = [{name: row[name] for name in names} for row in self._rows]
        batch = pa.RecordBatch.from_pylist(rows, arrow_schema(self.table.columns))
        delta = DeltaWriter(DeltaTarget(self.table, write_id, staging, is_committed_here=True), self._settings)
        return delta.finish(GroupKey((), 0), [], [batch]), delta

    def _row(self, record: BadRecord, now: dt.datetime) -> dict[str, Any]:
        return {
            "table_name": str(self._data),
            "file": None if record.file is None else _text(record.file),
            "line": record.line,
            "record_number": record.record,
            "byte_offset": record.byte_offset,
            "reason": _text(_origin(record.data) + record.reason),
            "record": _as_bytes(record.data),
            "written_at": now,
        }


def _bad_record_table(client: MetastoreClient, name: TableName) -> Table:
    """The table, which is created if it is missing."""
    try:
        table = client.get_table(name)
    except NoSuchObject:
        client.create_table(name, columns=BAD_RECORD_COLUMNS, if_not_exists=True)
        table = client.get_table(name)
    check_streamable(table)
    others = [
        column.name for column in table.columns if BAD_RECORD_COLUMNS.get(column.name.lower()) != column.type.lower()
    ]
    if others or table.partition_keys or table.num_buckets > 0:
        needed = ", ".join(f"{column} {type_}" for column, type_ in BAD_RECORD_COLUMNS.items())
        raise ConfigurationError(
            f"bad_records: {name} cannot hold bad records"
            + (f", because of its column {others[0]!r}" if others else "")
            + f". It may have these columns, and neither partitions nor buckets: {needed}"
        )
    return table


def _text(text: str) -> str:
    """The text without what UTF-8 cannot encode, such as bytes in the name of a file."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_message(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("topic", "partition", "offset", "value"))


def _origin(data: Any) -> str:
    """The place of a message, before the reason."""
    return f"{data.topic}, partition {data.partition}, offset {data.offset}: " if _is_message(data) else ""


def _as_bytes(data: Any) -> bytes | None:
    """The record itself if it is bytes, or the value of a message; a row or object as JSON or text."""
    if isinstance(data, bytes):
        return data
    if _is_message(data):
        return None if data.value is None else bytes(data.value)
    if isinstance(data, pa.RecordBatch):
        data = python_row(data)
    try:
        return json.dumps(data, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")
    except (TypeError, ValueError, RecursionError):
        return repr(data).encode("utf-8", "backslashreplace")
