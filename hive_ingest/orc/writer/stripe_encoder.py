"""Rows encoded into stripes in memory, so that several threads can encode stripes of one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, chain
from typing import TypeAlias

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import ROW, Key, acid_schema
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.format.stripe_statistics import stripe_statistics
from hive_ingest.orc.format.tail import PROLEPTIC_GREGORIAN, OrcTail, read_tail
from hive_ingest.orc.keyed_rows import Rows
from hive_ingest.orc.normalise import has_early_fractions
from hive_ingest.orc.writer.early_timestamps import with_early_timestamps
from hive_ingest.orc.writer.file_writer import (
    BATCH_ROWS,
    DEFAULT_COMPRESSION,
    DEFAULT_ROW_INDEX_STRIDE,
    DEFAULT_STRIPE_SIZE_BYTES,
    no_rows,
    orc_writer,
)
from hive_ingest.orc.writer.stripe_output import StripeOutput, WholeStripe
from hive_ingest.storage import BytesLike

#: The most rows that are passed to the ORC library at once. Their bytes are far below 2 GiB, where a column of text
#: would overflow; and a stripe of large rows can end only where a call ends.
_JOINED_ROWS, _JOINED_BYTES = 8 * BATCH_ROWS, 1 << 26
#: The most bytes of rows that are encoded into one file, by the size of a stripe. The library ends a stripe by the size
#: of what it has encoded, and holds a text once that is repeated: whole, the rows of a stripe must be readable too.
_MOST_STRIPES = 2


#: A stripe with its bytes, in parts.
EncodedStripe: TypeAlias = tuple[WholeStripe, Sequence[BytesLike]]


@dataclass(frozen=True, slots=True)
class EncodedStripes:
    """The result of `StripeEncoder.encode`: one stripe, as a rule; none without rows."""

    stripes: tuple[EncodedStripe, ...]

    def append_to(self, output: StripeOutput) -> None:
        for stripe, parts in self.stripes:
            output.append_parts(parts, stripe)


@dataclass(frozen=True)
class StripeEncoder:
    """Encodes rows of the ACID schema. Several threads may use it at once.

    Attributes:
        schema: The table's columns, without partition keys.
        compression: A value of Hive's `orc.compress`.
        stripe_bytes: The size of a stripe before it is compressed, at most, about.
        row_index_stride: Rows for each entry of the row index.
        like: The tail of a file with the traits of what is encoded.
    """

    schema: pa.Schema
    compression: str = DEFAULT_COMPRESSION
    stripe_bytes: int = DEFAULT_STRIPE_SIZE_BYTES
    row_index_stride: int = DEFAULT_ROW_INDEX_STRIDE
    like: OrcTail = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Raises ConfigurationError, UnsupportedFeature: see `AcidFileWriter`."""
        object.__setattr__(self, "like", _tail_of(self))

    def empty_file(self) -> pa.BufferReader:
        """A whole file without rows."""
        return pa.BufferReader(self._file([], "an empty file")[0])

    def encode(self, parts: Iterable[Rows], path: str) -> EncodedStripes:
        """Stripes of these rows, taken one after the other.

        Args:
            parts: Rows in the ACID schema of the table, safe to write (see `normalise`), in order.
            path: The file that they go to, for messages.
        """
        found: list[EncodedStripe] = []
        rest = iter(parts)
        for first in rest:
            found += self._stripes(_up_to(_MOST_STRIPES * self.stripe_bytes, chain([first], rest)), path)
        return EncodedStripes(tuple(found))

    def _stripes(self, parts: Iterable[Rows], path: str) -> Iterator[EncodedStripe]:
        buffer, ends = self._file(parts, path)
        content = pa.BufferReader(buffer)
        tail = read_tail(content, path)
        statistics = stripe_statistics(content, tail, path)
        stripes = tail.footer.stripes
        last_rows = list(accumulate(stripe.rows for stripe in stripes))
        if statistics is None or not ends.keys() >= set(last_rows) or tail.footer.rows != next(reversed(ends)):
            raise CorruptFile(
                f"the ORC library ended a stripe of {path!r} inside a batch, or lost rows: use another release of "
                "pyarrow"
            )
        found = zip(stripes, statistics, [ends[rows] for rows in last_rows], strict=True)
        for each in found:
            whole = WholeStripe(path, *each)
            yield whole, [buffer.slice(whole.stripe.offset, whole.stripe.length)]

    def _file(self, parts: Iterable[Rows], path: str) -> tuple[pa.Buffer, dict[int, Key]]:
        """A whole file; and where a stripe may end: the number of rows before that point, and the last one's key."""
        sink = pa.BufferOutputStream()
        is_early = False
        ends: dict[int, Key] = {0: (0, 0, 0)}
        schema = acid_schema(self.schema)
        with orc_writer(
            sink,
            columns=len(self.schema),
            compression=self.compression,
            stripe_size_bytes=self.stripe_bytes,
            row_index_stride=self.row_index_stride,
        ) as writer:
            writer.write(no_rows(schema))  # pyarrow learns the columns from the first table
            for joined in _joined(parts):
                batch = pa.concat_batches([part.batch for part in joined])
                writer.write(pa.Table.from_batches([batch], schema))
                is_early = is_early or has_early_fractions(batch.column(ROW))
                keys = RowIds.concat([part.keys for part in joined])
                before = next(reversed(ends))
                for end in [*range(BATCH_ROWS, len(keys), BATCH_ROWS), len(keys)]:
                    ends[before + end] = keys.key(end - 1)
        content = sink.getvalue()
        return (with_early_timestamps(content, path) if is_early else content), ends


@lru_cache(maxsize=128)
def _tail_of(encoder: StripeEncoder) -> OrcTail:
    """Found by writing an empty file, which takes as long as encoding some thousand rows."""
    tail = read_tail(encoder.empty_file(), "an empty file")
    return replace(tail, footer=replace(tail.footer, calendar=PROLEPTIC_GREGORIAN))  # as `completed_tail` adds it


def _up_to(nbytes: int, parts: Iterable[Rows]) -> Iterator[Rows]:
    """The first of them, until they have so many bytes in memory."""
    for part in parts:
        yield part
        nbytes -= part.batch.get_total_buffer_size()
        if nbytes <= 0:
            return


def _joined(parts: Iterable[Rows]) -> Iterator[list[Rows]]:
    """Small neighbours together: a call of the ORC writer costs as much as some hundred rows."""
    waiting: list[Rows] = []
    rows = nbytes = 0
    for part in parts:
        size = part.batch.get_total_buffer_size()
        if waiting and (rows + len(part) > _JOINED_ROWS or nbytes + size > _JOINED_BYTES):
            yield waiting
            waiting, rows, nbytes = [], 0, 0
        if len(part):
            waiting.append(part)
            rows += len(part)
            nbytes += size
    if waiting:
        yield waiting
