"""The write of one transaction to one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hive_ingest.acid import BaseName
from hive_ingest.model import DataOperationType, Table, WriteId
from hive_ingest.storage import Location
from hive_ingest.transactions.staging import StagedFile


@dataclass(slots=True)
class TableWrite:
    """Staged files of one table, to be published and committed together.

    Attributes:
        files: Finished files under hidden names.
        may_be_overtaken: False if no other writer can have taken a higher write id before our lock was ACQUIRED.
        operation: The operation type that is recorded for the transaction.
        overwritten: Partitions ("" for the whole table) that an overwrite replaces, with rows or without.
        extra_folders: ACID folders to create although no file may go to them: an empty result of a compaction covers
            write ids too.
        partitions_created: Names of the partitions that this transaction added to the catalog.
        partition_locations: The location of each partition written; that of an unpartitioned table under "".
        version_files: Files that mark an ACID folder, written beforehand under hidden names; see
            `stage_version_files`. Those that were published are taken out. Folders beyond these get one when they are
            published.
    """

    table: Table
    write_id: WriteId
    files: Sequence[StagedFile]
    may_be_overtaken: bool = True
    operation: DataOperationType = DataOperationType.INSERT
    overwritten: Sequence[str] = ()
    extra_folders: Sequence[Location] = ()
    partitions_created: list[str] = field(default_factory=list)
    partition_locations: Mapping[str, Location] = field(default_factory=dict)
    version_files: list[Location] = field(default_factory=list)
    #: Names by partition values: each is needed several times in a commit.
    _names: dict[tuple[str | None, ...], str] = field(default_factory=dict, repr=False)

    def partition_of(self, file: StagedFile) -> str:
        """The name of the partition that a file goes to."""
        name = self._names.get(file.partition)
        if name is None:
            name = self._names[file.partition] = file.partition_name(self.table)
        return name

    def partition_names(self) -> list[str]:
        """The partitions written, each once, in order."""
        return list(dict.fromkeys([*map(self.partition_of, self.files), *self.overwritten]))

    def folder_of(self, file: StagedFile) -> Location:
        """The ACID folder that a file is published to."""
        return self.partition_locations[self.partition_of(file)] / file.folder_name

    def acid_folders(self) -> list[Location]:
        """Each ACID folder once, with those that have no rows: of an overwrite, or of a compaction."""
        bases = [self.partition_locations[name] / str(BaseName(self.write_id)) for name in self.overwritten]
        return list(dict.fromkeys([*map(self.folder_of, self.files), *bases, *self.extra_folders]))
