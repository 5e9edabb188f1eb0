"""Snapshots: the transactions and write ids that a reader may see.

One filter that readers, compactor and cleaner share (Hive: `ValidReadTxnList`, `ValidReaderWriteIdList`).
"""

from __future__ import annotations

import bisect
import enum
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import TableName, TxnId, WriteId

_NO_LOWER_BOUND = 2**63 - 1  # Long.MAX_VALUE: Hive's "nothing is open"


class RangeResponse(enum.Enum):
    """How much of a range of write ids is valid (Hive: `ValidWriteIdList.RangeResponse`)."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


def _contains(ids: tuple[int, ...], value: int) -> bool:
    i = bisect.bisect_left(ids, value)
    return i < len(ids) and ids[i] == value


def _split(text: str, count: int, what: str) -> list[str]:
    parts = text.split(":")
    if len(parts) < count:
        raise ConfigurationError(f"{text!r} is not a {what}: expected {count} fields separated by ':'")
    return parts


def _id(text: str, whole: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigurationError(f"{whole!r} is not a snapshot: {text!r} is not an id") from error


def _ids(text: str, whole: str) -> tuple[int, ...]:
    return tuple(sorted(_id(x, whole) for x in text.split(",") if x))


@dataclass(frozen=True, slots=True)
class ValidTxnList:
    """High-water mark and exceptions over transaction ids. `open` and `aborted` are sorted."""

    high_water_mark: TxnId
    open: tuple[TxnId, ...] = ()
    aborted: tuple[TxnId, ...] = ()

    @property
    def min_open(self) -> TxnId | None:
        return self.open[0] if self.open else None

    def is_valid(self, txn_id: TxnId) -> bool:
        """Whether the transaction is committed in this snapshot."""
        return txn_id <= self.high_water_mark and not _contains(self.open, txn_id) and not self.is_aborted(txn_id)

    def is_aborted(self, txn_id: TxnId) -> bool:
        return _contains(self.aborted, txn_id)

    def to_string(self) -> str:
        """`hwm:minOpen:open:aborted` (Hive: `ValidReadTxnList.writeToString`)."""
        low = self.min_open if self.open else _NO_LOWER_BOUND
        return f"{self.high_water_mark}:{low}:{','.join(map(str, self.open))}:{','.join(map(str, self.aborted))}"

    @classmethod
    def from_string(cls, text: str) -> ValidTxnList:
        """The reverse of `to_string`. Raises ConfigurationError."""
        hwm, _, open_, aborted = _split(text, 4, "ValidTxnList")[:4]
        return cls(
            TxnId(_id(hwm, text)),
            tuple(map(TxnId, _ids(open_, text))),
            tuple(map(TxnId, _ids(aborted, text))),
        )


@dataclass(frozen=True, slots=True)
class ValidWriteIdList:
    """High-water mark and exceptions over the write ids of one table. `open` and `aborted` are sorted."""

    table: TableName
    high_water_mark: WriteId
    open: tuple[WriteId, ...] = ()
    aborted: tuple[WriteId, ...] = ()
    _exceptions: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exceptions", tuple(sorted((*self.open, *self.aborted))))

    @property
    def min_open(self) -> WriteId | None:
        return self.open[0] if self.open else None

    def is_valid(self, write_id: WriteId) -> bool:
        """Whether the write id is committed in this snapshot (Hive: `isWriteIdValid`)."""
        return write_id <= self.high_water_mark and not _contains(self._exceptions, write_id)

    def is_aborted(self, write_id: WriteId) -> bool:
        return _contains(self.aborted, write_id)

    def is_valid_base(self, write_id: WriteId) -> bool:
        """Whether no write id up to this one is open, so that its base is complete (Hive: `isValidBase`)."""
        low = self.min_open
        return (low is None or low > write_id) and write_id <= self.high_water_mark

    def is_range_valid(self, low: WriteId, high: WriteId) -> RangeResponse:
        """How much of the closed range is valid (Hive: `isWriteIdRangeValid`)."""
        top = min(high, self.high_water_mark)
        first = bisect.bisect_left(self._exceptions, low)
        valid = top - low + 1 - (bisect.bisect_right(self._exceptions, top) - first)
        if valid <= 0:
            return RangeResponse.NONE
        return RangeResponse.ALL if valid == high - low + 1 else RangeResponse.SOME

    def valid_mask(self, write_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """`is_valid` for many write ids, such as a file's column `currentTransaction`."""
        if len(write_ids) == 0:
            return np.ones(0, dtype=np.bool_)
        low, high = int(write_ids.min()), int(write_ids.max())
        if self.is_range_valid(WriteId(low), WriteId(high)) is RangeResponse.ALL:
            return np.ones(len(write_ids), dtype=np.bool_)
        exceptions = np.array(self._exceptions, dtype=np.int64)
        return (write_ids <= self.high_water_mark) & ~np.isin(write_ids, exceptions)

    def is_range_aborted(self, low: WriteId, high: WriteId) -> RangeResponse:
        """How much of the closed range is aborted (Hive: `isWriteIdRangeAborted`)."""
        found = bisect.bisect_right(self.aborted, high) - bisect.bisect_left(self.aborted, low)
        if found == 0:
            return RangeResponse.NONE
        return RangeResponse.ALL if found == high - low + 1 else RangeResponse.SOME

    def for_compactor(self) -> ValidWriteIdList:
        """What a compaction may merge: it ends below the lowest open write id, so it has only aborted exceptions.

        Source: `TxnUtils.createValidCompactWriteIdList`.
        """
        last = self.high_water_mark if self.min_open is None else WriteId(self.min_open - 1)
        return self.up_to(last)

    def up_to(self, last: WriteId) -> ValidWriteIdList:
        """The same with a high-water mark of at most `last` (Hive: `updateHighWatermark`)."""
        return ValidWriteIdList(
            self.table,
            min(last, self.high_water_mark),
            tuple(write_id for write_id in self.open if write_id <= last),
            tuple(write_id for write_id in self.aborted if write_id <= last),
        )

    def to_string(self) -> str:
        """`db.table:hwm:minOpen:open:aborted` (Hive: `ValidReaderWriteIdList.writeToString`)."""
        low = self.min_open if self.open else _NO_LOWER_BOUND
        ids = f"{','.join(map(str, self.open))}:{','.join(map(str, self.aborted))}"
        return f"{self.table}:{self.high_water_mark}:{low}:{ids}"

    @classmethod
    def from_string(cls, text: str) -> ValidWriteIdList:
        """The reverse of `to_string`. Raises ConfigurationError."""
        name, hwm, _, open_, aborted = _split(text, 5, "ValidWriteIdList")[:5]
        return cls(
            TableName.of(name),
            WriteId(_id(hwm, text)),
            tuple(map(WriteId, _ids(open_, text))),
            tuple(map(WriteId, _ids(aborted, text))),
        )
