"""Writes the output files of one merge plan, whole or in parts, in any process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.compaction.conversion import conversion_to
from hive_ingest.compaction.plan import MergePlan, PlannedFile
from hive_ingest.config import MIB
from hive_ingest.delta import compression_of
from hive_ingest.model import Table
from hive_ingest.orc import (
    AcidFile,
    DeleteEvents,
    FileToRead,
    MergeOptions,
    RowPart,
    StripeEncoder,
    StripeSizes,
    join_rows,
    merge_delete_events,
    merge_rows,
    read_delete_events,
    split_rows,
)
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import Location
from hive_ingest.transactions import StagedFile


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How files are merged.

    Attributes:
        stripe_bytes: The size of one stripe's rows as Arrow data, before they are encoded.
        threads: Threads that read, decode and encode; as many buckets are merged at once.
        fsync: Whether outputs are synced to the device when they are finished.
    """

    stripe_bytes: int = 64 * MIB
    threads: int = 2
    fsync: bool = True


@dataclass(frozen=True, slots=True)
class MergeContext:
    """What all files of a plan have in common. Can be pickled.

    Attributes:
        table: Its columns are those of the output.
        partition: The values of the partition keys, as in `StagedFile`.
        location: The folder of the files to merge.
        is_major: A base is written.
        row_files: How many files of rows are written.
        valid_write_ids: Rows of other write ids are left out.
        delete_events: The rows that they delete are left out.
        settings: Sizes and threads.
    """

    table: Table
    partition: tuple[str | None, ...]
    location: Location
    is_major: bool
    row_files: int
    valid_write_ids: ValidWriteIdList
    delete_events: tuple[FileToRead, ...]
    settings: MergeSettings = field(default_factory=MergeSettings)

    @classmethod
    def of(
        cls, plan: MergePlan, table: Table, partition: tuple[str | None, ...], settings: MergeSettings
    ) -> MergeContext:
        return cls(
            table,
            partition,
            plan.location,
            plan.is_major,
            sum(not file.is_delete_events for file in plan.files),
            plan.valid_write_ids,
            plan.delete_events,
            settings,
        )

    @property
    def stripe_sizes(self) -> StripeSizes:
        """While rows are streamed in, one minor compaction after the other merges the same delta with new ones.

        So it copies stripes of middle size instead of encoding them each time; a major one makes large ones of them.
        """
        whole = self.settings.stripe_bytes
        encoders = -(-self.settings.threads // max(1, self.row_files))
        return StripeSizes(whole, whole // (4 if self.is_major else 8), encoders)


class FileMerger:
    """Merges files; several threads may use it at once."""

    def __init__(
        self,
        context: MergeContext,
        workers: Executor,
        read: Callable[[FileToRead], None] = lambda file: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            context: Of the plan.
            workers: Run the reading, decoding and encoding; not the threads that call.
            read: Called with each input that has been read.
            check: Called before each stripe, by several threads. What it raises ends the merge.
        """
        self._context = context
        self._workers = workers
        self._read = read
        self._check = check
        settings = context.settings
        self._compression = compression_of(context.table)
        self._options = MergeOptions(
            StripeEncoder(arrow_schema(context.table.columns), self._compression),
            conversion_to(context.table.columns),
            context.stripe_sizes,
            sync=settings.fsync,
        )

    @cached_property
    def deletes(self) -> DeleteEvents | None:
        """What the delete events of the plan delete: read once, 24 bytes an event. Not for several threads at once."""
        context = self._context
        if not context.delete_events:
            return None
        return read_delete_events(
            context.location.store,
            context.delete_events,
            context.valid_write_ids,
            self._workers,
            self._read,
            self._check,
        )

    def write(self, output: PlannedFile, target: Location) -> AcidFile | None:
        """Write a file of the plan; None if it would have no rows.

        Raises:
            CorruptFile, UnsupportedFeature, StreamingIOFailure: Nothing is left of the target.
        """
        self._announce(output, target)
        return self._write_events(output, target) if output.is_delete_events else self._write_rows(output, target)

    def _write_rows(self, output: PlannedFile, target: Location) -> AcidFile | None:
        context = self._context
        return merge_rows(
            context.location.store,
            output.inputs,
            target,
            self._options,
            valid_write_ids=context.valid_write_ids,
            deletes=self.deletes,
            executor=self._workers,
            threads=context.settings.threads,
            done=self._read,
            check=self._check,
        )

    def _write_events(self, output: PlannedFile, target: Location) -> AcidFile | None:
        context = self._context
        return merge_delete_events(
            context.location.store,
            output.inputs,
            target,
            schema=self._options.encoder.schema,
            valid_write_ids=context.valid_write_ids,
            executor=self._workers,
            done=self._read,
            check=self._check,
            compression=self._compression,
            stripe_size_bytes=context.settings.stripe_bytes,
            sync=context.settings.fsync,
        )

    # -- in parts ----------------------------------------------------------------------------------

    def split(self, output: PlannedFile, part_bytes: int) -> list[RowPart]:
        """See `orc.split_rows`. Raises what `write` raises."""
        context = self._context
        return split_rows(
            context.location,
            output.inputs,
            self._options,
            part_bytes=part_bytes,
            valid_write_ids=context.valid_write_ids,
            deletes=self.deletes,
            executor=self._workers,
            threads=context.settings.threads,
        )

    def write_part(self, part: RowPart, target: Location) -> AcidFile | None:
        """Write the rows of one part; None if none is left. Raises what `write` raises."""
        context = self._context
        return merge_rows(
            part.folder.store,
            part.files,
            target,
            replace(self._options, sync=False),  # it is read once, and removed
            valid_write_ids=context.valid_write_ids,
            deletes=self.deletes,
            keys=part.keys,
            executor=self._workers,
            threads=context.settings.threads,
        )

    def join(self, output: PlannedFile, parts: Sequence[RowPart], target: Location) -> AcidFile | None:
        """See `orc.join_rows`. Raises what `write` raises."""
        self._announce(output, target)
        return join_rows(
            parts,
            target,
            self._options,
            executor=self._workers,
            threads=self._context.settings.threads,
        )

    def _announce(self, output: PlannedFile, target: Location) -> None:
        target.announce_rename(self._context.location / output.folder_name / output.file_name)

    def staged(self, file: AcidFile, output: PlannedFile, target: Location) -> StagedFile:
        """A finished file, for a publisher."""
        return StagedFile(
            location=target,
            partition=self._context.partition,
            folder_name=output.folder_name,
            file_name=output.file_name,
            rows=file.rows,
            size_bytes=file.size_bytes,
        )
