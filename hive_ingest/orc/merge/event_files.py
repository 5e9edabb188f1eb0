"""Files of delete events: read for what they delete, and merged into one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.errors import CorruptFile
from hive_ingest.model import WriteId
from hive_ingest.orc.acid_schema import DELETE, OPERATION, WRITE_ID
from hive_ingest.orc.delete_events import DeleteEvents, RowIds
from hive_ingest.orc.merge.inputs import KEY_COLUMNS
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.writer.delete_writer import DeleteEventWriter
from hive_ingest.orc.writer.file_writer import AcidFile, FileOptions
from hive_ingest.storage import FileStore, Location


@dataclass(frozen=True, slots=True)
class _Events:
    """Deleted rows, and the write ids that deleted them."""

    rows: RowIds
    write_ids: npt.NDArray[np.int64]


def read_delete_events(
    store: FileStore,
    files: Sequence[FileToRead],
    valid_write_ids: ValidWriteIdList,
    executor: Executor,
    done: Callable[[FileToRead], None] = lambda file: None,
    check: Callable[[], None] = lambda: None,
) -> DeleteEvents | None:
    """What the files delete, except by write ids that are not valid; None without any event.

    Takes 24 bytes an event; `done` and `check` are those of `merge_delete_events`. Raises CorruptFile,
    StreamingIOFailure.
    """
    events = _read(store, files, valid_write_ids, executor, done, check)
    return DeleteEvents(events.rows) if len(events.rows) else None


def merge_delete_events(
    store: FileStore,
    files: Sequence[FileToRead],
    target: Location,
    *,
    schema: pa.Schema,
    valid_write_ids: ValidWriteIdList,
    executor: Executor,
    done: Callable[[FileToRead], None] = lambda file: None,
    check: Callable[[], None] = lambda: None,
    **options: Unpack[FileOptions],
) -> AcidFile | None:
    """Merge files of delete events of one bucket into the new file `target`; the files stay.

    A row that several transactions deleted has one event in the result, the first one: each of them is committed for
    everyone who sees the result. Takes 32 bytes an event.

    Args:
        store: The store of the files.
        files: What to merge, in any order.
        target: Where there is no file yet.
        schema: The table's columns.
        valid_write_ids: Events of other write ids are left out.
        executor: Runs the reading; not the one that runs this call.
        done: Called after each file.
        check: Called before each stripe, by several threads. What it raises ends the merge.
        **options: As for `DeleteEventWriter`.

    Returns:
        The file; None if no event is left, and then there is none.

    Raises:
        CorruptFile: A file is damaged. In each case nothing is left of the target.
        StreamingIOFailure: A file cannot be read or written.
    """
    events = _first_of_each_row(_read(store, files, valid_write_ids, executor, done, check))
    if not len(events.rows):
        return None
    with DeleteEventWriter(target.store, target.path, schema=schema, write_id=WriteId(0), **options) as writer:
        writer.write(events.rows, write_ids=events.write_ids)
        return writer.close()


def _read(
    store: FileStore,
    files: Sequence[FileToRead],
    valid_write_ids: ValidWriteIdList,
    executor: Executor,
    done: Callable[[FileToRead], None],
    check: Callable[[], None],
) -> _Events:
    parts = []
    for file, part in zip(
        files, executor.map(lambda file: _read_file(store, file, valid_write_ids, check), files), strict=True
    ):
        parts.append(part)
        done(file)
    return _Events(
        RowIds.concat([part.rows for part in parts]),
        np.concatenate([np.zeros(0, np.int64), *(part.write_ids for part in parts)]),
    )


def _read_file(
    store: FileStore, file: FileToRead, valid_write_ids: ValidWriteIdList, check: Callable[[], None]
) -> _Events:
    rows, write_ids = [], []
    with AcidFileReader(store, file) as reader:
        for stripe in range(reader.num_stripes):
            check()
            found = reader.read(stripe, [OPERATION, *KEY_COLUMNS, WRITE_ID], [])
            if (found.numbers(OPERATION) != DELETE).any():
                raise CorruptFile(
                    f"{file.path!r} is in a folder of delete events, but holds rows: restore it from a copy"
                )
            deleted_by = found.numbers(WRITE_ID)
            keep = valid_write_ids.valid_mask(deleted_by)
            rows.append(found.row_ids().select(keep))
            write_ids.append(deleted_by[keep])
    return _Events(RowIds.concat(rows), np.concatenate([np.zeros(0, np.int64), *write_ids]))


def _first_of_each_row(events: _Events) -> _Events:
    """In ascending order of the deleted rows, each once."""
    rows = events.rows
    order = np.lexsort((events.write_ids, rows.row_ids, rows.buckets, rows.write_ids))
    rows, write_ids = rows.take(order), events.write_ids[order]
    is_first = rows.is_new()
    return _Events(rows.select(is_first), write_ids[is_first])
