"""What the checkpoint of a streaming query says: its id, and which batches it knows. Needs no Spark.

<checkpoint>/metadata         the query's id
<checkpoint>/offsets/<batch>  written when a batch is planned: what it reads, and when it was planned
<checkpoint>/commits/<batch>  written when a batch is done
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Self

from hive_ingest.errors import ConfigurationError
from hive_ingest.storage import Location, io_errors

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch as Spark planned it, from its entry in the offset log.

    Spark repeats a batch only from that entry. Without it (a checkpoint restored from an older copy, or one that lost
    its newest files in a crash) it plans another batch under the same id, which may hold other rows. Offsets alone do
    not distinguish the two: that of a file source is a number of the checkpoint's own count. So the fingerprint also
    covers the time of planning. The entry's other fields (watermark, Spark's settings) are left out.

    Attributes:
        fingerprint: The same for two plans only if they are one.
        planned_at: UTC; None when the entry does not say.
    """

    fingerprint: str
    planned_at: dt.datetime | None

    @classmethod
    def parse(cls, entry: str) -> Self:
        """From the text of the entry: a version, metadata as JSON, and a line for each source.

        Raises:
            ConfigurationError: It has another form.
        """
        lines = entry.splitlines()
        try:
            metadata = json.loads(lines[1])
            planned_ms = metadata.get("batchTimestampMs")
        except (IndexError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"{entry[:200]!r} is not an entry of a Spark offset log") from error
        offsets = sorted(lines[2:]) if lines[0] == "v2" else lines[2:]  # v2 names its sources, v1 counts them
        content = json.dumps([planned_ms, *map(_canonical, offsets)], sort_keys=True)
        planned_at = _utc(planned_ms) if isinstance(planned_ms, int) else None
        return cls(hashlib.sha256(content.encode()).hexdigest()[:32], planned_at)


def _canonical(offset: str) -> Any:
    """Sources write JSON, some with their keys in no fixed order; "-" stands for a source without an offset."""
    try:
        return json.loads(offset)
    except ValueError:
        return offset


def _utc(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was read.

    `last_committed` and `last_planned` are batch ids, -1 when there is none. A batch that is planned and not
    committed is run, or run again, when the query starts.
    """

    location: str
    query_id: str
    last_committed: int
    last_planned: int

    def plan(self, batch_id: int) -> BatchPlan | None:
        """The plan of a batch; None when the checkpoint has none, or no longer.

        Raises:
            StreamingIOFailure: It cannot be read.
        """
        entry = Location.of(self.location) / "offsets" / str(batch_id)
        return BatchPlan.parse(_read(entry).decode()) if entry.exists() else None


def read_checkpoint(location: str) -> Checkpoint:
    """Read the folder that was given to Spark as `checkpointLocation`, a path or a URI (see `Location.of`).

    Raises:
        ConfigurationError: It is not a checkpoint.
        StreamingIOFailure: It cannot be read.
    """
    root = Location.of(location)
    query_id = _query_id(location, root / "metadata")
    committed, planned = (_last_batch(root / log) for log in ("commits", "offsets"))
    return Checkpoint(location, query_id, committed, planned)


def _query_id(checkpoint: str, file: Location) -> str:
    if not file.exists():
        raise ConfigurationError(
            f"{checkpoint!r} is not the checkpoint of a streaming query: there is no {str(file)!r}. Give the folder "
            "that the query has as checkpointLocation, and start the query once if it is new"
        )
    try:
        match json.loads(_read(file)):
            case {"id": str(query_id)} if query_id:
                return query_id
    except ValueError:
        pass
    raise ConfigurationError(f"{str(file)!r} does not name a streaming query: give another folder, or the query's id")


def _read(file: Location) -> bytes:
    with io_errors("read", str(file)), file.open_input() as source:
        return bytes(source.read())


def _last_batch(folder: Location) -> int:
    """Beside batches lie checksums and temporary files, all with other characters than digits in their names."""
    names = [entry.name for entry in folder.list(missing_ok=True) if not entry.is_folder]
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=NO_BATCH)
