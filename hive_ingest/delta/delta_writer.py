"""Writes a group of rows to one ACID file: spills while records arrive, one joined file at the end.

The caller passes write id, bucket and statement id, and no metastore is used, so an executor that takes part in
another process's transaction runs the same code.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from hive_ingest.acid import BaseName, BucketFileName, DeltaName, encode_bucket, partition_name
from hive_ingest.config import StreamingSettings
from hive_ingest.delta.routing import GroupKey
from hive_ingest.delta.row_buffer import one_batch
from hive_ingest.model import Table, WriteId
from hive_ingest.orc import AcidFile, AcidOrcWriter, EncodedStripes, InsertedRows, InsertEncoder, StripeOutput, join
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import FileStore, Location, local_spill_folder
from hive_ingest.transactions import StagedFile

#: The compression of a table without `orc.compress`. (Hive's own default is ZLIB; set it for Hive 3.1.)
DEFAULT_COMPRESSION = "ZSTD"
#: The most rows that are encoded in one call. Their size is far below 2 GiB, where a
#: column of text would overflow.
_JOINED_ROWS, _JOINED_BYTES = 8192, 1 << 28
#: The most files that are open while they are being closed.
_MOST_CLOSING = 64
#: The least that a thread encodes at commit, in bytes of rows in memory: each part becomes a stripe.
_MIN_PART_BYTES = 384 << 10
#: The most rows of a group that `finish_small` encodes: fewer than an entry of the row index has.
MOST_SMALL_ROWS = 8192


def compression_of(table: Table) -> str:
    """The value of `orc.compress`, in capitals."""
    return table.properties.get("orc.compress", DEFAULT_COMPRESSION).upper()


@dataclass(frozen=True)
class DeltaTarget:
    """The destination of the rows of one writer in one transaction.

    `staging` is the prefix of the hidden names of this writer's files, on the table's file system;
    `writer_bucket` is the bucket number that it owns in an unbucketed table.
    """

    table: Table
    write_id: WriteId
    staging: Location
    statement_id: int = 0
    static_values: tuple[str, ...] = ()
    writer_bucket: int = 0
    #: Whether the rows replace the existing ones (Hive: INSERT OVERWRITE) instead of being added to them.
    is_overwrite: bool = False
    #: Whether this process commits the transaction: its finished files may stay in memory until they are published.
    is_committed_here: bool = False

    @cached_property
    def folder_name(self) -> str:
        """`delta_0000004_0000004_0000`; `base_0000004` for an overwrite, whatever the statement."""
        if self.is_overwrite:
            return str(BaseName(self.write_id))
        return str(DeltaName(self.write_id, self.write_id, self.statement_id))

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the table's data columns."""
        return arrow_schema(self.table.columns)

    @cached_property
    def table_folder(self) -> Location:
        return Location.of(self.table.location)


class DeltaWriter:
    """Encodes groups of rows into ORC files with hidden names. Several threads may use it at once."""

    def __init__(self, target: DeltaTarget, settings: StreamingSettings) -> None:
        self._target = target
        self._settings = settings
        self._staging = target.staging
        self._numbers = itertools.count()
        self._files: list[Location] = []
        self._has_folder = False
        self._closing: deque[Future[None]] = deque()

    @property
    def store(self) -> FileStore:
        """Of the finished files."""
        return self._staging.store

    def files_at_a_time(self, row_bytes: int) -> int:
        """How many files with so many bytes of rows are finished at a time, because each waits for the store."""
        stays_in_memory = self._target.is_committed_here and row_bytes < self.store.kept_bytes
        return 1 if stays_in_memory else self.store.parallel_files

    def new_spill(self, suffix: str) -> Location:
        """A new name for rows that are read back: a hidden one, or one on a local disk if the table's store is slow."""
        return self._new_file(local_spill_folder() if self.store.spills_locally else self._staging_folder(), suffix)

    def _new_output(self, key: GroupKey) -> Location:
        """A new hidden name for a file that is to be published."""
        target = self._target
        file = self._new_file(self._staging_folder(), ".orc")
        partition = partition_name([each.name for each in target.table.partition_keys], key.partition)
        folder = f"{partition}/{target.folder_name}" if partition else target.folder_name
        file.announce_rename(target.table_folder / f"{folder}/{_file_name(key)}", here=target.is_committed_here)
        return file

    def _staging_folder(self) -> Location:
        """The first call creates it."""
        folder = self._staging.parent
        if not self._has_folder:
            # Not its parents: if the table's folder is missing, its file system is probably not mounted.
            folder.make_folder(parents=False)
            self._has_folder = True
        return folder

    def _new_file(self, folder: Location, suffix: str) -> Location:
        file = folder / f"{self._staging.name}.{next(self._numbers)}{suffix}"
        self._files.append(file)
        return file

    def encode(
        self,
        key: GroupKey,
        file: Location,
        batches: Iterable[pa.RecordBatch],
        *,
        first_row_id: int,
        sync: bool,
        wait: bool = True,
    ) -> AcidFile:
        """Write one complete ORC file with row ids from `first_row_id`. On any error the file is removed.

        Without `wait`, it is complete only after `wait_for_files`.
        """
        target = self._target
        writer = AcidOrcWriter(
            file.store,
            file.path,
            schema=target.schema,
            write_id=target.write_id,
            bucket_property=self._bucket(key),
            first_row_id=first_row_id,
            compression=compression_of(target.table),
            stripe_size_bytes=self._settings.stripe_size_bytes,
            sync=sync,
        )
        try:
            for batch in _joined(batches):
                writer.write(batch)
            return writer.close() if wait else self._begin_close(writer)
        except BaseException:
            writer.discard()
            raise

    def _begin_close(self, writer: AcidOrcWriter | StripeOutput) -> AcidFile:
        file, closed = writer.begin_close()
        self._closing.append(closed)
        if len(self._closing) > _MOST_CLOSING:
            self._closing.popleft().result()
        return file

    def wait_for_files(self) -> None:
        """Wait until all finished files are closed. Raises StreamingIOFailure."""
        while self._closing:
            self._closing.popleft().result()

    def finish(
        self,
        key: GroupKey,
        spills: Sequence[AcidFile],
        rest: Sequence[pa.RecordBatch],
        pool: ThreadPoolExecutor | None = None,
        *,
        wait: bool = True,
    ) -> StagedFile:
        """One file from the spills of a group, in order, and the rows that were never spilled.

        With a pool, the rows of a group without spills are encoded in parts by several threads. Without `wait`, the
        file may be complete only after `wait_for_files`.
        """
        if spills:
            file = self._join(key, [*spills, *self._tail(key, spills, rest)])
        elif pool and len(parts := _parts(rest, self._settings.writer_threads)) > 1:
            file = self._encode_parts(key, self._new_output(key), parts, pool)
        else:
            sync = self._settings.fsync
            file = self.encode(key, self._new_output(key), rest, first_row_id=0, sync=sync, wait=wait)
        return self._staged(key, self._staging.parent / file.path.rpartition("/")[2], file)

    def finish_small(self, groups: Sequence[tuple[GroupKey, pa.RecordBatch]]) -> list[StagedFile]:
        """A file for each of several groups of at most `MOST_SMALL_ROWS`, encoded together.

        They may be complete only after `wait_for_files`.
        """
        ids = [InsertedRows(self._target.write_id, self._bucket(key), 0, rows.num_rows) for key, rows in groups]
        encoded = self._encoder.encode_each([rows for _, rows in groups], ids, self._staging.path)
        return [self._write(key, stripes) for (key, _), stripes in zip(groups, encoded, strict=True)]

    def _write(self, key: GroupKey, stripes: EncodedStripes) -> StagedFile:
        file = self._new_output(key)
        with StripeOutput(file.store, file.path, like=self._encoder.like, sync=self._settings.fsync) as output:
            stripes.append_to(output)
            return self._staged(key, file, self._begin_close(output))

    def _staged(self, key: GroupKey, location: Location, file: AcidFile) -> StagedFile:
        return StagedFile(
            location=location,
            partition=key.partition,
            folder_name=self._target.folder_name,
            file_name=_file_name(key),
            rows=file.rows,
            size_bytes=file.size_bytes,
        )

    @cached_property
    def _encoder(self) -> InsertEncoder:
        target = self._target
        return InsertEncoder(
            target.schema, compression=compression_of(target.table), stripe_bytes=self._settings.stripe_size_bytes
        )

    def _bucket(self, key: GroupKey) -> int:
        return encode_bucket(key.bucket, self._target.statement_id)

    def _encode_parts(
        self, key: GroupKey, file: Location, parts: Sequence[Sequence[pa.RecordBatch]], pool: ThreadPoolExecutor
    ) -> AcidFile:
        """Write one complete ORC file, with a stripe for each part."""
        encoder, bucket = self._encoder, self._bucket(key)
        encoded, first = [], 0
        for part in parts:
            ids = InsertedRows(self._target.write_id, bucket, first, sum(batch.num_rows for batch in part))
            encoded.append(pool.submit(encoder.encode, part, ids, file.path))
            first += ids.rows
        try:
            with StripeOutput(file.store, file.path, like=encoder.like, sync=self._settings.fsync) as output:
                for future in encoded:
                    future.result().append_to(output)
                return output.close()
        finally:
            for future in encoded:
                future.cancel()

    def _tail(self, key: GroupKey, spills: Sequence[AcidFile], rest: Sequence[pa.RecordBatch]) -> list[AcidFile]:
        if not any(batch.num_rows for batch in rest):
            return []
        first = sum(file.rows for file in spills)
        return [self.encode(key, self.new_spill(".spill.orc"), rest, first_row_id=first, sync=False)]

    def _join(self, key: GroupKey, files: Sequence[AcidFile]) -> AcidFile:
        spills = local_spill_folder().store if self.store.spills_locally else self.store
        output = self._new_output(key)
        joined = join(
            spills,
            [file.path for file in files],
            output,
            write_id=self._target.write_id,
            bucket_property=self._bucket(key),
            sync=self._settings.fsync,
        )
        for file in files:
            spills.delete_file(file.path)
        return joined

    def discard(self) -> None:
        """Remove every file that still has its hidden name."""
        futures.wait(self._closing)
        self._closing.clear()
        # Those first that are in memory alone: nothing else would free them if the store does not answer.
        for file in [file for file in self._files if not file.store.drop_kept(file.path)]:
            file.delete_file()
        self._files = []


def _file_name(key: GroupKey) -> str:
    return str(BucketFileName(key.bucket))


def _parts(batches: Sequence[pa.RecordBatch], most: int) -> list[list[pa.RecordBatch]]:
    """The rows in parts of about equal size, which is at least `_MIN_PART_BYTES`."""
    rows = sum(batch.num_rows for batch in batches)
    count = min(most, sum(batch.nbytes for batch in batches) // _MIN_PART_BYTES)
    if count < 2:
        return [list(batches)]
    part_rows = -(-rows // count)
    parts: list[list[pa.RecordBatch]] = [[]]
    free = part_rows
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            if not free:
                parts.append([])
                free = part_rows
            taken = min(free, batch.num_rows - at)
            parts[-1].append(batch.slice(at, taken))
            at, free = at + taken, free - taken
    return parts


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small adjacent batches: a call of the ORC writer costs as much as some hundred rows."""
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        size = (
            batch.get_total_buffer_size()
        )  # the size of the array that it is a slice of: an upper bound, but cheap to compute
        if waiting and (rows + batch.num_rows > _JOINED_ROWS or nbytes + size > _JOINED_BYTES):
            yield one_batch(waiting)
            waiting, rows, nbytes = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        nbytes += size
    if waiting:
        yield one_batch(waiting)
