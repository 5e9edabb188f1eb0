"""One writer in one transaction: accepts records, returns finished files with hidden names.

    record writer -> blocks -> [threads: parse, route] -> row buffer -> [threads: encode] -> files

The owner's thread keeps the order: batches enter the buffer in the order of their records. Memory is bounded by
`max_buffer_bytes`, whatever the number of partitions.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from hive_ingest.config import StreamingSettings
from hive_ingest.delta.delta_writer import MOST_SMALL_ROWS, DeltaTarget, DeltaWriter
from hive_ingest.delta.routing import PartitionValues, RoutedBatch, Router
from hive_ingest.delta.row_buffer import Group, RowBuffer, Run, SharedSpill, one_batch, slices
from hive_ingest.errors import PartitionCreationFailed, SerializationError
from hive_ingest.faults import reach
from hive_ingest.orc import AcidFile, unreadable_row
from hive_ingest.record_writer import Block, Parsed, RecordWriter, divided_blocks
from hive_ingest.transactions import StagedFile

T = TypeVar("T")
#: The least that the last block is divided into, so that several threads parse it: a smaller one takes less than 1 ms.
_LEAST_BLOCK_BYTES = 1 << 18
#: The most groups that a thread encodes together, and the most bytes in memory of the rows of each, about.
_MOST_TOGETHER, _MOST_SMALL_BYTES = 16, 1 << 18
#: A group, and its rows that were taken out of the buffer.
_Taken: TypeAlias = tuple[Group, list[Run]]


@dataclass(slots=True)
class WriteCounts:
    """What has been written in one transaction so far. Bytes are those of rows in memory."""

    records: int = 0
    skipped: int = 0
    rows: int = 0
    row_bytes: int = 0
    spills: int = 0
    matched_columns: set[str] | None = None

    def add(self, parsed: Parsed) -> None:
        self.records += parsed.records
        self.skipped += parsed.skipped
        self.rows += parsed.batch.num_rows
        self.row_bytes += parsed.batch.nbytes
        if parsed.matched_columns is not None:
            self.matched_columns = (self.matched_columns or set()) | parsed.matched_columns


class TransactionWriter:
    """Writes the records of one transaction. One thread owns it. After an error only `discard` is allowed."""

    def __init__(
        self,
        records: RecordWriter,
        target: DeltaTarget,
        settings: StreamingSettings,
        pool: Callable[[], ThreadPoolExecutor],
        on_skipped: Callable[[Parsed, WriteCounts], None] | None = None,
    ) -> None:
        """`on_skipped` is called on the owner's thread for each block of which records were skipped, in order."""
        records.discard()
        self.counts = WriteCounts()
        self._records = records
        self._settings = settings
        self._router = Router(target.table, target.static_values, writer_bucket=target.writer_bucket)
        self._delta = DeltaWriter(target, settings)
        self._schema = target.schema
        self._pool = pool
        self._on_skipped = on_skipped
        self._parsing: deque[tuple[int, Future[tuple[Parsed, RoutedBatch]]]] = deque()
        self._parsing_bytes = 0
        self._encoding: dict[Future[AcidFile], int] = {}
        self._finishing: list[Future[None]] = []
        self._buffer = RowBuffer()
        self._partitions: set[PartitionValues] = set()
        self._shared: list[SharedSpill] = []

    @property
    def partitions(self) -> frozenset[PartitionValues]:
        """What was parsed goes to these."""
        return frozenset(self._partitions)

    # -- records in --------------------------------------------------------------------------------

    def write(self, records: object) -> None:
        """Accept records. An error in them may be raised now, by a later call, or by `finish`."""
        blocks = self._records.write(records)
        if blocks:
            self._submit(blocks)

    def flush(self) -> None:
        """Parse all records accepted so far and spill them to files to release memory."""
        self.parse_all()
        self._spill()
        self._await_encoding(0)

    def parse_all(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Parse everything taken so far, so that `counts` has it. Raises the error of a bad record.

        Args:
            meanwhile: Called on this thread while others parse. What it raises is raised here.
        """
        threads = self._settings.writer_threads - sum(not future.done() for _, future in self._parsing)
        self._submit(divided_blocks(self._records.drain(), threads, _LEAST_BLOCK_BYTES))
        if meanwhile is not None:
            meanwhile()
        self._collect_all()

    def _submit(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            # With the caller's context, which may have names for the records in logs.
            parsed = self._pool().submit(contextvars.copy_context().run, self._parse, block)
            self._parsing.append((block.nbytes, parsed))
            self._parsing_bytes += block.nbytes
            self._collect_ready()

    def _parse(self, block: Block) -> tuple[Parsed, RoutedBatch]:
        parsed = self._records.parse(block)
        if not parsed.is_checked and (found := unreadable_row(parsed.batch)) is not None:
            writer = type(self._records).__name__
            raise SerializationError(f"row {found[0]} of a block that {writer} parsed cannot be read: {found[1]}")
        return parsed, self._router.route(parsed.batch)

    def _collect_ready(self) -> None:
        """Route parsed blocks. Wait if too many are being parsed."""
        most = self._settings.writer_threads + 1
        while self._parsing and (self._parsing[0][1].done() or len(self._parsing) > most or self._is_full()):
            self._collect_one()

    def _collect_all(self) -> None:
        while self._parsing:
            self._collect_one()

    def _collect_one(self) -> None:
        nbytes, future = self._parsing.popleft()
        self._parsing_bytes -= nbytes
        self._accept(*future.result())

    def _is_full(self) -> bool:
        held = self._parsing_bytes * 2 + self._buffer.nbytes + sum(self._encoding.values())
        return held >= self._settings.max_buffer_bytes

    def _accept(self, parsed: Parsed, routed: RoutedBatch) -> None:
        self.counts.add(parsed)
        if parsed.skipped and self._on_skipped is not None:
            self._on_skipped(parsed, self.counts)
        if not routed.keys:
            return
        touched = self._buffer.add(routed)
        self._partitions.update(group.key.partition for group in touched)
        most = self._settings.max_partitions_per_transaction
        if len(self._partitions) > most:
            raise PartitionCreationFailed(
                f"the transaction would write more than max_partitions_per_transaction={most} partitions: "
                "commit more often, sort the input by partition, or raise the limit"
            )
        if any(group.buffered_bytes >= self._settings.spill_chunk_bytes for group in touched):
            half = self._settings.spill_chunk_bytes / 2
            self._spill_groups([group for group in self._buffer.groups.values() if group.buffered_bytes >= half])
        if self._is_full():
            self._spill()

    # -- spills ------------------------------------------------------------------------------------

    def _spill(self) -> None:
        """Empty the buffer: large groups to ORC files, the largest first; small ones to one file."""
        least = self._settings.min_spill_bytes
        groups = sorted(self._buffer.groups.values(), key=lambda group: -group.buffered_bytes)
        self._spill_groups([group for group in groups if group.buffered_bytes >= least])
        if self._buffer.nbytes:
            self._spill_together()
        self._await_encoding(self._settings.max_buffer_bytes // 2)

    def _spill_groups(self, groups: Sequence[Group]) -> None:
        if groups:
            self._spill_alone(self._buffer.take(groups))

    def _spill_alone(self, taken: Iterable[_Taken]) -> None:
        for group, runs in taken:
            batches = [*group.take_parts(), *slices(runs)]
            rows, nbytes = sum(b.num_rows for b in batches), sum(b.nbytes for b in batches)
            self._await_encoding(max(0, self._settings.max_buffer_bytes - self._buffer.nbytes - nbytes))
            file, first = self._delta.new_spill(".spill.orc"), group.spilled_rows
            future = self._pool().submit(self._delta.encode, group.key, file, batches, first_row_id=first, sync=False)
            group.spills.append(future)
            group.spilled_rows += rows
            self._encoding[future] = nbytes
            self.counts.spills += 1
            reach("after_spill")

    def _spill_together(self) -> None:
        groups: list[_Taken] = []
        for group, runs in self._buffer.take_all():
            # What is buffered of a group is known by the average row of each batch: its own rows may be much larger.
            nbytes = sum(batch.nbytes for batch in slices(runs))
            group.part_bytes += nbytes  # in memory once the group is encoded
            if nbytes >= self._settings.min_spill_bytes or group.part_bytes >= self._settings.spill_chunk_bytes:
                self._spill_alone([(group, runs)])
            elif runs:
                groups.append((group, runs))
        if not groups:
            return
        spill = SharedSpill(self._delta.new_spill(".spill.arrow"), self._schema)
        self._shared.append(spill)
        spill.write(groups)
        self.counts.spills += 1
        reach("after_spill")

    def _await_encoding(self, most_bytes: int) -> None:
        """Wait until no more bytes than this are being encoded. Raises an encoder's error."""
        while self._encoding:
            for future in [f for f in self._encoding if f.done()]:
                del self._encoding[future]
                future.result()
            if sum(self._encoding.values()) <= most_bytes:
                return
            wait(self._encoding, return_when=FIRST_COMPLETED)

    # -- files out ---------------------------------------------------------------------------------

    def finish(self) -> list[StagedFile]:
        """Finish one file for each partition and bucket. All files still have hidden names."""
        self.parse_all()
        # The remaining rows of groups with spills are encoded while other spills are still being encoded.
        self._spill_groups([group for group in self._buffer.groups.values() if group.spills and group.buffered_bytes])
        self._await_encoding(0)
        groups = self._buffer.take_all()
        if len(groups) <= 1:
            files = [self._finish_group(group, runs, self._pool()) for group, runs in groups]
        else:
            files = self._finish_in_threads(groups)
        self._delta.wait_for_files()
        self._close_shared()
        return files

    def _finish_in_threads(self, groups: Sequence[_Taken]) -> list[StagedFile]:
        files: dict[int, StagedFile] = {}
        with contextlib.ExitStack() as stack:
            pool, threads = self._pool(), min(self._settings.writer_threads, len(groups))
            if (most := min(self._delta.files_at_a_time(self.counts.row_bytes), len(groups))) > threads:
                threads = most
                pool = stack.enter_context(ThreadPoolExecutor(threads, "hive-ingest-files"))
            waiting = self._shares(groups, threads)

            def finish() -> None:
                # Each thread takes the next share when it is free, which costs less than a future for each group.
                while (share := _popped(waiting)) is not None:
                    files.update(zip(share, self._finish_share([groups[at] for at in share]), strict=True))

            self._finishing = [pool.submit(finish) for _ in range(threads)]
            try:
                for future in self._finishing:
                    future.result()
            except BaseException:
                waiting.clear()
                raise
        return [files[number] for number in range(len(groups))]

    def _shares(self, groups: Sequence[_Taken], threads: int) -> deque[Sequence[int]]:
        """The numbers of the groups that a thread finishes at once: one, or several small ones."""
        small = [number for number, (group, runs) in enumerate(groups) if self._is_small(group, runs)]
        count = -(-len(small) // (_MOST_TOGETHER * threads)) * threads  # as many for each thread
        others = [[number] for number in sorted({*range(len(groups))}.difference(small))]
        return deque([*others, *(share for first in range(count) if (share := small[first::count]))])

    def _is_small(self, group: Group, runs: Sequence[Run]) -> bool:
        if group.spills or group.parts or sum(rows for _, _, rows in runs) > MOST_SMALL_ROWS:
            return False
        size: float = sum(batch.nbytes * rows / batch.num_rows for batch, _, rows in runs)
        return size <= min(_MOST_SMALL_BYTES, self._settings.stripe_size_bytes)

    def _finish_share(self, groups: Sequence[_Taken]) -> list[StagedFile]:
        if len(groups) == 1:
            return [self._finish_group(*groups[0], wait=False)]
        return self._delta.finish_small([(group.key, one_batch(slices(runs))) for group, runs in groups])

    def _finish_group(
        self, group: Group, runs: list[Run], pool: ThreadPoolExecutor | None = None, *, wait: bool = True
    ) -> StagedFile:
        spills = [future.result() for future in group.spills]
        return self._delta.finish(group.key, spills, [*group.take_parts(), *slices(runs)], pool, wait=wait)

    def discard(self) -> None:
        """Drop all rows and remove the hidden files. Idempotent.

        May run on another thread while the next transaction is written, so it does not touch the record writer, which
        each `TransactionWriter` resets.
        """
        in_progress: list[Future[Any]] = [*(f for _, f in self._parsing), *self._encoding, *self._finishing]
        for future in in_progress:
            future.cancel()
        wait(in_progress)  # a thread that is still writing would create its file after the removal below
        self._parsing.clear()
        self._encoding.clear()
        self._finishing.clear()
        self._buffer = RowBuffer()
        self._close_shared()
        self._delta.discard()

    def _close_shared(self) -> None:
        for spill in self._shared:
            spill.close()
        self._shared = []


def _popped(items: deque[T]) -> T | None:
    """The first item; None if there is none left, whichever thread took it."""
    try:
        return items.popleft()
    except IndexError:
        return None
