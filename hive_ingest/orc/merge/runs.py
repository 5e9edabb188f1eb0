"""Runs of small files among those that are merged.

Opening a small file takes about as long as decoding its rows, and mostly holds the interpreter's lock; decoding and
encoding do not hold it. So small files are opened by the tasks that encode their rows, while other threads encode,
instead of one after the other before the first task begins. That requires their order before they are opened: the
folders' names have the lowest and the highest write id, which is the first part of a row's key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TypeVar

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import KeyRange
from hive_ingest.orc.merge.inputs import InputStripe, MergeInput, RowSizes, ordered_stripes
from hive_ingest.orc.reader.acid_reader import FileToRead
from hive_ingest.orc.reader.joined_files import JOINED_BYTES, JOINED_FILES
from hive_ingest.storage import FileStore

_T = TypeVar("_T")


#: Rows that are worth a thread of their own.
_LEAST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class StripeSizes:
    """How large the stripes of the output are, in bytes of rows as they lie in memory.

    Attributes:
        stripe_bytes: The most of a stripe that is encoded, about.
        large_bytes: A stripe of at least so much is large: it is copied where that is possible.
        encoders: How many stripes of a file are encoded at the same time.
    """

    stripe_bytes: int
    large_bytes: int
    encoders: int = 1

    def number(self, total_bytes: float) -> int:
        """Into how many stripes rows are encoded: as few as `stripe_bytes` allows, or more for all encoders to work.

        Not for that alone are rows made into stripes that are not large, unless they are too few to be worth it.
        """
        fewest = -int(-total_bytes // self.stripe_bytes)
        even = -(-fewest // self.encoders) * self.encoders
        least = self.large_bytes if total_bytes >= 2 * self.large_bytes else _LEAST_BYTES
        return max(fewest, min(even, int(total_bytes // least)))


@dataclass(frozen=True, slots=True)
class FileUnit:
    """Files whose folders have overlapping write ids, such as the statements of one transaction."""

    files: tuple[FileToRead, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class FileRun:
    """Consecutive units of one kind, in the order of their keys."""

    units: tuple[FileUnit, ...]
    is_small: bool

    @property
    def files(self) -> tuple[FileToRead, ...]:
        return tuple(file for unit in self.units for file in unit.files)


def file_runs(files: Sequence[FileToRead], is_small: Callable[[FileUnit], bool]) -> list[FileRun]:
    """The files in runs whose keys do not overlap, in the order of their keys.

    Args:
        files: In any order.
        is_small: Whether the rows of a unit take little memory. It is asked about small files only.
    """
    units = _units(files)
    is_known = len(units) > 1  # a single unit has files of unknown order, perhaps

    def opens_late(unit: FileUnit) -> bool:
        return is_known and all(file.is_small and file.original is None for file in unit.files) and is_small(unit)

    return [FileRun(tuple(run), late) for late, run in groupby(units, opens_late)]


def _units(files: Sequence[FileToRead]) -> list[FileUnit]:
    """In the order of their write ids; all files in one where some have unknown ones."""
    known = [(file.write_ids, file) for file in files if file.write_ids is not None]
    if len(known) < len(files):
        return [FileUnit(tuple(files))]
    found: list[list[FileToRead]] = []
    last = -1
    for (low, high), file in sorted(known, key=lambda each: each[0]):
        if low > last:
            found.append([])
        found[-1].append(file)
        last = max(last, high)
    return [FileUnit(tuple(unit)) for unit in found]


class SmallFiles:
    """The small files of a merge. Several threads may use it at once."""

    def __init__(
        self,
        store: FileStore,
        files: Sequence[FileToRead],
        row_sizes: RowSizes,
        keys: KeyRange | None,
        stripe_sizes: StripeSizes,
    ) -> None:
        """
        Args:
            store: The store of the files.
            files: All files of the merge.
            row_sizes: Shared by all files of the merge.
            keys: Only stripes that begin in this range are read.
            stripe_sizes: Of the output.
        """
        self._store = store
        self._files = [file for file in files if file.is_small]
        self._sizes = row_sizes
        self._keys = keys
        self._stripe_sizes = stripe_sizes

    @cached_property
    def _growth(self) -> float:
        """How much more space than in the files their rows take in memory, by a sample of three. At least 1."""
        files = self._files
        sample = {file.path: file for file in (files[0], files[len(files) // 2], files[-1])}.values()
        inputs = [MergeInput(self._store, file, self._sizes, keep=True) for file in sample]
        in_memory = sum(stripe.estimated_bytes for source in inputs for stripe in source.stripes)
        return max(1.0, in_memory / max(1, sum(file.size_bytes for file in sample)))

    def _size(self, unit: FileUnit) -> float:
        return unit.size_bytes * self._growth

    def fits(self, unit: FileUnit) -> bool:
        """Whether its rows are far from a large stripe. Raises CorruptFile, UnsupportedFeature, StreamingIOFailure."""
        return 2 * self._size(unit) <= self._stripe_sizes.large_bytes

    def shares(self, run: FileRun) -> Iterator[tuple[FileUnit, ...]]:
        """Units whose rows become one stripe."""
        return equal_shares(run.units, self._stripe_sizes.number, self._size, lambda last, unit: True)

    def stripes(self, units: Sequence[FileUnit]) -> list[InputStripe]:
        """Open the files, and return their stripes in the order of their keys.

        Raises:
            CorruptFile, UnsupportedFeature, StreamingIOFailure: As `AcidFileReader`.
        """
        files = (file for unit in units for file in unit.files)
        return ordered_stripes([MergeInput(self._store, file, self._sizes, keep=True) for file in files], self._keys)


def joinable_units(units: Sequence[FileUnit]) -> Iterator[tuple[FileUnit, ...]]:
    """Units that are decoded together, within the limits of files that are joined."""
    group: list[FileUnit] = []
    files = size = 0
    for unit in units:
        if group and (files + len(unit.files) > JOINED_FILES or size + unit.size_bytes > JOINED_BYTES):
            yield tuple(group)
            group, files, size = [], 0, 0
        group.append(unit)
        files += len(unit.files)
        size += unit.size_bytes
    if group:
        yield tuple(group)


def equal_shares(
    items: Sequence[_T],
    number: Callable[[float], int],
    size_of: Callable[[_T], float],
    can_cut: Callable[[_T, _T], bool],
) -> Iterator[tuple[_T, ...]]:
    """Shares of about the same size, cut only between neighbours that `can_cut` allows.

    Args:
        items: In order.
        number: How many shares a total size is to be cut into.
        size_of: The size of an item.
        can_cut: Whether two neighbours may be in different shares.
    """
    total = sum(map(size_of, items))
    share = total / max(1, number(total))
    group: list[_T] = []
    size = 0.0
    for item in items:
        if group and can_cut(group[-1], item) and size + size_of(item) / 2 > share:
            yield tuple(group)
            group, size = [], 0
        group.append(item)
        size += size_of(item)
    if group:
        yield tuple(group)


def check_write_ids(stripes: Sequence[InputStripe]) -> None:
    """Raises CorruptFile for a stripe with write ids that the folder of its file does not have."""
    for stripe in stripes:
        low, high = stripe.source.file.write_ids or (stripe.low[0], stripe.high[0])
        if not low <= stripe.low[0] <= stripe.high[0] <= high:
            raise CorruptFile(
                f"{stripe.source.file.path!r} has rows of original write ids {stripe.low[0]} to {stripe.high[0]}, "
                f"but its folder is for {low} to {high}: the file belongs to another folder. Move it back, or "
                "restore the table from a copy"
            )
