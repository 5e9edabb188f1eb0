"""Merging files of rows into one, in the order of their keys.

Stripes come one after the other where their keys do not overlap, which is nearly always so; those that overlap are
brought into order together. A stripe that is large already, of which no row must go, is copied by its bytes; rows of
all others are decoded, and encoded again in stripes of the size that was asked for. Decoding and encoding run on
several threads, a few stripes ahead of what has been written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.orc.acid_reader import SMALL_FILE_BYTES, AcidFileReader, FileToRead
from hive_ingest.orc.delete_events import DeleteEvents
from hive_ingest.orc.file_writer import AcidFile
from hive_ingest.orc.merge_input import InputStripe, MergeInput
from hive_ingest.orc.merge_rows import RowConversion, Rows, StripeDecoder
from hive_ingest.orc.stripe_encoder import EncodedStripes, StripeEncoder
from hive_ingest.orc.stripe_output import StripeOutput, WholeStripe, file_traits
from hive_ingest.orc.tail import OrcTail
from hive_ingest.storage import FileStore, Location

#: Files that are kept in memory between finding their bounds and reading their rows, at most so many.
_KEPT_BYTES, _KEPT_FILES = 64 << 20, 2048
#: Small stripes that one task decodes.
_TASK_STRIPES, _TASK_BYTES = 32, 8 << 20
_OPENED_AT_ONCE = 32

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How files are merged.

    Attributes:
        encoder: For what is encoded: columns, compression, row index.
        conversion: From the columns of a file to the table's, or None where they are written as they are.
        stripe_bytes: Rows of a stripe that is encoded, as they lie in memory. A stripe of at least half as much is
            large: it is copied where that is possible.
        sync: Whether the file is on the device when it is finished.
    """

    encoder: StripeEncoder
    conversion: Callable[[AcidFileReader], RowConversion | None]
    stripe_bytes: int = 64 << 20
    sync: bool = True

    @property
    def large_stripe_bytes(self) -> int:
        return self.stripe_bytes // 2


def merge_rows(
    store: FileStore,
    files: Sequence[FileToRead],
    target: Location,
    options: MergeOptions,
    *,
    valid_write_ids: ValidWriteIdList,
    deletes: DeleteEvents | None = None,
    executor: Executor,
    threads: int,
    done: Callable[[FileToRead], None] = lambda file: None,
) -> AcidFile | None:
    """Merge files of inserted rows of one bucket into the new file `target`; the files stay.

    Args:
        store: The store of the files.
        files: What to merge, in any order.
        target: Where there is no file yet.
        options: Columns, sizes and so on.
        valid_write_ids: Rows of other write ids are left out, in files with `check_write_ids`.
        deletes: Rows that they hit are left out.
        executor: Runs the decoding and encoding; not the one that runs this call.
        threads: How many tasks run at once, at most: the memory taken is about twice as many stripes.
        done: Called with each file, once all of it has been read.

    Returns:
        The file; None if no row is left, and then there is none.

    Raises:
        CorruptFile: A file is damaged. In each case nothing is left of the target.
        UnsupportedFeature: A file holds what cannot be written.
        StreamingIOFailure: A file cannot be read or written.
    """
    inputs = _opened(store, files, executor, threads)
    stripes = sorted((stripe for source in inputs for stripe in source.stripes), key=lambda s: (s.low, s.high))
    decoder = StripeDecoder(options.encoder.schema, options.conversion, valid_write_ids, deletes)
    alone = _alone(stripes)
    like = _common_traits(stripes, alone, decoder, options)
    copied = _copied(stripes, alone, like, options)
    with StripeOutput(target.store, target.path, like=like, sync=options.sync) as output:
        with closing(_Writer(output, options, executor, threads)) as writer:
            tasks = _tasks(stripes, copied)
            for task, results in _in_order(executor, threads, lambda task: task.run(decoder), tasks):
                for stripe, result in zip(task.stripes, results, strict=True):
                    writer.add(stripe, result, is_alone=stripe in alone)
                    if stripe.is_last:
                        done(stripe.source.file)
            writer.finish()
        return output.finish()


def _opened(store: FileStore, files: Sequence[FileToRead], executor: Executor, threads: int) -> list[MergeInput]:
    parts = [files[at : at + _OPENED_AT_ONCE] for at in range(0, len(files), _OPENED_AT_ONCE)]
    kept = _to_keep(files)

    def open_part(part: Sequence[FileToRead]) -> list[MergeInput]:
        return [MergeInput(store, file, keep=file.path in kept) for file in part]

    return [source for _, part in _in_order(executor, threads, open_part, parts) for source in part]


def _to_keep(files: Sequence[FileToRead]) -> set[str]:
    kept: set[str] = set()
    size = 0
    for file in files:
        if file.size_bytes <= SMALL_FILE_BYTES and len(kept) < _KEPT_FILES and size < _KEPT_BYTES:
            kept.add(file.path)
            size += file.size_bytes
    return kept


# -- what is copied --------------------------------------------------------------------------------


def _alone(stripes: Sequence[InputStripe]) -> frozenset[InputStripe]:
    """Stripes whose keys no other's overlap, of stripes in order."""
    found = set()
    highest = None
    for i, stripe in enumerate(stripes):
        is_after = highest is None or stripe.low > highest
        highest = stripe.high if highest is None else max(highest, stripe.high)
        if is_after and (i + 1 == len(stripes) or stripes[i + 1].low > highest):
            found.add(stripe)
    return frozenset(found)


def _is_whole(stripe: InputStripe, alone: frozenset[InputStripe], options: MergeOptions) -> bool:
    """Large, with a known last key, and complete."""
    return (
        stripe in alone
        and stripe.has_last_key
        and stripe.estimated_bytes >= options.large_stripe_bytes
        and stripe.source.file.length_bytes is None
        and not file_traits(stripe.source.tail)["encryption"]
    )


def _common_traits(
    stripes: Sequence[InputStripe], alone: frozenset[InputStripe], decoder: StripeDecoder, options: MergeOptions
) -> OrcTail:
    """The traits of the output: those of what is encoded, or of another writer if all can be copied from its files."""
    encoded = options.encoder.like
    if not stripes or not all(_is_whole(stripe, alone, options) for stripe in stripes):
        return encoded
    first = stripes[0].source.tail
    traits = file_traits(first)
    tails = {id(stripe.source): stripe.source for stripe in stripes}.values()
    if (
        any(decoder.may_lose_rows(stripe) for stripe in stripes)
        or any(file_traits(source.tail) != traits for source in tails)
        or not all(source.has_columns_of(options.encoder.schema) for source in tails)
    ):
        return encoded
    return first


def _copied(
    stripes: Sequence[InputStripe], alone: frozenset[InputStripe], like: OrcTail, options: MergeOptions
) -> frozenset[InputStripe]:
    traits = file_traits(like)
    fitting = {id(s.source) for s in stripes if _is_whole(s, alone, options) and file_traits(s.source.tail) == traits}
    return frozenset(s for s in stripes if id(s.source) in fitting and _is_whole(s, alone, options))


# -- tasks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    """Stripes that are read together, on one thread."""

    stripes: tuple[InputStripe, ...]
    is_copied: bool

    def run(self, decoder: StripeDecoder) -> list[WholeStripe | Rows]:
        if self.is_copied:
            return [decoder.copy(stripe) for stripe in self.stripes]
        return [decoder.decode(stripe) for stripe in self.stripes]


def _tasks(stripes: Sequence[InputStripe], copied: frozenset[InputStripe]) -> Iterator[_Task]:
    """Small stripes that follow each other go together: a task costs as much as some hundred rows."""
    group: list[InputStripe] = []
    size = 0
    for stripe in stripes:
        is_copied = stripe in copied
        if group and (is_copied or size + stripe.estimated_bytes > _TASK_BYTES or len(group) == _TASK_STRIPES):
            yield _Task(tuple(group), is_copied=False)
            group, size = [], 0
        if is_copied:
            yield _Task((stripe,), is_copied=True)
        else:
            group.append(stripe)
            size += stripe.estimated_bytes
    if group:
        yield _Task(tuple(group), is_copied=False)


def _in_order(
    executor: Executor, ahead: int, function: Callable[[_T], _R], items: Iterable[_T]
) -> Iterator[tuple[_T, _R]]:
    """Each item with its result, in order; at most so many are computed ahead."""
    waiting: deque[tuple[_T, Future[_R]]] = deque()
    try:
        for item in items:
            if len(waiting) > ahead:
                first, future = waiting.popleft()
                yield first, future.result()
            waiting.append((item, executor.submit(function, item)))
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        wait([future for _, future in waiting if not future.cancel()])


# -- writing ---------------------------------------------------------------------------------------


class _Writer:
    """Puts copied stripes and rows into the output, in order."""

    def __init__(self, output: StripeOutput, options: MergeOptions, executor: Executor, threads: int) -> None:
        self._output = output
        self._options = options
        self._executor = executor
        self._threads = threads
        #: Rows of overlapping stripes, of which more may come in between.
        self._pending: Rows | None = None
        #: Rows of the next stripe.
        self._rows: list[Rows] = []
        self._rows_bytes = 0
        self._encoding: deque[Future[EncodedStripes]] = deque()

    def add(self, stripe: InputStripe, result: WholeStripe | Rows, *, is_alone: bool) -> None:
        if self._pending is not None:
            ready, self._pending = self._pending.split(stripe.low)
            self._take(ready)
        if isinstance(result, WholeStripe):
            self._flush()
            with stripe.source.reader() as reader:
                self._output.append(reader.content, result)
        elif is_alone:
            self._take(result)
        else:
            self._pending = result if self._pending is None else self._pending.merged(result)

    def finish(self) -> None:
        if self._pending is not None:
            self._take(self._pending)
            self._pending = None
        self._flush()

    def close(self) -> None:
        """Wait for what still runs, after an error."""
        wait([future for future in self._encoding if not future.cancel()])

    def _take(self, rows: Rows) -> None:
        limit = self._options.stripe_bytes
        size = rows.batch.nbytes
        parts = max(1, size // limit)
        step = -(-len(rows) // parts)
        for start in range(0, len(rows), step or 1):
            part = rows.slice(start, min(start + step, len(rows)))
            self._rows.append(part)
            self._rows_bytes += size // parts
            if self._rows_bytes >= limit:
                self._encode()

    def _encode(self) -> None:
        rows, self._rows, self._rows_bytes = self._rows, [], 0
        batches, keys = [part.batch for part in rows], [part.keys for part in rows]
        encode = self._options.encoder.encode
        self._encoding.append(self._executor.submit(encode, batches, keys, self._output.path))
        while len(self._encoding) > self._threads:
            self._encoding.popleft().result().append_to(self._output)

    def _flush(self) -> None:
        if self._rows:
            self._encode()
        while self._encoding:
            self._encoding.popleft().result().append_to(self._output)
