"""Renames staged files to their visible names, and removes them if the transaction does not commit."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import TypeVar

from hive_ingest.acid import ACID_VERSION_FILE
from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnId
from hive_ingest.orc import ACID_VERSION_CONTENT, write_acid_version
from hive_ingest.storage import FileStore, Location, copy_file
from hive_ingest.transactions.registered_folders import missing_folder
from hive_ingest.transactions.staging import StagedFile, remove_leftovers, staging_folder
from hive_ingest.transactions.table_write import TableWrite

T = TypeVar("T")


class Publisher:
    """Publishes the files of one transaction.

    It creates every ACID folder itself and changes no other: an existing `delta_5_5` belongs to another
    writer, whose rows must neither be mixed with ours nor removed with ours.
    """

    def __init__(self, txn_id: TxnId, writes: Sequence[TableWrite], *, fsync: bool) -> None:
        self._txn_id = txn_id
        self._writes = writes
        self._fsync = fsync
        self._made: list[Location] = []
        self._copies: list[Location] = []
        self._marking: list[Future[None]] = []

    @property
    def folders(self) -> list[Location]:
        """The ACID folders created so far."""
        return list(self._made)

    def bring_to_file_systems(self, client: MetastoreClient) -> None:
        """Copy each file whose partition lies on another file system than the table to a hidden name there.

        Done before the last heartbeat, because it takes as long as the files are large.

        Raises:
            StreamingIOFailure: A file cannot be copied, or the folder of a partition is missing.
            UnsupportedFeature: The partition lies on a store that is only read.
        """
        for write in self._writes:
            staging = staging_folder(Location.of(write.table.location))
            reachable = {
                name: name == "" or staging.can_rename_to(location)
                for name, location in write.partition_locations.items()
            }
            for name in (name for name, is_reachable in reachable.items() if not is_reachable):
                location = write.partition_locations[name]
                location.store.require_atomic_rename("write into", location.path)
                remove_leftovers(client, location)
            if not all(reachable.values()):
                write.files = [
                    file if reachable[name := write.partition_of(file)] else self._copied(write, name, file)
                    for file in write.files
                ]

    def _copied(self, write: TableWrite, partition: str, file: StagedFile) -> StagedFile:
        folder = staging_folder(write.partition_locations[partition])
        folder.make_folder(parents=False)
        return replace(file, location=self._copy(file, folder / file.location.name))

    def _copy(self, file: StagedFile, copy: Location) -> Location:
        self._copies.append(copy)
        copy_file(file.location, copy, sync=self._fsync)
        return copy

    def publish(self, check: Callable[[], None]) -> None:
        """Create the ACID folders and rename every file into its folder, those of all tables at the same time.

        Args:
            check: Called before each step, by several threads at once for a store with parallel renames. Raises if the
                transaction may have timed out.

        Raises:
            PathExists: An ACID folder exists already.
            StreamingIOFailure: The file system refused.
        """
        for write in self._writes:
            check()
            self._make_new_partition_folders(write)
        check()
        self._make_acid_folders()
        self._rename_files(check)
        self._remove_hidden_names()
        if self._fsync:
            self._sync()
        for marked in self._marking:
            marked.result()
        reach("after_publish")
        check()
        self._look_at_new_partitions()

    def _rename_files(self, check: Callable[[], None]) -> None:
        """And meanwhile remove the markers of the folders: where there are any, the new folders have a file already."""
        files = [(write, file) for write in self._writes for file in write.files]

        def rename(write: TableWrite, file: StagedFile) -> None:
            check()
            if file is not files[0][1]:
                reach("between_renames")
            self._rename(file, write.folder_of(file) / file.file_name)

        def unmark() -> None:
            check()
            self._unmark_folders()

        steps: list[Callable[[], None]] = [partial(rename, write, file) for write, file in files]
        if any(folder.store.first_file_makes_folder for folder in self._made):
            steps.append(unmark)
        _for_each(steps, lambda step: step(), _at_a_time([file.location for _, file in files]))

    def _rename(self, file: StagedFile, target: Location) -> None:
        try:
            file.location.publish(target)
        except StreamingIOFailure as error:
            # A bind mount looks like the same file system until something is renamed into it.
            if getattr(error.__cause__, "errno", None) != errno.EXDEV:
                raise
            self._copy(file, target.parent / f".{file.location.name}").rename(target)

    def _make_new_partition_folders(self, write: TableWrite) -> None:
        """Create missing folders of partitions that this transaction has added.

        When two writers add the same partition, a real metastore may remove the folder after the second call failed.
        """
        table = Location.of(write.table.location)
        for name in write.partitions_created:
            partition = write.partition_locations[name]
            if not partition.exists() and table.exists():
                partition.make_folder()

    def _look_at_new_partitions(self) -> None:
        """Fail if a new partition's folder was removed after files were published to it, for the same reason."""
        for write in self._writes:
            new = {write.partition_locations[name] for name in write.partitions_created}
            for folder in write.acid_folders() if new else ():
                if folder.parent in new and not folder.exists():
                    raise PathNotFound(
                        f"{str(folder)!r} was removed while its transaction was being published, as may happen when "
                        "another writer adds the same partition: write the transaction again"
                    )

    def _make_acid_folders(self) -> None:
        made = [(write, write.acid_folders()) for write in self._writes]
        folders = [folder for _, own in made for folder in own]
        _for_each(folders, self._make_acid_folder, _at_a_time(folders))
        unmarked: list[Location] = []
        for write, own in made:
            without_files = [folder for folder in own if not folder.store.first_file_makes_folder]
            unmarked += self._rename_version_files(without_files, write.version_files)
        for store, paths in _by_store(unmarked).items():
            self._marking.append(write_acid_version(store, paths, sync=self._fsync))

    def _rename_version_files(self, folders: Sequence[Location], files: list[Location]) -> list[Location]:
        """Give each file its name in one of the folders. Returns the folders that got none."""
        if not files:
            return [*folders]
        reachable = [folder for folder in folders if files[0].can_rename_to(folder)]
        pairs = list(zip(files, reachable, strict=False))
        _for_each(pairs, lambda pair: pair[0].rename(pair[1] / ACID_VERSION_FILE), files[0].store.parallel_files)
        del files[: len(pairs)]
        marked = {folder for _, folder in pairs}
        return [folder for folder in folders if folder not in marked]

    def _unmark_folders(self) -> None:
        for store, folders in _by_store([folder.parent for folder in self._made]).items():
            store.unmark_folders(folders)

    def _remove_hidden_names(self) -> None:
        """Of the published files, all at once."""
        for store, paths in _by_store([file.location for write in self._writes for file in write.files]).items():
            store.remove_old_names(paths)

    def _make_acid_folder(self, folder: Location) -> None:
        try:
            if folder.store.first_file_makes_folder:
                folder.store.make_folder_with(folder.path, ACID_VERSION_FILE, ACID_VERSION_CONTENT)
            else:
                folder.make_folder(exist_ok=False, parents=False)
        except PathExists as error:
            raise _belongs_to_another(folder) from error
        except PathNotFound as error:
            raise missing_folder(str(folder.parent)) from error
        self._made.append(folder)

    def _sync(self) -> None:
        """Sync all folders at once, while the files that mark them are being synced."""
        found = [*self._made, *(folder.parent for folder in self._made)]
        # A metastore that has just created a partition's folders may not have synced their names.
        for write in self._writes:
            table = Location.of(write.table.location)
            for name in write.partitions_created:
                found += _folders_between(write.partition_locations[name], table)
        for store, paths in _by_store(found).items():
            store.sync_folders(sorted(set(paths)))

    def withdraw(self) -> None:
        """Remove the files and folders of this transaction, including hidden copies, and nothing else."""
        wait(self._marking)
        while self._made:
            self._made[-1].delete_folder()
            self._made.pop()
        while self._copies:
            self._copies[-1].delete_file()
            self._copies.pop()


def _at_a_time(locations: Sequence[Location]) -> int:
    """How many of them are created or renamed at a time."""
    return max((each.store.parallel_files for each in locations), default=1)


def _for_each(items: Sequence[T], function: Callable[[T], None], threads: int) -> None:
    """Call the function for each, so many at a time.

    The first error is raised once none runs any more: what they do must not go on while it is withdrawn.
    """
    if threads == 1 or len(items) < 2:
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(min(threads, len(items)), "hive-ingest-publish") as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def _folders_between(partition: Location, table: Location) -> list[Location]:
    """The folders above a partition, up to its table's; only the parent if it lies outside the table's folder."""
    if not str(partition).startswith(f"{table}/"):
        return [partition.parent]
    found = [partition.parent]
    while found[-1] != table:
        found.append(found[-1].parent)
    return found


def _by_store(locations: Sequence[Location]) -> dict[FileStore, list[str]]:
    found: dict[FileStore, list[str]] = {}
    for location in locations:
        found.setdefault(location.store, []).append(location.path)
    return found


def _belongs_to_another(folder: Location) -> StreamingIOFailure:
    return PathExists(
        f"{str(folder)!r} exists already and is not of this transaction: nothing in it was changed. Either another "
        "table or partition has the same location (give each its own), or the metastore was restored from an older "
        "copy and hands out write ids again that are in use (raise them: hive-ingest repair)"
    )
