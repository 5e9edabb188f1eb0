"""Rows encoded into one stripe, in memory, so that several threads can encode stripes of one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.orc as orc

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import acid_schema
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.file_writer import (
    BATCH_ROWS,
    DEFAULT_COMPRESSION,
    DEFAULT_ROW_INDEX_STRIDE,
    arrow_compression,
)
from hive_ingest.orc.stripe_output import StripeOutput, WholeStripe, stripe_statistics
from hive_ingest.orc.tail import PROLEPTIC_GREGORIAN, OrcTail, read_tail

#: Larger than all that is encoded at once: the caller decides where a stripe ends.
_NO_LIMIT_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class EncodedStripes:
    """The result of `StripeEncoder.encode`: as a rule, one stripe."""

    content: pa.BufferReader
    stripes: tuple[WholeStripe, ...]

    def append_to(self, output: StripeOutput) -> None:
        for stripe in self.stripes:
            output.append(self.content, stripe)


@dataclass(frozen=True)
class StripeEncoder:
    """Encodes rows of the ACID schema. Several threads may use it at once.

    Attributes:
        schema: The table's columns, without partition keys.
        compression: A value of Hive's `orc.compress`.
        row_index_stride: Rows for each entry of the row index.
        like: The tail of a file with the traits of what is encoded.
    """

    schema: pa.Schema
    compression: str = DEFAULT_COMPRESSION
    row_index_stride: int = DEFAULT_ROW_INDEX_STRIDE
    like: OrcTail = field(init=False)

    def __post_init__(self) -> None:
        """Raises ConfigurationError, UnsupportedFeature: see `AcidFileWriter`."""
        tail = read_tail(pa.BufferReader(self._file(acid_schema(self.schema).empty_table())), "an empty file")
        footer = replace(tail.footer, calendar=PROLEPTIC_GREGORIAN)  # as `completed_tail` adds it
        object.__setattr__(self, "like", replace(tail, footer=footer))

    def encode(self, batches: Sequence[pa.RecordBatch], keys: Sequence[RowIds], path: str) -> EncodedStripes:
        """One stripe of these rows.

        Args:
            batches: In the ACID schema of the table, safe to write (see `normalise`).
            keys: Of the rows of each batch.
            path: The file that they go to, for messages.
        """
        content = pa.BufferReader(self._file(pa.Table.from_batches(batches)))
        tail = read_tail(content, path)
        statistics = stripe_statistics(content, tail, path)
        stripes = tail.footer.stripes
        if statistics is None or tail.footer.rows != sum(map(len, keys)):
            raise CorruptFile(f"the ORC library encoded rows for {path!r} wrongly: use another release of pyarrow")
        ends = accumulate(stripe.rows for stripe in stripes)
        last_keys = [_key_at(keys, end - 1) for end in ends]
        found = zip(stripes, statistics, last_keys, strict=True)
        return EncodedStripes(content, tuple(WholeStripe(path, *parts) for parts in found))

    def _file(self, table: pa.Table) -> pa.Buffer:
        kind, strategy = arrow_compression(self.compression)
        sink = pa.BufferOutputStream()
        with orc.ORCWriter(
            sink,
            compression=kind,
            compression_strategy=strategy,
            stripe_size=_NO_LIMIT_BYTES,
            row_index_stride=self.row_index_stride,
            batch_size=BATCH_ROWS,
        ) as writer:
            writer.write(table)
        return sink.getvalue()


def _key_at(keys: Sequence[RowIds], index: int) -> tuple[int, int, int]:
    for part in keys:
        if index < len(part):
            return part.key(index)
        index -= len(part)
    raise IndexError(index)
