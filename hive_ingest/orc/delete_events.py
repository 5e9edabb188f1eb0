"""Delete events of one partition, and the rows that they delete.

An event names a row by its ROW__ID: original write id, bucket property, row id. Rows of a file come in runs of one
(write id, bucket property), so a pair is looked up once per run, and only rows of runs with events are looked up
one by one (Hive: `VectorizedOrcAcidRowBatchReader.ColumnizedDeleteEventRegistry`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from hive_ingest.orc.acid_schema import Key

_Int64Array = npt.NDArray[np.int64]
_Int32Array = npt.NDArray[np.int32]
_BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowIds:
    """ROW__IDs of many rows as three arrays of equal length."""

    write_ids: _Int64Array
    buckets: _Int32Array
    row_ids: _Int64Array

    def __len__(self) -> int:
        return len(self.write_ids)

    @classmethod
    def concat(cls, parts: list[Self]) -> Self:
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(part.write_ids for part in parts)]),
            np.concatenate([np.zeros(0, np.int32), *(part.buckets for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(part.row_ids for part in parts)]),
        )

    def select(self, keep: _BoolArray) -> RowIds:
        return RowIds(self.write_ids[keep], self.buckets[keep], self.row_ids[keep])

    def take(self, order: npt.NDArray[np.int64]) -> RowIds:
        return RowIds(self.write_ids[order], self.buckets[order], self.row_ids[order])

    def slice(self, start: int, end: int) -> RowIds:
        return RowIds(self.write_ids[start:end], self.buckets[start:end], self.row_ids[start:end])

    def order(self) -> npt.NDArray[np.int64]:
        """Positions, in ascending order of (write id, bucket property, row id); stable."""
        return np.lexsort((self.row_ids, self.buckets, self.write_ids))

    def key(self, index: int) -> Key:
        return int(self.write_ids[index]), int(self.buckets[index]), int(self.row_ids[index])

    def sorted(self) -> RowIds:
        """In ascending order of (write id, bucket property, row id), without repeats."""
        rows = self.take(self.order())
        return rows.select(rows.is_new())

    def is_new(self) -> _BoolArray:
        """Of rows in order: which of them is not the same as the one before it."""
        return np.concatenate([[True], self._is_after_previous()])[: len(self)]

    def is_ascending(self) -> bool:
        """Whether the rows are in strictly ascending order."""
        if len(self) < 2:
            return True
        # Most files hold rows of one write id and bucket property: this takes a third of the time.
        if (
            self.write_ids[0] == self.write_ids[-1]
            and (self.write_ids == self.write_ids[0]).all()
            and (self.buckets == self.buckets[0]).all()
        ):
            return bool((np.diff(self.row_ids) > 0).all())
        return bool(self._is_after_previous().all())

    def _is_after_previous(self) -> _BoolArray:
        """For each row but the first, whether it is greater than the one before it."""
        write_ids, buckets, row_ids = (np.diff(part) for part in (self.write_ids, self.buckets, self.row_ids))
        later: _BoolArray = (write_ids > 0) | (write_ids == 0) & ((buckets > 0) | (buckets == 0) & (row_ids > 0))
        return later


class DeleteEvents:
    """A set of deleted rows: 24 bytes per event, in any order, repeats allowed."""

    def __init__(self, events: RowIds) -> None:
        # Dense numbers for write ids, pairs and row ids keep the combined keys far below 64 bits.
        self._write_ids, write_number = np.unique(events.write_ids, return_inverse=True)
        self._pairs, pair_number = np.unique(_pair_keys(write_number, events.buckets), return_inverse=True)
        self._row_ids, row_number = np.unique(events.row_ids, return_inverse=True)
        self._keys = np.sort(pair_number.astype(np.int64) * len(self._row_ids) + row_number)

    def __len__(self) -> int:
        return len(self._keys)

    def may_hit(self, low: Key, high: Key) -> bool:
        """False only if no row from `low` to `high` is deleted."""
        first, end = np.searchsorted(self._write_ids, [low[0], high[0] + 1])
        return bool(first < end)

    def hits(self, rows: RowIds) -> _BoolArray:
        """True for each row that is deleted."""
        deleted = np.zeros(len(rows), dtype=np.bool_)
        if len(rows) == 0 or len(self) == 0:
            return deleted
        starts = _run_starts(rows)
        pair_of_run, has_events = self._pairs_of(rows.write_ids[starts], rows.buckets[starts])
        if not has_events.any():
            return deleted
        lengths = np.diff(np.append(starts, len(rows)))
        candidates = np.flatnonzero(np.repeat(has_events, lengths))
        pairs = np.repeat(pair_of_run, lengths)[candidates]
        row_number, row_known = _lookup(self._row_ids, rows.row_ids[candidates])
        _, is_event = _lookup(self._keys, pairs * len(self._row_ids) + row_number)
        deleted[candidates] = row_known & is_event
        return deleted

    def _pairs_of(self, write_ids: _Int64Array, buckets: _Int32Array) -> tuple[_Int64Array, _BoolArray]:
        number, known = _lookup(self._write_ids, write_ids)
        pair, found = _lookup(self._pairs, _pair_keys(number, buckets))
        return pair, known & found


def _pair_keys(write_numbers: npt.NDArray[np.integer], buckets: _Int32Array) -> _Int64Array:
    return write_numbers.astype(np.int64) << 32 | buckets.astype(np.int64) & 0xFFFFFFFF


def _run_starts(rows: RowIds) -> _Int64Array:
    changes = (np.diff(rows.write_ids) != 0) | (np.diff(rows.buckets) != 0)
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def _lookup(sorted_keys: _Int64Array, keys: _Int64Array) -> tuple[_Int64Array, _BoolArray]:
    """Position of each key among `sorted_keys` (some position where it is absent), and whether it is there."""
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return at, sorted_keys[at] == keys
