"""Rows of a stripe on their way into a merged file: decoded, without those that must go, in the table's types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.errors import SerializationError, StreamingError, UnsupportedFeature
from hive_ingest.orc.acid_schema import INSERT, OPERATION, ROW, WRITE_ID, acid_schema
from hive_ingest.orc.delete_events import DeleteEvents
from hive_ingest.orc.keyed_rows import Rows, in_key_order
from hive_ingest.orc.merge.inputs import KEY_COLUMNS, InputStripe
from hive_ingest.orc.normalise import is_safe, normalise
from hive_ingest.orc.reader.joined_files import JOINED_FILES, FileGroup, grouped, shares
from hive_ingest.orc.reader.stripe_reader import StripeReader, StripeRows
from hive_ingest.orc.writer.stripe_output import WholeStripe

#: From the rows that were read of a stripe to the table's columns, in order.
RowConversion = Callable[[StripeRows], list[pa.Array]]


class StripeDecoder:
    """Reads stripes; several threads may use it at once."""

    def __init__(
        self,
        schema: pa.Schema,
        conversion: Callable[[StripeReader], RowConversion | None],
        valid_write_ids: ValidWriteIdList,
        deletes: DeleteEvents | None,
    ) -> None:
        """
        Args:
            schema: The table's columns.
            conversion: For a file, how to come from its columns to the table's; None where they are the same.
            valid_write_ids: What is committed.
            deletes: Which rows are deleted.
        """
        self._schema = schema
        self._acid_schema = acid_schema(schema)
        self._is_safe = is_safe(schema)
        self._conversion = conversion
        self._valid_write_ids = valid_write_ids
        self._deletes = deletes

    def may_lose_rows(self, stripe: InputStripe) -> bool:
        """Whether a row of it may have to go; known for sure only once its keys are read."""
        return stripe.source.file.check_write_ids or self._may_be_hit(stripe)

    def copy(self, stripe: InputStripe) -> WholeStripe | Rows:
        """What has to be known to copy a stripe; its rows, if it cannot be copied after all."""
        with stripe.source.reader() as reader:
            # Another writer's rows may be updates or deletes of Hive 2, which are refused.
            if self.may_lose_rows(stripe) or reader.tail.checksums is None:
                columns = [OPERATION, *KEY_COLUMNS, WRITE_ID]
                if not self._visible(reader.read(stripe.number, columns, []), stripe).all():
                    return self._decoded(reader, stripe)
            path = stripe.source.file.path
            statistics = stripe.source.statistics(reader)
            if statistics is None:
                return self._decoded(reader, stripe)
            found = reader.tail.footer.stripes[stripe.number]
            return WholeStripe(path, found, statistics[stripe.number], stripe.high)

    def decode(self, stripes: Sequence[InputStripe], *, together: bool) -> Iterator[tuple[InputStripe, Rows]]:
        """The rows of stripes, one after the other, each with the (first) stripe that they come from.

        With `together`, small files are read many at a time; their keys must not overlap.

        Raises:
            CorruptFile, UnsupportedFeature, StreamingIOFailure: As `AcidFileReader.read`.
        """
        for can_join, run in groupby(stripes, lambda stripe: together and stripe.is_small_file):
            if can_join:
                yield from self._small_files(list(run))
                continue
            for stripe in run:
                with stripe.source.reader() as reader:
                    yield stripe, self._decoded(reader, stripe)

    def _small_files(self, stripes: Sequence[InputStripe]) -> Iterator[tuple[InputStripe, Rows]]:
        by_path = {stripe.source.file.path: stripe for stripe in stripes}
        for share in shares([stripe.source.file for stripe in stripes], first=JOINED_FILES):
            with ExitStack() as stack:
                readers = [stack.enter_context(by_path[file.path].source.reader()) for file in share]
                for group in grouped(readers):
                    yield from self._group(group, [by_path[reader.path] for reader in group.readers])

    def _group(self, group: FileGroup, stripes: Sequence[InputStripe]) -> Iterator[tuple[InputStripe, Rows]]:
        try:
            found = self._joined(group, stripes)
        except StreamingError:
            found = None  # one by one: then the error names its file
        if found is not None:
            yield stripes[0], found
            return
        for reader, stripe in zip(group.readers, stripes, strict=True):
            yield stripe, self._decoded(reader, stripe)

    def _joined(self, group: FileGroup, stripes: Sequence[InputStripe]) -> Rows | None:
        reader = group.joined
        if reader is None:
            return None
        rows = reader.read_all(0)
        keys = rows.row_ids()
        if not keys.is_ascending():
            return None
        end = 0
        for stripe in stripes:
            start, end = end, end + stripe.rows
            stripe.check(keys.key(start), keys.key(end - 1))
        return self._kept(reader, rows, self._visible(rows, *stripes))

    def _decoded(self, reader: StripeReader, stripe: InputStripe) -> Rows:
        rows = reader.read_all(stripe.number)
        found = self._kept(reader, rows, self._visible(rows, stripe))
        if len(found):
            stripe.check(found.keys.key(0), found.keys.key(len(found) - 1))
        return found

    def _kept(self, reader: StripeReader, rows: StripeRows, visible: npt.NDArray[np.bool_]) -> Rows:
        """The visible rows as they are written, in order."""
        keys = rows.row_ids()
        if not visible.all():
            rows, keys = StripeRows(rows.batch.filter(pa.array(visible))), keys.select(visible)
        return in_key_order(self._written(reader, rows), keys)

    def _visible(self, rows: StripeRows, *stripes: InputStripe) -> npt.NDArray[np.bool_]:
        """Which rows stay; of stripes of one file, or of files that are read together."""
        file = stripes[0].source.file
        if (rows.numbers(OPERATION) != INSERT).any():
            raise UnsupportedFeature(
                f"{file.path!r} holds updates or deletes among its rows, as Hive 2 wrote them: run a major compaction "
                "in Hive"
            )
        keep = np.ones(len(rows), np.bool_)
        if file.check_write_ids:
            keep &= self._valid_write_ids.valid_mask(rows.numbers(WRITE_ID))
        if self._deletes is not None and any(map(self._may_be_hit, stripes)):
            keep &= ~self._deletes.hits(rows.row_ids())
        return keep

    def _may_be_hit(self, stripe: InputStripe) -> bool:
        return self._deletes is not None and self._deletes.may_hit(stripe.low, stripe.high)

    def _written(self, reader: StripeReader, rows: StripeRows) -> pa.RecordBatch:
        """In the table's types, safe to write."""
        conversion = self._conversion(reader)
        if conversion is None and self._is_safe:
            return rows.batch
        columns = rows.batch.column(ROW).flatten() if conversion is None else conversion(rows)
        try:
            row = normalise(pa.RecordBatch.from_arrays(columns, schema=self._schema), self._schema)
        except SerializationError as error:
            raise UnsupportedFeature(
                f"{reader.path!r} holds a value that cannot be written here without changing it: {error}. Let Hive "
                "compact the table"
            ) from error
        return pa.RecordBatch.from_arrays([*rows.batch.columns[:-1], row], schema=self._acid_schema)
