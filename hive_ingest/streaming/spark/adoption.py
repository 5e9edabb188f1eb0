"""Bind a sink to another Spark query: after a new or a restored checkpoint, or a change of the sink's name.

Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hive_ingest.config import StreamingSettings
from hive_ingest.connection import SourceProgress, StreamingConnection, progress_rows, progress_table_name
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.reader import newest_rows
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.streaming.spark.checkpoint import NO_BATCH, Checkpoint, read_checkpoint
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, SparkPosition

_AGENT_INFO = "hive-ingest sinks"


@dataclass(frozen=True, slots=True)
class Adoption:
    """The result of `adopt_query`.

    Attributes:
        before: The progress that the sink had of Spark; None when it had none.
        query_id: The only query that may write from now on.
        batch_id: Of its batches, those above this one are written (-1: all).
        last_written: Its last batch that the sink had committed before; None when there is none.
        is_changed: False when the sink was bound exactly so before, and nothing was committed.
    """

    progress_table: TableName
    before: SourceProgress | None
    query_id: str
    batch_id: int
    last_written: int | None
    is_changed: bool


def adopt_query(
    client: MetastoreClient,
    table: str | TableName,
    sink: str,
    query_id: str,
    batch_id: int | None = None,
    *,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
) -> Adoption:
    """Bind a sink to a Spark query: from now on only that query may write.

    A sink that does not exist yet is created. First stop the query that wrote before: between two batches it holds no
    lock, so it cannot be detected, and its next batch is refused.

    Args:
        client: Of the metastore.
        table: The table that the sink writes.
        sink: Its name.
        query_id: Of the query that is to write.
        batch_id: The last batch of the query that must not be written (again), -1 for none. By default the last one
            that the sink has committed for this query, so that a query which comes back doubles nothing.
        settings: Of the connection.

    Raises:
        SinkConflict: The sink belongs to another table.
        SinkInUse: A batch was being written, and still was after the wait for the lock.
        InvalidTable, ConfigurationError: The table, or an argument.
        StreamingError: What a commit raises.
    """
    if not query_id:
        raise ConfigurationError("the query id is empty: give the id in the checkpoint's metadata")
    return _adopt(client, TableName.of(table), sink, _Choice(query_id, batch_id, None), settings)


def adopt_checkpoint(
    client: MetastoreClient,
    table: str | TableName,
    sink: str,
    checkpoint: str | Checkpoint,
    batch_id: int | None = None,
    *,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
) -> Adoption:
    """`adopt_query`, of the query whose checkpoint this is.

    Args:
        client: Of the metastore.
        table: The table that the sink writes.
        sink: Its name.
        checkpoint: A path or a URI, or what `read_checkpoint` returned.
        batch_id: The last batch that must not be written (again), -1 for none. By default the later one of two: the
            last batch in the checkpoint's commits, and the last one that the sink has committed for this query, which
            Spark may not have noted any more.
        settings: Of the connection.

    Raises:
        ConfigurationError: Also when the batch is one that the checkpoint does not have: the checkpoint is an older
            copy, and the query will plan other batches under the numbers that are missing.
        StreamingError: What `adopt_query` and `read_checkpoint` raise.
    """
    found = checkpoint if isinstance(checkpoint, Checkpoint) else read_checkpoint(checkpoint)
    return _adopt(client, TableName.of(table), sink, _Choice(found.query_id, batch_id, found), settings)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The operator's request."""

    query_id: str
    batch_id: int | None
    checkpoint: Checkpoint | None

    def position(self, written: SparkPosition | None) -> SparkPosition:
        """The position to bind the sink to; `written` is the last one that it has committed for this query."""
        if self.batch_id is None:
            known = SparkPosition(self.query_id, self.checkpoint.last_committed if self.checkpoint else NO_BATCH)
            if written is not None and written.batch_id >= known.batch_id:
                return self._checked(written)
            return self._planned(known)
        if written is not None and written.batch_id == self.batch_id and self.checkpoint is None:
            return written
        return self._planned(self._checked(SparkPosition(self.query_id, self.batch_id)))

    def _checked(self, position: SparkPosition) -> SparkPosition:
        if self.checkpoint is not None and position.batch_id > self.checkpoint.last_planned:
            last = self.checkpoint.last_planned
            raise ConfigurationError(
                f"batch {position.batch_id} is not in the checkpoint {self.checkpoint.location!r}, whose last one is "
                f"{last}: it is an older copy, or lost its newest entries, and the query will plan other rows under "
                f"the number {last + 1}. Restore the newest checkpoint, or give --batch-id {last} to have batches from "
                f"{last + 1} on written, with the rows that are in the table already"
            )
        return position

    def _planned(self, position: SparkPosition) -> SparkPosition:
        plan = self.checkpoint.plan(position.batch_id) if self.checkpoint and position.batch_id > NO_BATCH else None
        return SparkPosition(position.query_id, position.batch_id, plan.fingerprint) if plan else position


def _adopt(
    client: MetastoreClient,
    table: TableName,
    sink: str,
    choice: _Choice,
    settings: StreamingSettings | Mapping[str, Any] | None,
) -> Adoption:
    if choice.batch_id is not None and choice.batch_id < NO_BATCH:
        raise ConfigurationError(f"batch id {choice.batch_id}: give -1 or more")
    with StreamingConnection.connect(
        client,
        database=table.database,
        table=table.table,
        record_writer=ArrowWriter(),
        agent_info=_AGENT_INFO,
        settings=settings,
        sink=sink,
        sources=[SPARK_SOURCE],
    ) as connection:
        adopting = _Adopting(client, progress_table_name(table.database, sink), choice)
        connection.seek(adopting)
    return adopting.adoption


class _Adopting:
    """Called while the sink is locked, so nobody moves it between the look at it and the commit."""

    adoption: Adoption

    def __init__(self, client: MetastoreClient, progress_table: TableName, choice: _Choice) -> None:
        self._client = client
        self._progress_table = progress_table
        self._choice = choice

    def __call__(self, progress: Mapping[str, SourceProgress | None]) -> dict[str, Any]:
        """The position to commit; none when it is the present one."""
        before = progress[SPARK_SOURCE]
        written = self._last_written() if before is not None else None
        position = self._choice.position(written)
        is_changed = before is None or SparkPosition.parse(before.position) != position
        self.adoption = Adoption(
            self._progress_table,
            before,
            position.query_id,
            position.batch_id,
            written.batch_id if written is not None else None,
            is_changed,
        )
        return {SPARK_SOURCE: position.to_json()} if is_changed else {}

    def _last_written(self) -> SparkPosition | None:
        """From the sink's history: other queries may have come since."""
        table = self._client.get_table(self._progress_table)
        (snapshot,) = self._client.get_valid_write_ids([self._progress_table])
        for batch in newest_rows(self._client, table, snapshot):
            rows = [row for row, _ in progress_rows(batch) if row.source == SPARK_SOURCE]
            ours = [
                (row.sequence, position)
                for row in rows
                if (position := SparkPosition.parse(row.position)) and position.query_id == self._choice.query_id
            ]
            if ours:
                return max(ours, key=lambda found: found[0])[1]
        return None
