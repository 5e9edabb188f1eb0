"""Merging files of rows into one, in the order of their keys.

Stripes come one after the other where their keys do not overlap, which is nearly always so; those that overlap are
brought into order together. A stripe that is large already, of which no row must go, is copied by its bytes; rows of
all others are decoded, and encoded again in stripes of the size that was asked for. Decoding and encoding run on
several threads, a few stripes ahead of what has been written. Many small files are opened there too (`merge_runs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import chain, groupby

import pyarrow as pa

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.orc.acid_schema import KeyRange
from hive_ingest.orc.delete_events import DeleteEvents
from hive_ingest.orc.format.tail import OrcTail
from hive_ingest.orc.in_order import in_order
from hive_ingest.orc.keyed_rows import Rows
from hive_ingest.orc.merge.inputs import InputStripe, MergeInput, RowSizes, closing, ordered_stripes
from hive_ingest.orc.merge.runs import (
    FileRun,
    FileUnit,
    SmallFiles,
    StripeSizes,
    check_write_ids,
    equal_shares,
    file_runs,
    joinable_units,
)
from hive_ingest.orc.merge.stripe_decoder import RowConversion, StripeDecoder
from hive_ingest.orc.reader.acid_reader import FileToRead, read_small_file
from hive_ingest.orc.reader.stripe_reader import StripeReader
from hive_ingest.orc.writer.file_writer import AcidFile
from hive_ingest.orc.writer.stripe_encoder import EncodedStripes, StripeEncoder
from hive_ingest.orc.writer.stripe_output import StripeOutput, WholeStripe, file_traits
from hive_ingest.storage import FileStore, Location

#: The most files that are kept in memory between finding their bounds and reading their rows.
_KEPT_BYTES, _KEPT_FILES = 64 << 20, 2048
_READ_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How files are merged.

    Attributes:
        encoder: For what is encoded: columns, compression, row index.
        conversion: From the columns of a file to the table's, or None where they are written as they are.
        sizes: Of stripes.
        sync: Whether the file is on the device when it is finished.
    """

    encoder: StripeEncoder
    conversion: Callable[[StripeReader], RowConversion | None]
    sizes: StripeSizes
    sync: bool = True


def merge_rows(
    store: FileStore,
    files: Sequence[FileToRead],
    target: Location,
    options: MergeOptions,
    *,
    valid_write_ids: ValidWriteIdList,
    deletes: DeleteEvents | None = None,
    keys: KeyRange | None = None,
    executor: Executor,
    threads: int,
    done: Callable[[FileToRead], None] = lambda file: None,
    check: Callable[[], None] = lambda: None,
) -> AcidFile | None:
    """Merge files of inserted rows of one bucket into the new file `target`; the files stay.

    Args:
        store: The store of the files.
        files: What to merge, in any order.
        target: Where there is no file yet.
        options: Columns, sizes and so on.
        valid_write_ids: Rows of other write ids are left out, in files with `check_write_ids`.
        deletes: Rows that they hit are left out.
        keys: Only stripes that begin in this range. The output has the properties of the encoder then, so that it can
            be joined with other parts (see `merge_parts`).
        executor: Runs the decoding and encoding; not the one that runs this call.
        threads: How many tasks run at once. Each takes the memory of a stripe that is read and of one that is
            encoded, and so many results wait to be written.
        done: Called with each file, once all of it has been read.
        check: Called before each stripe, by several threads. What it raises ends the merge.

    Returns:
        The file; None if no row is left, and then there is none.

    Raises:
        CorruptFile: A file is damaged. In each case nothing is left of the target.
        UnsupportedFeature: A file holds what cannot be written.
        StreamingIOFailure: A file cannot be read or written.
    """
    sizes = RowSizes()
    decoder = StripeDecoder(options.encoder.schema, options.conversion, valid_write_ids, deletes)
    small = SmallFiles(store, files, sizes, keys, options.sizes)
    runs = file_runs(files, small.fits)
    inputs = open_inputs(store, [f for run in runs if not run.is_small for f in run.files], executor, threads)
    stripes = ordered_stripes(inputs, keys)
    alone = alone_stripes(stripes)
    like = options.encoder.like
    if keys is None and not any(run.is_small for run in runs):
        like = common_traits(stripes, alone, decoder, options)
    copied = copied_stripes(stripes, alone, like, options)
    worker = _Worker(small, decoder, options.encoder, alone, target.path, check)
    with closing(inputs), StripeOutput(target.store, target.path, like=like, sync=options.sync) as output:
        tasks = chain.from_iterable(
            (_Task(units=share) for share in small.shares(run))
            if run.is_small
            else _tasks(_of_run(stripes, run), alone, copied, options.sizes)
            for run in runs
        )
        left = Counter(stripe.source for stripe in stripes)
        for task, result in in_order(executor, threads, worker.run, tasks):
            check()
            _append(task, result, output)
            for file in task.small_files:
                done(file)
            for stripe in task.stripes:
                left[stripe.source] -= 1
                if not left[stripe.source]:
                    stripe.source.close()
                if stripe.is_last:
                    done(stripe.source.file)
        return output.finish()


def open_inputs(store: FileStore, files: Sequence[FileToRead], executor: Executor, threads: int) -> list[MergeInput]:
    """Raises CorruptFile, UnsupportedFeature, StreamingIOFailure."""
    parts = [files[at : at + _READ_AT_ONCE] for at in range(0, len(files), _READ_AT_ONCE)]
    kept = _to_keep(files)
    sizes = RowSizes()

    def read(part: Sequence[FileToRead]) -> list[pa.Buffer | None]:
        return [read_small_file(store, file) for file in part]

    # Only reading has several threads: opening takes the interpreter, and they would be in each other's way.
    return [
        MergeInput(store, file, sizes, data=data, keep=file.path in kept)
        for part, found in in_order(executor, threads, read, parts)
        for file, data in zip(part, found, strict=True)
    ]


def _to_keep(files: Sequence[FileToRead]) -> set[str]:
    kept: set[str] = set()
    size = 0
    for file in files:
        if file.is_small and len(kept) < _KEPT_FILES and size < _KEPT_BYTES:
            kept.add(file.path)
            size += file.size_bytes
    return kept


# -- what is copied --------------------------------------------------------------------------------


def alone_stripes(stripes: Sequence[InputStripe]) -> frozenset[InputStripe]:
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
        and stripe.estimated_bytes >= options.sizes.large_bytes
        and stripe.source.file.length_bytes is None
        and not file_traits(stripe.source.tail)["encryption"]
    )


def common_traits(
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
        or not all(map(has_statistics, tails))  # rows of the others have to be encoded
    ):
        return encoded
    return first


def has_statistics(source: MergeInput) -> bool:
    """Whether its stripes can be copied."""
    with source.reader() as reader:
        return source.statistics(reader) is not None


def copied_stripes(
    stripes: Sequence[InputStripe], alone: frozenset[InputStripe], like: OrcTail, options: MergeOptions
) -> frozenset[InputStripe]:
    traits = file_traits(like)
    fitting = {id(s.source) for s in stripes if _is_whole(s, alone, options) and file_traits(s.source.tail) == traits}
    return frozenset(s for s in stripes if id(s.source) in fitting and _is_whole(s, alone, options))


# -- tasks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    """Stripes that become one, on one thread; or one that is copied; or units of small files that become one stripe."""

    stripes: tuple[InputStripe, ...] = ()
    is_copied: bool = False
    units: tuple[FileUnit, ...] = ()

    @property
    def small_files(self) -> Iterator[FileToRead]:
        return (file for unit in self.units for file in unit.files)


def _of_run(stripes: Sequence[InputStripe], run: FileRun) -> list[InputStripe]:
    paths = {file.path for file in run.files}
    return [stripe for stripe in stripes if stripe.source.file.path in paths]


def _tasks(
    stripes: Sequence[InputStripe], alone: frozenset[InputStripe], copied: frozenset[InputStripe], sizes: StripeSizes
) -> Iterator[_Task]:
    for is_copied, run in groupby(stripes, copied.__contains__):
        if is_copied:
            yield from (_Task((stripe,), is_copied=True) for stripe in run)
        else:
            for share in stripe_shares(list(run), alone, sizes.number, lambda stripe: stripe.estimated_bytes):
                yield _Task(share)


def stripe_shares(
    stripes: Sequence[InputStripe],
    alone: frozenset[InputStripe],
    number: Callable[[float], int],
    size_of: Callable[[InputStripe], int],
) -> Iterator[tuple[InputStripe, ...]]:
    """See `equal_shares`; stripes that overlap stay together."""
    return equal_shares(stripes, number, size_of, lambda last, stripe: stripe in alone or last in alone)


class _Worker:
    """Runs tasks; several threads may use it at once."""

    def __init__(
        self,
        small: SmallFiles,
        decoder: StripeDecoder,
        encoder: StripeEncoder,
        alone: frozenset[InputStripe],
        path: str,
        check: Callable[[], None],
    ) -> None:
        self._small = small
        self._decoder = decoder
        self._encoder = encoder
        self._alone = alone
        self._path = path
        self._check = check

    def run(self, task: _Task) -> EncodedStripes | WholeStripe:
        if task.is_copied:
            self._check()
            copied = self._decoder.copy(task.stripes[0])
            return copied if isinstance(copied, WholeStripe) else self._encoder.encode([copied], self._path)
        rows = self._small_rows(task.units) if task.units else self._rows(task.stripes, self._alone)
        return self._encoder.encode(rows, self._path)

    def _small_rows(self, units: Sequence[FileUnit]) -> Iterator[Rows]:
        for group in joinable_units(units):
            stripes = self._small.stripes(group)
            yield from self._rows(stripes, alone_stripes(stripes))
            check_write_ids(stripes)

    def _rows(self, stripes: Sequence[InputStripe], alone: frozenset[InputStripe]) -> Iterator[Rows]:
        """Of all stripes, in order."""
        pending: Rows | None = None
        for is_alone, run in groupby(stripes, alone.__contains__):
            for first, rows in self._decoder.decode(list(run), together=is_alone):
                self._check()
                if pending is not None:
                    ready, pending = pending.split(first.low)
                    yield ready
                if is_alone:
                    yield rows
                else:
                    pending = rows if pending is None else pending.merged(rows)
        if pending is not None:
            yield pending


def _append(task: _Task, result: EncodedStripes | WholeStripe, output: StripeOutput) -> None:
    if isinstance(result, EncodedStripes):
        result.append_to(output)
        return
    with task.stripes[0].source.reader() as reader:
        output.append(reader.content, result)
