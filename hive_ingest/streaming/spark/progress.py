"""What a Spark sink commits with each micro-batch, and whether a batch that comes is still to be written.

Spark repeats a batch, from its entry in the checkpoint's offset log, until it is in the commit log. A checkpoint is
known by its query id. So the progress of a sink is one source, whose position names the query, its last batch, and
the plan of that batch. Needs no Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, Self

from hive_ingest.connection import SourceProgress, StreamingConnection
from hive_ingest.errors import SinkConflict
from hive_ingest.plurals import counted
from hive_ingest.streaming.spark.checkpoint import BatchPlan

_log = logging.getLogger(__name__)

#: The only source of a Spark sink: one query writes to it at a time.
SPARK_SOURCE: Final = "spark"

_ADOPT = "bind the sink to this query on purpose with `hive-ingest sinks adopt`"


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A batch that Spark runs, for the first time or again."""

    query_id: str
    batch_id: int
    plan: BatchPlan


@dataclass(frozen=True, slots=True)
class SparkPosition:
    """The position of a Spark sink: its query, and the last batch that must not be written again.

    Attributes:
        query_id: The only query that may write.
        batch_id: -1 stands before the first batch.
        fingerprint: Of the plan of that batch (`BatchPlan`). None in positions that were committed before there were
            fingerprints, and when an operator has named the batch and nothing knows its plan.
    """

    query_id: str
    batch_id: int
    fingerprint: str | None = None

    @classmethod
    def after(cls, batch: MicroBatch) -> Self:
        """The position to commit with a batch."""
        return cls(batch.query_id, batch.batch_id, batch.plan.fingerprint)

    @classmethod
    def parse(cls, position: object) -> Self | None:
        """Reverse of `to_json`; None for the position of another kind of pipeline."""
        match position:
            case {"query_id": str(query_id), "batch_id": int(batch_id), "fingerprint": str(fingerprint)}:
                return cls(query_id, batch_id, fingerprint)
            case {"query_id": str(query_id), "batch_id": int(batch_id)}:
                return cls(query_id, batch_id)
        return None

    def to_json(self) -> dict[str, Any]:
        """What the progress row holds."""
        known = {"query_id": self.query_id, "batch_id": self.batch_id}
        return known if self.fingerprint is None else {**known, "fingerprint": self.fingerprint}


def is_new_batch(connection: StreamingConnection, batch: MicroBatch, sink: str) -> bool:
    """`decide`, in the open transaction of a connection that owns SPARK_SOURCE.

    Warns once, before the first batch, when others write under the sink's name: each source has its own progress and
    locks, so nothing is lost or doubled, unless they bring the same records.
    """
    last = connection.progress[SPARK_SOURCE]
    is_new = decide(last, batch, sink)
    if not is_new:
        _log.warning(
            "batch %d of query %s was committed to sink %r before and is skipped", batch.batch_id, batch.query_id, sink
        )
    if last is None and connection.other_sources:
        _log.warning(
            "sink %r also has progress of %s, such as %r: if these bring the records of query %s too, "
            "they will be in %s twice; see `hive-ingest sinks show`",
            sink,
            counted(len(connection.other_sources), "other source"),
            connection.other_sources[0],
            batch.query_id,
            connection.table.name,
        )
    return is_new


def decide(last: SourceProgress | None, batch: MicroBatch, sink: str) -> bool:
    """Whether the batch is to be written (True), or was committed before and is to be skipped (False).

    Asked with the sink's lock held, with the latest progress. A batch is skipped only if it is the very one that was
    committed last: its id is the last one, and so is its plan. A position without a fingerprint was committed before
    there were any, or by an operator; the batch is the same then if it was planned before the position was written.
    Batches may be missing between: a query need not pass every one to its sink.

    Raises:
        SinkConflict: The progress is another query's, or of a later batch, or of another batch under the same id. Or
            there is none and the query's checkpoint is not new: its batch may have been committed under another sink
            name.
    """
    if last is None:
        _refuse_late_start(batch, sink)
        return True
    position = SparkPosition.parse(last.position)
    if position is None:
        raise SinkConflict(
            f"the progress of sink {sink!r} is not that of a Spark query: {last.position!r}. Use another sink name, or "
            f"{_ADOPT}"
        )
    if position.query_id != batch.query_id:
        raise SinkConflict(
            f"sink {sink!r} belongs to Spark query {position.query_id}, which committed batch {position.batch_id} at "
            f"{last.written_at} UTC, and this is batch {batch.batch_id} of query {batch.query_id}: the checkpoint is "
            "another one, or two queries share the sink's name, so rows could be written twice or be lost. Go back to "
            f"the old checkpoint, use another sink name, or {_ADOPT}"
        )
    if batch.batch_id > position.batch_id:
        return True
    if batch.batch_id < position.batch_id or not _is_same_plan(position, batch.plan, last):
        raise _replanned(position, batch, last, sink)
    return False


def _is_same_plan(position: SparkPosition, plan: BatchPlan, last: SourceProgress) -> bool:
    if position.fingerprint is not None:
        return position.fingerprint == plan.fingerprint
    return plan.planned_at is not None and plan.planned_at <= last.written_at


def _replanned(position: SparkPosition, batch: MicroBatch, last: SourceProgress, sink: str) -> SinkConflict:
    what = (
        f"this is batch {batch.batch_id}"
        if batch.batch_id < position.batch_id
        else f"this batch of the same number was planned again, at {batch.plan.planned_at} UTC"
    )
    return SinkConflict(
        f"sink {sink!r} has committed batch {position.batch_id} of query {batch.query_id} at {last.written_at} UTC, "
        f"and {what}: the checkpoint was restored from an older copy, or lost its newest entries in a crash, or "
        "another driver runs the query. Some of the rows may be in the table, others not, so the batch is neither "
        "written nor skipped. Restore the newest checkpoint; or, to write the batch with the rows that come twice, "
        f"`hive-ingest sinks adopt … --checkpoint … --batch-id {batch.batch_id - 1}`; or, to leave the batch out, "
        f"the same with --batch-id {batch.batch_id}"
    )


def _refuse_late_start(batch: MicroBatch, sink: str) -> None:
    if batch.batch_id == 0:
        return
    raise SinkConflict(
        f"sink {sink!r} has no progress yet, and query {batch.query_id} comes with batch {batch.batch_id}: its "
        "checkpoint was used before, with another sink or with none, so this batch may be written already. Give the "
        f"sink its old name, start with a new checkpoint, or {_ADOPT}"
    )
