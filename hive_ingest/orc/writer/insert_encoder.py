"""Inserted rows encoded into stripes in memory; several threads may do so for one file.

The ORC library encodes the table's columns. The columns with the rows' ids (`key_columns`) are then put before them: a
stripe consists of the row indexes of all columns, their data, and a footer that lists these streams, so columns that
were encoded separately make one stripe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import ROW
from hive_ingest.orc.format.codec import pack, unpack
from hive_ingest.orc.format.protobuf import WireError, bytes_field, scan_fields
from hive_ingest.orc.format.stripe_statistics import stripe_statistics
from hive_ingest.orc.format.stripe_streams import (
    DATA,
    INDEXES,
    ROW_INDEX,
    StripeFooter,
    encode_stripe_footer,
    packed_stripe_footer,
    parse_stripe_footer,
)
from hive_ingest.orc.format.tail import OrcTail, Stripe, read_tail
from hive_ingest.orc.normalise import has_early_fractions, normalise
from hive_ingest.orc.writer.early_timestamps import with_early_timestamps
from hive_ingest.orc.writer.file_writer import (
    BATCH_ROWS,
    DEFAULT_COMPRESSION,
    DEFAULT_ROW_INDEX_STRIDE,
    DEFAULT_STRIPE_SIZE_BYTES,
    no_rows,
    orc_writer,
)
from hive_ingest.orc.writer.key_columns import KEY_COLUMNS, KEY_ENCODING, InsertedRows, KeyColumn, key_columns
from hive_ingest.orc.writer.small_stripes import SMALL_STRIPE_BYTES, Stream, compressed_streams
from hive_ingest.orc.writer.stripe_encoder import EncodedStripe, EncodedStripes, StripeEncoder
from hive_ingest.orc.writer.stripe_output import WholeStripe

#: The parts of a stripe up to this size are joined: to write each takes longer than to copy some KiB.
_JOINED_BYTES = 128 * 1024


@dataclass(frozen=True)
class InsertEncoder:
    """Encodes inserted rows with their ids. Several threads may use it at once.

    Attributes:
        schema: The table's columns, without partition keys.
        compression: A value of Hive's `orc.compress`.
        stripe_bytes: The approximate size of a stripe before compression.
        row_index_stride: Rows for each entry of the row index.
        like: The tail of a file with the properties of what is encoded.
    """

    schema: pa.Schema
    compression: str = DEFAULT_COMPRESSION
    stripe_bytes: int = DEFAULT_STRIPE_SIZE_BYTES
    row_index_stride: int = DEFAULT_ROW_INDEX_STRIDE
    like: OrcTail = field(init=False)

    def __post_init__(self) -> None:
        """Raises ConfigurationError, UnsupportedFeature: see `AcidFileWriter`."""
        like = StripeEncoder(self.schema, compression=self.compression, row_index_stride=self.row_index_stride).like
        object.__setattr__(self, "like", like)

    def encode(self, batches: Iterable[pa.RecordBatch], inserted: InsertedRows, path: str) -> EncodedStripes:
        """One stripe, or several if the rows exceed `stripe_bytes`; none without rows.

        Args:
            batches: The rows. Columns are matched by position and cast to the schema's types if that is lossless.
            inserted: The ids of the rows.
            path: The file that they go to, for messages.

        Raises:
            SerializationError: The rows do not fit.
        """
        return self.encode_rows((normalise(batch, self.schema) for batch in batches), inserted, path)

    def encode_rows(self, rows: Iterable[pa.StructArray], inserted: InsertedRows, path: str) -> EncodedStripes:
        """The same for rows that `normalise` has made safe to write."""
        is_small = False
        if inserted.rows <= self.row_index_stride:
            rows = list(rows)
            is_small = sum(part.nbytes for part in rows) <= SMALL_STRIPE_BYTES
        # `_streams` compresses those of a small stripe.
        content = self._encoded(rows, path, self.stripe_bytes, compress=not is_small)
        tail = read_tail(pa.BufferReader(content), path)
        if tail.footer.rows != inserted.rows:
            raise CorruptFile(f"{path!r} was given {inserted.rows} rows, but its stripes have {tail.footer.rows}")
        counts = [stripe.rows for stripe in tail.footer.stripes]
        ids = [
            inserted.slice(start, count) for start, count in zip(accumulate(counts, initial=0), counts, strict=False)
        ]
        return EncodedStripes(tuple(self._with_ids(content, tail, ids, path)))

    def encode_each(
        self, batches: Sequence[pa.RecordBatch], inserted: Sequence[InsertedRows], path: str
    ) -> list[EncodedStripes]:
        """What `encode` returns for each of several small batches, which go to different files.

        The ORC library writes all of them into one file in memory, with a stripe for each: its writer takes longer to
        create, and the tail of its file to parse, than some hundred rows to encode.

        Args:
            batches: The rows of each file: at least one, at most `row_index_stride`.
            inserted: The ids of the rows of each file.
            path: The prefix of the files, for messages.

        Raises:
            SerializationError: The rows do not fit.
        """
        rows = [normalise(batch, self.schema) for batch in batches]
        found = None if any(map(has_early_fractions, rows)) else self._encoded_together(rows, inserted, path)
        return found or [self.encode_rows([part], ids, path) for part, ids in zip(rows, inserted, strict=True)]

    def _encoded_together(
        self, rows: Sequence[pa.StructArray], inserted: Sequence[InsertedRows], path: str
    ) -> list[EncodedStripes] | None:
        """None where the library puts rows of several files into one stripe.

        It ends a stripe after a batch only once it has bytes of it, and holds back up to 512 integers.
        """
        content = self._encoded(rows, path, 1, compress=False, batch_rows=max(map(len, rows)))
        tail = read_tail(pa.BufferReader(content), path)
        if [stripe.rows for stripe in tail.footer.stripes] != [ids.rows for ids in inserted]:
            return None
        return [EncodedStripes((stripe,)) for stripe in self._with_ids(content, tail, inserted, path)]

    def _encoded(
        self,
        rows: Iterable[pa.StructArray],
        path: str,
        stripe_bytes: int,
        *,
        compress: bool,
        batch_rows: int = BATCH_ROWS,
    ) -> pa.Buffer:
        """A file with the table's columns in the struct `row`."""
        sink = pa.BufferOutputStream()
        schema = pa.schema([(ROW, pa.struct(list(self.schema)))])
        with orc_writer(
            sink,
            columns=len(self.schema),
            compression=self.compression,
            stripe_size_bytes=stripe_bytes,
            row_index_stride=self.row_index_stride,
            compress=compress,
            batch_rows=batch_rows,
        ) as writer:
            is_empty, is_early = True, False
            for part in rows:
                writer.write(pa.Table.from_arrays([part], schema=schema))
                is_empty, is_early = False, is_early or has_early_fractions(part)
            if is_empty:  # pyarrow learns the columns from the first table, and writes nothing without one
                writer.write(no_rows(schema))
        return with_early_timestamps(sink.getvalue(), path) if is_early else sink.getvalue()

    def _with_ids(
        self, content: pa.Buffer, tail: OrcTail, inserted: Sequence[InsertedRows], path: str
    ) -> list[EncodedStripe]:
        """The stripes of a file of the library, each with the ids of its rows."""
        statistics = stripe_statistics(pa.BufferReader(content), tail, path)
        data = memoryview(content)
        try:
            found = zip(tail.footer.stripes, statistics or [], inserted, strict=True)
            return [self._stripe_with_ids(data, tail, *each, path) for each in found]
        except (WireError, ValueError) as error:
            raise CorruptFile(
                f"the ORC library wrote a stripe of {path!r} that is not understood ({error}): use another release of "
                "pyarrow"
            ) from error

    def _stripe_with_ids(
        self, data: memoryview, tail: OrcTail, stripe: Stripe, of_row: bytes, ids: InsertedRows, path: str
    ) -> EncodedStripe:
        columns = key_columns(
            ids,
            row_index_stride=self.row_index_stride,
            codec=self.like.postscript.codec,
            block_size=self.like.postscript.block_size,
        )
        footer, streams = self._streams(data, stripe, tail)
        parts, lengths = self._joined(streams, footer, columns)
        placed = Stripe(0, *lengths, stripe.rows)
        whole = WholeStripe(path, placed, _joined_statistics(of_row, columns), ids.last_key)
        return whole, [b"".join(parts)] if placed.length <= _JOINED_BYTES else parts

    def _streams(self, data: memoryview, stripe: Stripe, tail: OrcTail) -> tuple[StripeFooter, list[Stream]]:
        """The footer of a stripe, and its streams with the compression of the file that it is for."""
        codec, block_size = tail.postscript.codec, tail.postscript.block_size
        footer = parse_stripe_footer(unpack(packed_stripe_footer(data, stripe), codec, block_size))
        streams: list[Stream] = []
        at = stripe.offset
        for kind, column, length in footer.streams:
            streams.append((kind, column, data[at : at + length]))
            at += length
        if at != stripe.offset + stripe.index_length + stripe.data_length:
            raise WireError("its streams are not as long as the stripe")
        like = self.like.postscript
        return footer, streams if codec == like.codec else compressed_streams(streams, like.codec, like.block_size)

    def _joined(
        self, streams: list[Stream], footer: StripeFooter, columns: list[KeyColumn]
    ) -> tuple[list[bytes | memoryview], tuple[int, int, int]]:
        """The bytes of a stripe with the columns after its root, and the lengths of indexes, data and footer."""
        indexes = sum(kind in INDEXES for kind, _, _ in streams)
        if streams[0][:2] != (ROW_INDEX, 0) or any(kind in INDEXES for kind, _, _ in streams[indexes:]):
            raise WireError("its streams are in another order")
        numbered = list(enumerate(columns, 1))
        joined: list[Stream] = [
            streams[0],
            *((ROW_INDEX, number, column.row_index) for number, column in numbered),
            *map(_renumbered, streams[1:indexes]),
            *((DATA, number, column.data) for number, column in numbered),
            *map(_renumbered, streams[indexes:]),
        ]
        listed = tuple((kind, column, len(content)) for kind, column, content in joined)
        encodings = (footer.encodings[0], *[KEY_ENCODING] * KEY_COLUMNS, *footer.encodings[1:])
        message = encode_stripe_footer(StripeFooter(listed, encodings, footer.time_zone))
        packed = pack(message, self.like.postscript.codec, self.like.postscript.block_size)
        index_length = sum(length for _, _, length in listed[: indexes + KEY_COLUMNS])
        data_length = sum(length for _, _, length in listed[indexes + KEY_COLUMNS :])
        return [*(content for _, _, content in joined), packed], (index_length, data_length, len(packed))


def _renumbered(stream: Stream) -> Stream:
    kind, column, content = stream
    if not column:
        raise WireError("its root has values of its own")
    return kind, column + KEY_COLUMNS, content


def _joined_statistics(of_row: bytes, columns: list[KeyColumn]) -> bytes:
    """A `StripeStatistics` message with those of the columns after that of the root."""
    (_, _, _, end), *_ = scan_fields(of_row)
    return b"".join([of_row[:end], *(bytes_field(1, column.statistics) for column in columns), of_row[end:]])
