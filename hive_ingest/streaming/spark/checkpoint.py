"""What the checkpoint of a streaming query tells: whose it is, and which batches it knows. Needs no Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hive_ingest.errors import ConfigurationError
from hive_ingest.storage import FileStore, io_errors, open_store

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Spark keeps the query's id in `metadata`, a batch that is planned in `offsets`, one that is done in `commits`.

    `last_committed` and `last_planned` are batch ids, -1 when there is none. A batch that is planned and not
    committed comes (again) when the query starts.
    """

    location: str
    query_id: str
    last_committed: int
    last_planned: int


def read_checkpoint(location: str) -> Checkpoint:
    """Read the folder that was given to Spark as `checkpointLocation`, a path or a URI (see `open_store`).

    Raises ConfigurationError when it is no checkpoint, StreamingIOFailure when it cannot be read.
    """
    store, path = open_store(location)
    query_id = _query_id(store, location, f"{path}/metadata")
    committed, planned = (_last_batch(store, f"{path}/{log}") for log in ("commits", "offsets"))
    return Checkpoint(location, query_id, committed, planned)


def _query_id(store: FileStore, location: str, path: str) -> str:
    if not store.exists(path):
        raise ConfigurationError(
            f"{location!r} is no checkpoint of a streaming query, there is no {path!r}: give the folder that the query "
            "has as checkpointLocation, and start the query once if it is new"
        )
    with io_errors("read", path), store.open_input(path) as file:
        data = file.read()
    try:
        match json.loads(data):
            case {"id": str(query_id)} if query_id:
                return query_id
    except ValueError:
        pass
    raise ConfigurationError(f"{path!r} does not name a streaming query: give another folder, or the query's id")


def _last_batch(store: FileStore, folder: str) -> int:
    """Beside batches lie checksums and temporary files, all with other characters than digits in their names."""
    names = [entry.name for entry in store.list(folder, missing_ok=True) if not entry.is_folder]
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=NO_BATCH)
