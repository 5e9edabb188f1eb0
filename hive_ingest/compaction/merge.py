"""Carries out a merge plan: each output is written under a hidden name, complete and synced, for a publisher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hive_ingest.compaction.plan import MergePlan
from hive_ingest.model import Table
from hive_ingest.storage import Location
from hive_ingest.transactions import StagedFile

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How files are merged.

    Attributes:
        stripe_bytes: Rows of one stripe that is written, as Arrow holds them in memory.
        threads: Threads that read, decode and encode; as many buckets are merged at once.
        fsync: Whether outputs are on the device when they are finished.
    """

    stripe_bytes: int = 64 * MIB
    threads: int = 2
    fsync: bool = True


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """What has been done so far: input files and their bytes, and the rows and bytes written."""

    files_read: int
    bytes_read: int
    rows_written: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class MergeResult:
    """Files under their hidden names, and all folders that have to be published, also those without a file."""

    files: tuple[StagedFile, ...]
    folders: tuple[str, ...]


def merge(
    plan: MergePlan,
    table: Table,
    *,
    partition: tuple[str | None, ...] = (),
    staging: Location,
    settings: MergeSettings | None = None,
    progress: Callable[[MergeProgress], None] | None = None,
) -> MergeResult:
    """Write the files of a plan.

    Args:
        plan: From `plan_minor` or `plan_major`.
        table: Its columns are those of the output.
        partition: The values of the partition keys, as in `StagedFile`.
        staging: How the hidden names begin (see `transactions.new_staging`).
        settings: Sizes and threads.
        progress: Called now and then, by one thread at a time. What it raises ends the merge.

    Raises:
        CorruptFile: An input is damaged; the message names it.
        UnsupportedFeature: An input holds what cannot be written without a change.
        StreamingIOFailure: A file cannot be read or written.

    After an error no output is left.
    """
    raise NotImplementedError
