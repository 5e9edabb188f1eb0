"""Row ids of files without the ACID columns: "original" files, as Hive calls them.

They date from before the table was transactional, or are from LOAD DATA. Their rows get ids while they are read: one
write id and bucket property for the file, and row ids by position, counted across the files of a bucket
(Hive: `OrcRawRecordMerger.OriginalReaderPair`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hive_ingest.orc.acid_schema import BUCKET, INSERT, OPERATION, ORIGINAL_WRITE_ID, ROW, ROW_ID, WRITE_ID, Key
from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.storage import FileStore

_TYPES = {OPERATION: pa.int32(), ORIGINAL_WRITE_ID: pa.int64(), BUCKET: pa.int32(), WRITE_ID: pa.int64()}


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """The ids of the rows of one file.

    Attributes:
        write_id: Of all of them; 0 for rows from before the table was transactional.
        bucket_property: Of all of them.
        first_row_id: Of the first row; the others follow.
    """

    write_id: int
    bucket_property: int
    first_row_id: int

    def bounds(self, tail: OrcTail) -> list[tuple[Key, Key]]:
        """The first and the last key of each stripe; of one without rows, the last is below the first."""
        found, first = [], self.first_row_id
        for stripe in tail.footer.stripes:
            last = first + stripe.rows - 1
            found.append(((self.write_id, self.bucket_property, first), (self.write_id, self.bucket_property, last)))
            first = last + 1
        return found

    def acid_columns(self, names: Sequence[str], start: int, count: int) -> dict[str, pa.Array]:
        """The named ACID columns of `count` rows, from row `start` of the file on."""
        values = {
            OPERATION: INSERT,
            ORIGINAL_WRITE_ID: self.write_id,
            BUCKET: self.bucket_property,
            WRITE_ID: self.write_id,
        }
        row_ids = np.arange(count, dtype=np.int64) + (self.first_row_id + start)
        return {
            name: pa.array(row_ids) if name == ROW_ID else pa.repeat(pa.scalar(values[name], _TYPES[name]), count)
            for name in names
            if name != ROW
        }


def count_rows(store: FileStore, path: str) -> int:
    """How many rows a file has, by its footer. Raises CorruptFile, StreamingIOFailure."""
    with store.open_input(path) as source:
        return read_tail(source, path).footer.rows
