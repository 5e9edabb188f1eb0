"""What a Spark sink commits with each micro-batch, and whether a batch that comes is still to be written.

Spark repeats a batch, with its id and its rows, until the batch is in the commit log of the checkpoint. A checkpoint
is known by its query id. So the progress of a sink is one source, whose position names the query and its last batch.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from hive_ingest.connection import SourceProgress, StreamingConnection
from hive_ingest.errors import SinkConflict

_log = logging.getLogger(__name__)

#: The only source of a Spark sink: one query writes to it at a time.
SPARK_SOURCE: Final = "spark"

_ADOPT = "bind the sink to this query on purpose with `hive-ingest sinks adopt`"


def position_of(query_id: str, batch_id: int) -> dict[str, Any]:
    """The position to commit with a batch, as JSON. `batch_id` -1 stands before the first batch of a query."""
    return {"query_id": query_id, "batch_id": batch_id}


def bound_to(position: object) -> tuple[str, int] | None:
    """The query id and the batch id of a position; None for another kind of pipeline's. Reverse of `position_of`."""
    match position:
        case {"query_id": str(query_id), "batch_id": int(batch_id)}:
            return query_id, batch_id
    return None


def is_new_batch(connection: StreamingConnection, query_id: str, batch_id: int, sink: str) -> bool:
    """`decide`, in the open transaction of a connection that owns SPARK_SOURCE.

    Warns once, before the first batch, when others write under the sink's name: each source has its own progress and
    locks, so nothing is lost or doubled, unless they bring the same records.
    """
    last = connection.progress[SPARK_SOURCE]
    is_new = decide(last, query_id, batch_id, sink)
    if last is None and connection.other_sources:
        _log.warning(
            "sink %r also has progress of %d other sources, such as %r: if these bring the records of query %s too, "
            "they will be in %s twice; `hive-ingest sinks show` tells more",
            sink,
            len(connection.other_sources),
            connection.other_sources[0],
            query_id,
            connection.table.name,
        )
    return is_new


def decide(last: SourceProgress | None, query_id: str, batch_id: int, sink: str) -> bool:
    """Whether the batch is to be written (True), or was committed before and is to be skipped (False).

    Asked with the sink's lock held, with the latest progress. Batches may be missing between: a query need not hand
    every one to its sink. Raises SinkConflict for another query's progress, and for a sink without any when the
    query's checkpoint is not new: its batch may have been committed under another sink name.
    """
    if last is None:
        _refuse_late_start(query_id, batch_id, sink)
        return True
    owner, last_batch = _parse(last, sink)
    if owner != query_id:
        raise SinkConflict(
            f"sink {sink!r} belongs to Spark query {owner}, which committed batch {last_batch} at {last.written_at} "
            f"UTC, and this is batch {batch_id} of query {query_id}: the checkpoint is another one, or two queries "
            "share the sink's name, so rows could be written twice or be lost. Go back to the old checkpoint, use "
            f"another sink name, or {_ADOPT}"
        )
    return batch_id > last_batch


def _refuse_late_start(query_id: str, batch_id: int, sink: str) -> None:
    if batch_id == 0:
        return
    raise SinkConflict(
        f"sink {sink!r} has no progress yet, and query {query_id} comes with batch {batch_id}: its checkpoint was used "
        "before, with another sink or with none, so this batch may be written already. Give the sink its old name, "
        f"start with a new checkpoint, or {_ADOPT}"
    )


def _parse(last: SourceProgress, sink: str) -> tuple[str, int]:
    bound = bound_to(last.position)
    if bound is None:
        raise SinkConflict(
            f"the progress of sink {sink!r} is no Spark query's: {last.position!r}. Use another sink name, or {_ADOPT}"
        )
    return bound
