"""Routed rows that are buffered in memory, and small groups of them that were spilled.

Small groups are spilled together to one Arrow IPC file with a record batch for each, so memory is bounded by the
buffer whatever the number of partitions, and no file stays open between flushes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pyarrow as pa

from hive_ingest.delta.routing import GroupKey, RoutedBatch
from hive_ingest.orc import AcidFile
from hive_ingest.storage import Location

#: Rows `start` to `start + length` of a batch. Sliced only when they are needed: a slice costs more memory
#: than a few rows do.
Run = tuple[pa.RecordBatch, int, int]


def slices(runs: Iterable[Run]) -> list[pa.RecordBatch]:
    return [batch.slice(start, length) for batch, start, length in runs]


@dataclass(slots=True, eq=False)
class Group:
    """The rows of one (partition, bucket): ORC spills, then parts of shared spills, then rows in the buffer."""

    key: GroupKey
    spills: list[Future[AcidFile]] = field(default_factory=list)
    spilled_rows: int = 0
    parts: list[tuple[SharedSpill, int]] = field(default_factory=list)
    part_bytes: int = 0
    buffered_bytes: float = 0.0

    def take_parts(self) -> list[pa.RecordBatch]:
        """Read back the parts of shared spills, in order."""
        batches = [spill.read(number) for spill, number in self.parts]
        self.parts, self.part_bytes = [], 0
        return batches


class SharedSpill:
    """An Arrow IPC file with one record batch for each of many small groups."""

    def __init__(self, file: Location, schema: pa.Schema) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._reader: pa.ipc.RecordBatchFileReader | None = None
        self._source: pa.NativeFile | None = None
        self._schema = schema

    def write(self, groups: Sequence[tuple[Group, list[Run]]]) -> int:
        """Write all groups and record in each where its part is. Returns the file's size in bytes."""
        with (
            self._file.create(sync=False) as file,
            pa.PythonFile(file, mode="w") as sink,
            pa.BufferedOutputStream(sink, 1 << 20) as buffered,
            pa.ipc.new_file(buffered, self._schema) as writer,
        ):
            for number, (group, runs) in enumerate(groups):
                writer.write_batch(one_batch(slices(runs)))
                group.parts.append((self, number))
            size: int = buffered.tell()
        return size

    def read(self, number: int) -> pa.RecordBatch:
        """Read part `number`. Several threads may call this at once."""
        with self._lock:
            if self._reader is None:
                self._source = self._file.open_input()
                self._reader = pa.ipc.open_file(self._source)
            return self._reader.get_batch(number)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._reader = self._source = None


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of one or more batches as one batch; a copy if there are several."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A routed batch: `groups[i]` has rows `offsets[i]` to `offsets[i + 1]`."""

    batch: pa.RecordBatch
    groups: tuple[Group, ...]
    offsets: tuple[int, ...]


class RowBuffer:
    """Batches in group order, in the order of their arrival. Rows of a group keep their order."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self._segments: list[_Segment] = []
        self.nbytes = 0

    def add(self, routed: RoutedBatch) -> tuple[Group, ...]:
        """Add a batch. Returns the groups that it has rows of."""
        size = routed.batch.nbytes
        bytes_a_row = size / max(1, routed.batch.num_rows)
        touched = []
        for i, key in enumerate(routed.keys):
            group = self.groups.get(key)
            if group is None:
                group = self.groups[key] = Group(key)
            group.buffered_bytes += bytes_a_row * (routed.offsets[i + 1] - routed.offsets[i])
            touched.append(group)
        segment = _Segment(routed.batch, tuple(touched), routed.offsets)
        self._segments.append(segment)
        self.nbytes += size
        return segment.groups

    def take(self, groups: Iterable[Group]) -> list[tuple[Group, list[Run]]]:
        """Remove the rows of some groups. Other rows of their batches are copied, so that memory is released."""
        taken: dict[GroupKey, list[Run]] = {group.key: [] for group in groups}
        remaining = [_split(segment, taken) for segment in self._segments]
        self._segments = [rest for rest in remaining if rest is not None]
        self.nbytes = sum(segment.batch.nbytes for segment in self._segments)
        for key in taken:
            self.groups[key].buffered_bytes = 0.0
        return [(self.groups[key], runs) for key, runs in taken.items()]

    def take_all(self) -> list[tuple[Group, list[Run]]]:
        """Remove and return the buffered rows of all groups."""
        return self.take(self.groups.values())


def _split(segment: _Segment, taken: dict[GroupKey, list[Run]]) -> _Segment | None:
    """Add the parts of a batch to the groups in `taken`. Returns the rest as a separate segment, or None."""
    rest: list[tuple[Group, Run]] = []
    for i, group in enumerate(segment.groups):
        start, end = segment.offsets[i], segment.offsets[i + 1]
        run = (segment.batch, start, end - start)
        if group.key in taken:
            taken[group.key].append(run)
        else:
            rest.append((group, run))
    if not rest or len(rest) == len(segment.groups):
        return segment if rest else None
    offsets = itertools.accumulate((run[2] for _, run in rest), initial=0)
    batch = pa.concat_batches(slices(run for _, run in rest))
    return _Segment(batch, tuple(group for group, _ in rest), tuple(offsets))
