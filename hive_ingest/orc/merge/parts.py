"""A merge of one bucket cut into ranges of keys, so that several tasks can share the work.

Hive allows one file for each bucket of a base. So a bucket that is too large for one task is split into parts; the
parts that have to be encoded are each merged into a file of their own (`merge_rows` with `keys`), and at the end the
stripes of all parts are copied into one file. Stripes that can be copied from the files to merge are copied once, by
that last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import groupby, pairwise

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import KeyRange
from hive_ingest.orc.delete_events import DeleteEvents
from hive_ingest.orc.merge.inputs import InputStripe, MergeInput, closing, ordered_stripes
from hive_ingest.orc.merge.row_files import (
    MergeOptions,
    alone_stripes,
    common_traits,
    copied_stripes,
    has_statistics,
    open_inputs,
    stripe_shares,
)
from hive_ingest.orc.merge.stripe_decoder import StripeDecoder
from hive_ingest.orc.reader.acid_reader import FileToRead
from hive_ingest.orc.writer.file_writer import AcidFile
from hive_ingest.orc.writer.stripe_output import StripeOutput, WholeStripe, file_traits
from hive_ingest.storage import Location


@dataclass(frozen=True, slots=True)
class RowPart:
    """A range of the rows of a bucket. Can be pickled.

    Attributes:
        folder: A location on the file system of the files.
        files: The files with stripes that begin in the range.
        keys: The range.
        is_copied: The stripes can be copied as they are. Otherwise they have to be merged into a file first.
        size_bytes: The size of the stripes in the files.
    """

    folder: Location
    files: tuple[FileToRead, ...]
    keys: KeyRange
    is_copied: bool
    size_bytes: int

    @classmethod
    def of_file(cls, location: Location, size_bytes: int) -> RowPart:
        """A part that has been merged into a file."""
        whole = FileToRead(location.path, None, check_write_ids=False, size_bytes=size_bytes)
        return cls(location.parent, (whole,), KeyRange(), is_copied=True, size_bytes=size_bytes)


def split_rows(
    folder: Location,
    files: Sequence[FileToRead],
    options: MergeOptions,
    *,
    part_bytes: int,
    valid_write_ids: ValidWriteIdList,
    deletes: DeleteEvents | None = None,
    executor: Executor,
    threads: int,
) -> list[RowPart]:
    """Cut a merge into parts, by the metadata of the files.

    A cut is made only between stripes, and only where no keys overlap.

    Args:
        folder: A location on the file system of the files.
        files: What to merge, in any order.
        options: As for `merge_rows`.
        part_bytes: The approximate size of a part: the bytes of its stripes in the files.
        valid_write_ids: As for `merge_rows`.
        deletes: As for `merge_rows`.
        executor: Opens the files; not the one that runs this call.
        threads: How many it opens at once.

    Returns:
        The parts in the order of their keys. Empty where splitting brings nothing: at most one part would have to be
        encoded.

    Raises:
        CorruptFile, UnsupportedFeature, StreamingIOFailure: As `merge_rows`.
    """
    inputs = open_inputs(folder.store, files, executor, threads)
    stripes = ordered_stripes(inputs)
    alone = alone_stripes(stripes)
    decoder = StripeDecoder(options.encoder.schema, options.conversion, valid_write_ids, deletes)
    if common_traits(stripes, alone, decoder, options) is not options.encoder.like:
        return []  # every stripe is copied, from files of another writer
    copied = copied_stripes(stripes, alone, options.encoder.like, options)
    with closing(inputs):
        whole = {source for source in {stripe.source for stripe in copied} if has_statistics(source)}
    copied = frozenset(s for s in copied if s.source in whole and not decoder.may_lose_rows(s))
    groups = list(_groups(stripes, alone, _in_long_runs(stripes, copied, part_bytes), part_bytes))
    if sum(not is_copied for is_copied, _ in groups) < 2:
        return []
    lows = [None, *(group[0].low for _, group in groups[1:]), None]
    return [
        RowPart(
            folder,
            tuple(dict.fromkeys(stripe.source.file for stripe in group)),
            KeyRange(low, end),
            is_copied,
            sum(stripe.file_bytes for stripe in group),
        )
        for (is_copied, group), (low, end) in zip(groups, pairwise(lows), strict=True)
    ]


def _groups(
    stripes: Sequence[InputStripe], alone: frozenset[InputStripe], copied: frozenset[InputStripe], part_bytes: int
) -> Iterator[tuple[bool, tuple[InputStripe, ...]]]:
    def number(total_bytes: float) -> int:
        return -int(-total_bytes // part_bytes)

    for is_copied, run in groupby(stripes, copied.__contains__):
        if is_copied:
            yield True, tuple(run)
        else:
            for share in stripe_shares(list(run), alone, number, lambda stripe: stripe.file_bytes):
                yield False, share


def _in_long_runs(
    stripes: Sequence[InputStripe], copied: frozenset[InputStripe], part_bytes: int
) -> frozenset[InputStripe]:
    """Without short runs between stripes to encode: they would make many small parts."""
    found: list[InputStripe] = []
    for is_copied, run in groupby(stripes, copied.__contains__):
        group = list(run)
        if is_copied and sum(stripe.file_bytes for stripe in group) >= part_bytes:
            found += group
    return frozenset(found)


def join_rows(
    parts: Sequence[RowPart],
    target: Location,
    options: MergeOptions,
    *,
    executor: Executor,
    threads: int,
) -> AcidFile | None:
    """Copy the stripes of all parts into the new file `target`.

    Args:
        parts: Those of `split_rows`, in order; instead of each that is not copied, the file that it was merged into,
            if it has rows.
        target: The new file, which must not exist.
        options: Those with which the parts were merged.
        executor: Opens the files; not the one that runs this call.
        threads: How many it opens at once.

    Returns:
        The file; None if there are no rows, and then no file is left.

    Raises:
        CorruptFile: A file is damaged, or is not the one that was split. Nothing is left of the target.
        StreamingIOFailure: A file cannot be read or written.
    """
    last: InputStripe | None = None
    with StripeOutput(target.store, target.path, like=options.encoder.like, sync=options.sync) as output:
        for part in parts:
            inputs = open_inputs(part.folder.store, part.files, executor, threads)
            with closing(inputs):
                for source, group in groupby(ordered_stripes(inputs, part.keys), lambda stripe: stripe.source):
                    last = _copy(source, list(group), output, options, last)
        return output.finish()


def _copy(
    source: MergeInput,
    stripes: Sequence[InputStripe],
    output: StripeOutput,
    options: MergeOptions,
    last: InputStripe | None,
) -> InputStripe:
    """Copies stripes of one file, and returns the last one."""
    path = source.file.path
    with source.reader() as reader:
        statistics = source.statistics(reader)
        if statistics is None or file_traits(source.tail) != file_traits(options.encoder.like):
            raise CorruptFile(f"{path!r} is not a file whose stripes can be copied: it was changed meanwhile")
        for stripe in stripes:
            # Not its low bound: that of a file's first stripe may be below all of its keys.
            if last is not None and stripe.high <= last.high:
                raise CorruptFile(f"{path!r} holds rows up to {stripe.high}, after those up to {last.high}")
            found = source.tail.footer.stripes[stripe.number]
            output.append(reader.content, WholeStripe(path, found, statistics[stripe.number], stripe.high))
            last = stripe
    assert last is not None
    return last
