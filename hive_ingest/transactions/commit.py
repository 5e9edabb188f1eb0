"""The last step of a transaction, in this order and no other.

1. create the partitions that are new;
2. `add_dynamic_partitions` with every partition written: from here on an abort is remembered;
3. a heartbeat that answers "open";
4. publish: every file gets its visible name; event listeners are told, where the server has any;
5. `commit_txn`.

Hive hides the files of an aborted transaction only as long as it remembers it, and it forgets one that never
registered a component; so nothing gets a visible name before (2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import tenacity

from hive_ingest.acid.names import BaseName, parse_partition_name, partition_name
from hive_ingest.errors import (
    CommitOutcomeUnknown,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchTxn,
    PartitionCreationFailed,
    StreamingError,
    StreamingIOFailure,
    TxnAborted,
)
from hive_ingest.faults import reach
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.model import CommitKeyValue, DataOperationType, Table, TxnId, WriteId
from hive_ingest.orc.acid_writer import write_acid_version
from hive_ingest.storage import FileStore, open_store
from hive_ingest.transactions.heartbeat import Heartbeater, now
from hive_ingest.transactions.opener import newest_overwrite
from hive_ingest.transactions.staging import StagedFile
from hive_ingest.transactions.write_notifications import add_write_notifications

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TableWrite:
    """What one transaction brings into one table."""

    table: Table
    write_id: WriteId
    files: Sequence[StagedFile]
    #: False when nobody can have taken a higher write id before our lock was ACQUIRED.
    may_be_overtaken: bool = True
    operation: DataOperationType = DataOperationType.INSERT
    #: Partitions ("" for the whole table) that an overwrite replaces, with rows or without.
    overwritten: Sequence[str] = ()
    partitions_created: list[str] = field(default_factory=list)
    #: Deltas and bases that this transaction makes or has made.
    published_folders: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """The partitions written, each once, in order."""
        return list(dict.fromkeys([*(file.partition_name(self.table) for file in self.files), *self.overwritten]))

    def folders(self, places: Mapping[str, str]) -> list[str]:
        """The folder that each file goes to, in the order of the files; `places` are those of the partitions."""
        return [f"{places[file.partition_name(self.table)]}/{file.folder_name}" for file in self.files]

    def all_folders(self, places: Mapping[str, str]) -> list[str]:
        """Each folder once, with the bases of an overwrite that has no rows."""
        bases = [f"{places[name]}/{BaseName(self.write_id)}" for name in self.overwritten]
        return list(dict.fromkeys([*self.folders(places), *bases]))


class Committer:
    """Commits one transaction of one owner. The data table comes first, a progress table after it."""

    def __init__(
        self,
        client: MetastoreClient,
        heartbeater: Heartbeater,
        txn_id: TxnId,
        writes: Sequence[TableWrite],
        *,
        fsync: bool,
        retry_seconds: float,
    ) -> None:
        self._client = client
        self._heartbeater = heartbeater
        self._txn_id = txn_id
        self._writes = writes
        self._fsync = fsync
        self._retry_seconds = retry_seconds
        #: From here on the outcome may be a commit, whatever error is seen.
        self.is_asked = False

    def commit(
        self,
        *,
        extra_partitions: Iterable[str] = (),
        key_value: CommitKeyValue | None = None,
        was_committed: Callable[[], bool] | None = None,
    ) -> None:
        """All five steps. Raises TxnAborted, CommitOutcomeUnknown, PartitionCreationFailed, StreamingIOFailure.

        `was_committed` decides, at a fresh snapshot, when the answer is lost and the metastore has forgotten.
        """
        places = [self._register(write, extra_partitions if i == 0 else ()) for i, write in enumerate(self._writes)]
        self._beat()
        try:
            self._publish(places)
        except StreamingIOFailure:
            self._refuse_if_late()  # then a cleaner has taken our folders, and that is the reason
            raise
        # As late as can be: the TRUNCATE of Hive 4 does not wait for the lock of an appender.
        for write, folders in zip(self._writes, places, strict=True):
            self._refuse_if_overtaken(write, folders)
        add_write_notifications(self._client, self._txn_id, zip(self._writes, places, strict=True))
        self._commit_txn(key_value, was_committed)

    def withdraw(self) -> None:
        """Remove what got a visible name; nothing once a commit was asked for, because it may have happened."""
        if self.is_asked:
            return
        for write in self._writes:
            store, _ = open_store(write.table.location)
            for folder in write.published_folders:
                store.delete_folder(folder)
            write.published_folders.clear()

    # -- (1) and (2) -------------------------------------------------------------------------------

    def _register(self, write: TableWrite, extra_partitions: Iterable[str]) -> dict[str, str]:
        """Partition name -> folder, in the table's store; the table's own folder under ""."""
        store_path = open_store(write.table.location)[1]
        if not write.table.is_partitioned:
            return {"": store_path}
        written = write.names()
        names = list(dict.fromkeys([*written, *extra_partitions]))
        try:
            places = self._create_partitions(write, names)
            reach("after_create_partitions")
            if names:
                self._client.add_dynamic_partitions(
                    self._txn_id, write.write_id, write.table.name, names, write.operation
                )
        except MetastoreUnavailable:
            raise
        except MetastoreError as error:
            raise PartitionCreationFailed(f"partitions of {write.table.name} could not be made: {error}") from error
        reach("after_add_dynamic_partitions")
        return places

    def _create_partitions(self, write: TableWrite, names: Sequence[str]) -> dict[str, str]:
        table = write.table
        if not names:
            return {}
        keys = [key.name for key in table.partition_keys]
        found = self._client.get_partitions_by_names(table.name, names)
        known = {partition_name(keys, partition.values): partition.location for partition in found}
        missing = [name for name in names if name not in known]
        if missing:
            values = [list(parse_partition_name(name).values()) for name in missing]
            made = self._client.add_partitions(table.name, values, if_not_exists=True)
            known |= {partition_name(keys, partition.values): partition.location for partition in made}
            write.partitions_created = missing
        return {name: open_store(known[name])[1] for name in names}

    # -- (3) ---------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Asked again for as long as publishing may begin: an outage that ends before costs nothing."""
        retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(MetastoreUnavailable),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=1),
            stop=lambda _: self._age_seconds() > self._most_seconds,
            before_sleep=tenacity.before_sleep_log(_log, logging.WARNING),
            reraise=True,
        )
        retry(self._beat_once)
        reach("after_commit_heartbeat")

    def _beat_once(self) -> None:
        sent_at = now()
        self._client.heartbeat(txn_id=self._txn_id)
        self._heartbeater.beaten(self._txn_id, sent_at)

    def _age_seconds(self) -> float:
        return self._heartbeater.age_seconds(self._txn_id)

    @property
    def _most_seconds(self) -> float:
        """The age of the last answered heartbeat at which nothing may be published any more."""
        return self._heartbeater.timeout_seconds / 2

    # -- (4) ---------------------------------------------------------------------------------------

    def _publish(self, places: Sequence[dict[str, str]]) -> None:
        renamed = 0
        for write, folders in zip(self._writes, places, strict=True):
            store, _ = open_store(write.table.location)
            to_sync = self._make_acid_folders(store, write, write.all_folders(folders))
            for file, folder in zip(write.files, write.folders(folders), strict=True):
                self._refuse_if_late()
                if renamed:
                    reach("between_renames")
                store.rename(file.path, f"{folder}/{file.file_name}")
                renamed += 1
            if self._fsync:
                store.sync_folders(to_sync)
        reach("after_publish")
        self._refuse_if_late()

    def _make_acid_folders(self, store: FileStore, write: TableWrite, folders: list[str]) -> list[str]:
        """Make each folder with its version file; returns the folders in which names were made."""
        self._refuse_if_late()
        write.published_folders = folders
        made = [path for folder in write.published_folders for path in store.make_folder(folder)]
        write_acid_version(store, [folder for folder in write.published_folders if folder in made], sync=self._fsync)
        return sorted({*write.published_folders, *(path.rpartition("/")[0] for path in made)})

    def _refuse_if_late(self) -> None:
        """A transaction that may have timed out must not make anything visible any more."""
        self._heartbeater.raise_if_lost(self._txn_id)
        age = self._age_seconds()
        if age > self._most_seconds:
            raise TxnAborted(
                f"transaction {self._txn_id}: the last answered heartbeat is {age:.1f} s old, more than half the "
                f"time-out ({self._most_seconds:.1f} s), so nothing may be published; begin anew"
            )

    def _refuse_if_overtaken(self, write: TableWrite, folders: dict[str, str]) -> None:
        if not write.may_be_overtaken:
            return
        store, _ = open_store(write.table.location)
        for name, folder in folders.items():
            overwrite = newest_overwrite(store, folder)
            if overwrite > write.write_id:
                raise TxnAborted(
                    f"{write.table.name} {name or '(whole table)'} was overwritten with write id {overwrite} after "
                    f"transaction {self._txn_id} took write id {write.write_id}, so its rows would be lost: "
                    "write them again"
                )

    # -- (5) ---------------------------------------------------------------------------------------

    def _commit_txn(self, key_value: CommitKeyValue | None, was_committed: Callable[[], bool] | None) -> None:
        self.is_asked = True
        try:
            self._client.commit_txn(self._txn_id, key_value=key_value)
        except (TxnAborted, NoSuchTxn) as error:
            self.is_asked = False  # the first answer is the metastore's word that nothing was committed
            self.withdraw()
            raise TxnAborted(f"transaction {self._txn_id} was not committed: {error}") from error
        except MetastoreUnavailable as error:
            self._resolve(key_value, was_committed, error)
        reach("after_commit_txn")

    def _resolve(
        self, key_value: CommitKeyValue | None, was_committed: Callable[[], bool] | None, lost: MetastoreUnavailable
    ) -> None:
        """The answer was lost: ask again; when the metastore has forgotten, the sink's progress decides."""
        try:
            self._ask_again(key_value)
        except TxnAborted:
            raise
        except (NoSuchTxn, MetastoreUnavailable) as error:
            self._decide_by_progress(was_committed if isinstance(error, NoSuchTxn) else None, lost)

    def _ask_again(self, key_value: CommitKeyValue | None) -> None:
        retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(MetastoreUnavailable),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=5),
            stop=tenacity.stop_after_delay(self._retry_seconds),
            reraise=True,
        )
        retry(self._client.commit_txn, self._txn_id, key_value=key_value)

    def _decide_by_progress(self, was_committed: Callable[[], bool] | None, lost: MetastoreUnavailable) -> None:
        try:
            if was_committed is not None:
                if was_committed():
                    return
                raise TxnAborted(f"transaction {self._txn_id} was not committed: its progress is not there") from lost
        except MetastoreUnavailable as error:
            _log.warning("the progress that would decide cannot be read: %s", error)
        first = self._writes[0]
        raise CommitOutcomeUnknown(
            f"the answer to the commit of transaction {self._txn_id} (write id {first.write_id} of "
            f"{first.table.name}) was lost: either all its rows are visible or none; read the table to find out",
            txn_id=self._txn_id,
            write_id=first.write_id,
            folders=tuple(folder for write in self._writes for folder in write.published_folders),
        ) from lost


def abort_quietly(action: Callable[[], None], what: str) -> None:
    """A clean-up whose failure is logged, so that it never hides the error that led here."""
    try:
        action()
    except StreamingError as error:
        _log.warning("%s failed: %s", what, error)
