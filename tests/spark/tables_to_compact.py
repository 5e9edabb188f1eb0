"""Tables whose compaction has several tasks, and a bucket that is cut into ranges."""

from __future__ import annotations

from collections import Counter

from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.storage import Location
from hive_ingest.transactions.staging import STAGING_FOLDER
from tests.support.compactions import Compacted

#: Rows of an insert: two stripes of the smallest size that there are.
ROWS = 6000
#: So large that the stripes of `fill` are encoded again.
STRIPE_BYTES = 1_000_000
#: So small that each bucket of `fill` is cut into three ranges at least.
SPLIT_BYTES = 6_000


def fill(table: Compacted) -> None:
    """Rows of four transactions, one of them aborted, and delete events."""
    for first in range(0, 3 * ROWS, ROWS):
        table.insert(*range(first, first + ROWS))
    table.aborted_insert(-1, -2)  # takes two write ids
    table.delete(table.row_id(0), table.row_id(ROWS), table.row_id(2 * ROWS - 1))
    sizes = Counter[str]()
    for path in table.folder.glob("delta_*/bucket_*"):
        sizes[path.name] += path.stat().st_size
    assert min(sizes.values()) > 2 * SPLIT_BYTES


def output_files(table: Compacted) -> dict[str, OrcTail]:
    """The tails of all bucket files, by their path without the compaction's transaction."""
    found = {}
    for path in sorted(table.folder.glob("*/bucket_*")):
        with Location.of(str(path)).open_input() as source:
            name = path.parent.name.partition("_v")[0]
            found[f"{name}/{path.name}"] = read_tail(source, str(path))
    return found


def hidden(table: Compacted) -> list[str]:
    folder = table.folder / STAGING_FOLDER
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
