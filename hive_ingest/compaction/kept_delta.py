"""Which deltas a minor compaction merges.

While rows are streamed in, a minor compaction would write the result of the previous one again, each time a little
larger: over n compactions about n²/2 times the rows of one. So a result that is much larger than all deltas after it
is left as it is, as in size-tiered compaction. The range of write ids of the output then begins after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from hive_ingest.acid import DeltaName
from hive_ingest.config import MIB

_Name = TypeVar("_Name", bound=DeltaName)

#: Property of a request: its minor compaction may leave a large delta as it is. Others merge all deltas.
MAY_KEEP: Final = "hive-ingest.minor.may.keep.large.delta"
#: What such a compaction leaves at most: a large delta and a merged one, each with a delete delta.
MOST_DELTAS_LEFT = 4


@dataclass(frozen=True, slots=True)
class KeptDelta:
    """When a minor compaction leaves the result of an earlier one as it is.

    Attributes:
        least_bytes: It has at least so many bytes, its delete delta included: writing less again costs little.
        least_ratio: It has at least so many times the bytes of all deltas after it.

    The metadata of small files does not count (`content_bytes`).
    """

    least_bytes: int = MIB // 4
    least_ratio: float = 4.0

    def without_kept(self, names: Sequence[_Name], sizes: Mapping[str, int]) -> list[_Name]:
        """The folders to merge.

        Args:
            names: The deltas and delete deltas of a folder.
            sizes: The bytes in each folder, by name, without the metadata of small files.
        """
        first = min(names, key=lambda name: (name.min_write_id, -name.max_write_id))
        kept = [name for name in names if name.min_write_id <= first.max_write_id]
        rest = [name for name in names if name.min_write_id > first.max_write_id]
        if not _are_of_one_compaction(kept) or not can_merge(rest):
            return list(names)
        kept_bytes, rest_bytes = (sum(sizes.get(str(name), 0) for name in group) for group in (kept, rest))
        is_kept = kept_bytes >= self.least_bytes and kept_bytes >= self.least_ratio * rest_bytes
        return rest if is_kept else list(names)


def can_merge(names: Sequence[DeltaName]) -> bool:
    """Whether there are two deltas, or two delete deltas."""
    kinds = [type(name) for name in names]
    return any(kinds.count(kind) > 1 for kind in set(kinds))


def _are_of_one_compaction(names: Sequence[DeltaName]) -> bool:
    """Its delta, or delete delta, or both: they hold no aborted rows, and nothing else has their write ids."""
    first = names[0]
    origin = first.min_write_id, first.max_write_id, first.visibility_txn_id
    return first.visibility_txn_id is not None and all(
        (name.min_write_id, name.max_write_id, name.visibility_txn_id) == origin for name in names
    )
