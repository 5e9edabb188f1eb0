"""Files to merge, and their stripes as ranges of keys.

A key is a row's identity: write id, bucket property, row id. The keys of a stripe are bounded by the file's key index
or statistics, so that stripes can be put in order, and those that overlap be found, before their rows are read. The
bounds are verified when the rows are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import (
    ACID_KEY_INDEX,
    BUCKET,
    ORIGINAL_WRITE_ID,
    ROW_ID,
    Key,
    KeyRange,
    orc_column_id,
    parse_key_index,
)
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.format.column_statistics import int_range
from hive_ingest.orc.format.columns import bytes_per_row
from hive_ingest.orc.format.protobuf import WireError
from hive_ingest.orc.format.stripe_statistics import stripe_statistics
from hive_ingest.orc.format.tail import OrcTail
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.storage import FileStore

_SMALL_STRIPE_BYTES = 1 << 20
KEY_COLUMNS = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)


class RowSizes:
    """What a row takes in memory, roughly, in each file.

    Of small files with the same columns, the first one speaks for all: reading statistics takes time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], float] = {}

    def of(self, tail: OrcTail) -> float:
        footer = tail.footer
        is_large = any(stripe.length > _SMALL_STRIPE_BYTES for stripe in footer.stripes)
        if is_large or footer.types not in self._known:
            self._known[footer.types] = bytes_per_row(tail)
        return self._known[footer.types]


class MergeInput:
    """A file to merge. A small one is kept in memory; of others, open files are kept until `close` and used again.

    Opening a file takes time for each of its stripes. If it were opened for each stripe, the time would grow with the
    square of their number.
    """

    def __init__(
        self, store: FileStore, file: FileToRead, sizes: RowSizes, *, data: pa.Buffer | None = None, keep: bool
    ) -> None:
        """
        Args:
            store: The file's store.
            file: What to read.
            sizes: Shared by all files of a merge.
            data: Its bytes, if they have been read already.
            keep: Whether a file that is read as a whole may stay in memory.

        Raises:
            CorruptFile, UnsupportedFeature, StreamingIOFailure: As `AcidFileReader`.
        """
        self.file = file
        self._store = store
        self._lock = Lock()
        reader = AcidFileReader(store, file, data=data)
        try:
            self.tail: OrcTail = reader.tail
            self._row_type = None if keep else reader.row_type
            self.stripes = stripes_of(self, reader, sizes)
        except BaseException:
            reader.close()
            raise
        self._kept = reader if keep else None
        # Not files of one stripe, of which thousands may be read before one is written.
        self._keeps_open = len(self.tail.footer.stripes) > 1
        self._idle: list[AcidFileReader] = []
        self._statistics: list[bytes] | None = None
        self._has_statistics = False
        if not keep:
            reader.close()  # thousands of files may be opened before the first one is read

    def has_columns_of(self, schema: pa.Schema) -> bool:
        """The same columns, by name and type."""
        row_type = self._row_type if self._kept is None else self._kept.row_type
        return bool(row_type == pa.struct(list(schema)))

    @contextmanager
    def reader(self) -> Iterator[AcidFileReader]:
        """The open file, for one thread at a time."""
        if self._kept is not None:
            with self._lock:
                yield self._kept
            return
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        if reader is None:
            reader = AcidFileReader(self._store, self.file)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._put_back(reader)

    def _put_back(self, reader: AcidFileReader) -> None:
        with self._lock:
            if self._keeps_open:
                self._idle.append(reader)
                return
        reader.close()

    def statistics(self, reader: AcidFileReader) -> list[bytes] | None:
        """See `stripe_statistics`; read once."""
        with self._lock if self._kept is None else nullcontext():
            if not self._has_statistics:
                self._statistics = stripe_statistics(reader.content, reader.tail, self.file.path)
                self._has_statistics = True
            return self._statistics

    def close(self) -> None:
        """When nothing more of it is needed soon; it can still be read."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._keeps_open = False
            self._statistics, self._has_statistics = None, False
        for reader in idle:
            reader.close()


@contextmanager
def closing(inputs: Sequence[MergeInput]) -> Iterator[None]:
    """Closes what is still open at the end of the block."""
    try:
        yield
    finally:
        for source in inputs:
            source.close()


@dataclass(frozen=True, slots=True, eq=False)
class InputStripe:
    """A stripe with the bounds of its keys, both inclusive.

    Attributes:
        source: The file that it lies in.
        number: Its number there.
        low: No key is below it.
        high: No key is above it.
        has_last_key: `high` is the key of the last row, and the rows ascend.
        estimated_bytes: What its rows take in memory, roughly.
    """

    source: MergeInput
    number: int
    low: Key
    high: Key
    has_last_key: bool
    estimated_bytes: int

    @property
    def file_bytes(self) -> int:
        """What it takes in the file."""
        return self.source.tail.footer.stripes[self.number].length

    @property
    def is_last(self) -> bool:
        """The last one of its file with rows."""
        return self.source.stripes[-1] is self

    @property
    def is_small_file(self) -> bool:
        """Whether it is all of a small file."""
        return self.source.file.is_small and self.source.stripes == [self]

    @property
    def rows(self) -> int:
        return self.source.tail.footer.stripes[self.number].rows

    def check(self, first: Key, last: Key) -> None:
        """Raises CorruptFile for keys outside of the bounds."""
        if first < self.low or last > self.high:
            raise CorruptFile(
                f"stripe {self.number} of {self.source.file.path!r} holds rows from {first} to {last}, but its key "
                f"index or its statistics say {self.low} to {self.high}: restore the file from a copy"
            )


def ordered_stripes(inputs: Sequence[MergeInput], keys: KeyRange | None = None) -> list[InputStripe]:
    """The stripes that begin in a range, by their keys."""
    found = (stripe for source in inputs for stripe in source.stripes if keys is None or keys.contains(stripe.low))
    return sorted(found, key=lambda stripe: (stripe.low, stripe.high))


def stripes_of(source: MergeInput, reader: AcidFileReader, sizes: RowSizes) -> list[InputStripe]:
    """The stripes with rows, in the order of the file. Raises CorruptFile, StreamingIOFailure."""
    tail = source.tail
    row_bytes = sizes.of(tail)
    bounds = (
        _bounds_by_position(source) or _bounds_by_index(tail) or _bounds_by_statistics(tail) or _bounds_by_rows(reader)
    )
    return [
        InputStripe(source, number, *found, max(stripe.length, int(stripe.rows * row_bytes)))
        for number, (found, stripe) in enumerate(zip(bounds, tail.footer.stripes, strict=True))
        if stripe.rows
    ]


_Bounds = tuple[Key, Key, bool]


def _bounds_by_position(source: MergeInput) -> list[_Bounds] | None:
    """Of a file without the ACID columns. Its stripes lack these, so they are never copied: no last key is given."""
    original = source.file.original
    return None if original is None else [(*bounds, False) for bounds in original.bounds(source.tail)]


def _bounds_by_index(tail: OrcTail) -> list[_Bounds] | None:
    """By the key index of a file with checksums: nothing has changed since we wrote it, in order."""
    bounds = _file_bounds(tail)
    if tail.checksums is None or bounds is None:
        return None
    try:
        keys = parse_key_index(tail.footer.user_metadata.get(ACID_KEY_INDEX, b""))
    except ValueError:
        return None
    if len(keys) != len(tail.footer.stripes):
        return None
    lows = [bounds[0], *((write_id, bucket, row_id + 1) for write_id, bucket, row_id in keys)]
    return [(low, high, True) for low, high in zip(lows, keys, strict=False)]


def _bounds_by_statistics(tail: OrcTail) -> list[_Bounds] | None:
    """By the smallest and largest value of each part of a key in the file; enough where it is one small stripe."""
    bounds = _file_bounds(tail)
    stripes = tail.footer.stripes
    if bounds is None or len(stripes) != 1 or stripes[0].length > _SMALL_STRIPE_BYTES:
        return None
    return [(*bounds, False)]


def _file_bounds(tail: OrcTail) -> tuple[Key, Key] | None:
    statistics = tail.footer.statistics
    try:
        ranges = [int_range(statistics[orc_column_id(name)]) for name in KEY_COLUMNS]
    except (WireError, IndexError):
        return None
    (w, b, r) = ranges
    if w is None or b is None or r is None:
        return None
    return (w[0], b[0], r[0]), (w[1], b[1], r[1])


def _bounds_by_rows(reader: AcidFileReader) -> list[_Bounds]:
    """By the keys themselves."""
    found: list[_Bounds] = []
    for stripe in range(reader.num_stripes):
        keys = reader.read(stripe, KEY_COLUMNS, []).row_ids()
        found.append(_bounds_of(keys) if len(keys) else ((0, 0, 0), (0, 0, 0), False))
    return found


def _bounds_of(keys: RowIds) -> _Bounds:
    is_ascending = keys.is_ascending()
    keys = keys if is_ascending else keys.sorted()
    return keys.key(0), keys.key(len(keys) - 1), is_ascending
