"""Hidden names for files that are not published yet.

    <table location>/.hive_ingest/<txn>_<metastore>_<writer uuid>.<n>.orc, .spill.orc, .spill.arrow or .version

They lie on the table's own file system, so that publishing is a rename, and all in one folder, because creating and
removing a folder costs more than a small file. The files of a killed writer are removed by the next writer on the
table, once the transaction in the name is no longer open. `<metastore>` is a digest of the metastore's id: whether
transactions of another metastore over the same files are open is not known, so their files are kept. So
are files with any other name, including those of earlier versions, which named no metastore.
"""

from __future__ import annotations

import hashlib
import logging
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from hive_ingest.acid import partition_name
from hive_ingest.errors import StreamingError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, TxnId, TxnState, TxnType
from hive_ingest.orc import ACID_VERSION_CONTENT
from hive_ingest.plurals import counted
from hive_ingest.storage import FileEntry, Location

_log = logging.getLogger(__name__)

STAGING_FOLDER = ".hive_ingest"
_METASTORE_DIGITS = 8
_WRITER_DIGITS = 32
_NAME = re.compile(
    rf"(?P<txn>[1-9][0-9]*)_(?P<metastore>[0-9a-f]{{{_METASTORE_DIGITS}}})_[0-9a-f]{{{_WRITER_DIGITS}}}\.[0-9]+((\.spill)?\.(orc|arrow)|\.version)"
)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file under its hidden name, and its destination.

    Attributes:
        location: The hidden name.
        partition: Values of the partition keys as text, None for null. Empty for an unpartitioned table.
        folder_name: The ACID folder, such as `delta_0000004_0000004_0000` or `base_0000004`.
        file_name: The name in that folder, such as `bucket_00000`.
        rows: Number of rows in the file.
        size_bytes: Size of the file.
    """

    location: Location
    partition: tuple[str | None, ...]
    folder_name: str
    file_name: str
    rows: int
    size_bytes: int

    def partition_name(self, table: Table) -> str:
        """The partition's name (`k=v/…`, escaped); empty for an unpartitioned table."""
        return partition_name([key.name for key in table.partition_keys], self.partition)


def staging_folder(location: Location) -> Location:
    """The folder of hidden names in that of a table, or of a partition on another file system."""
    return location / STAGING_FOLDER


def new_staging(table: Table, txn_id: TxnId, metastore_id: str) -> Location:
    """The prefix of a new writer's hidden names. A number and a suffix follow."""
    return staging_folder(Location.of(table.location)) / f"{_beginning(txn_id, metastore_id)}{uuid.uuid4().hex}"


def new_attempt(staging: Location) -> Location:
    """Another prefix for the same transaction: of a task that may run more than once, also at the same time."""
    return staging.parent / f"{_without_writer(staging.name)}{uuid.uuid4().hex}"


def stage_version_files(staging: Location, folders: int, *, sync: bool) -> list[Location]:
    """Write the files that mark ACID folders as such under hidden names, one for each of so many folders.

    Only for a store where closing takes long: the publisher renames them, instead of writing them after the data.
    Raises StreamingIOFailure.
    """
    staging.parent.make_folder(parents=False)
    files = [staging.parent / f"{staging.name}.{number}.version" for number in range(folders)]
    try:
        staging.store.create_all([file.path for file in files], ACID_VERSION_CONTENT, sync=sync)
    except BaseException:
        for file in files:
            file.delete_file()
        raise
    return files


def remove_attempts(staging: Location, keep: Collection[Location]) -> None:
    """Remove the hidden files of all writers of a transaction that have the folder of `staging`, but for some.

    Raises StreamingIOFailure.
    """
    kept = {location.name for location in keep}
    for file in staging.parent.list(missing_ok=True):
        if file.name.startswith(_without_writer(staging.name)) and file.name not in kept:
            staging.store.delete_file(file.path)


def _without_writer(name: str) -> str:
    """The beginning of a hidden name, up to the writer's part."""
    return name[:-_WRITER_DIGITS]


def remove_staging(table: Table, txn_id: TxnId, metastore_id: str) -> None:
    """Remove the hidden files of all writers of one ended transaction."""
    location = Location.of(table.location)
    for file in list_staging(location):
        if file.name.startswith(_beginning(txn_id, metastore_id)):
            location.store.delete_file(file.path)


def remove_leftovers(client: MetastoreClient, location: Location) -> list[str]:
    """Remove the hidden files of transactions that are not open from the folder of a table or partition.

    Returns their paths. Never raises.
    """
    try:
        return _remove_leftovers(client, location)
    except StreamingError as error:
        _log.warning("leftovers in %s were not removed: %s", location, error)
        return []


def _remove_leftovers(client: MetastoreClient, location: Location) -> list[str]:
    # The listing comes first: a transaction that is in it was opened before the snapshot that follows.
    names = {file.path: _NAME.fullmatch(file.name) for file in list_staging(location) if not file.is_folder}
    if not any(names.values()):
        return []
    ours = _digest(client.metastore_id)
    open_txns = set(client.get_valid_txns().open)
    removed = []
    for path, name in names.items():
        if name is not None and name["metastore"] == ours and TxnId(int(name["txn"])) not in open_txns:
            location.store.delete_file(path)
            removed.append(path)
    if removed:
        _log.info("removed %s of ended transactions from %s", counted(len(removed), "hidden file"), location)
    return removed


def hidden_copies(client: MetastoreClient, location: Location) -> list[str]:
    """The names of hidden files with rows that are, or were, in the table: all but those of open writers.

    A compaction at work, or one that was killed and has not timed out yet, has copies of the rows of its snapshot.
    Raises StreamingIOFailure.
    """
    names = {file.name: _NAME.fullmatch(file.name) for file in list_staging(location) if not file.is_folder}
    if not names:
        return []
    ours = _digest(client.metastore_id)
    transactions = client.get_open_txns_info().transactions
    writers = {each.id for each in transactions if each.state is TxnState.OPEN and each.type is not TxnType.COMPACTION}
    return sorted(
        name
        for name, found in names.items()
        if found is None or found["metastore"] != ours or TxnId(int(found["txn"])) not in writers
    )


def staged_transaction(name: str, metastore_id: str) -> TxnId | None:
    """The transaction in a hidden name of a metastore; None for any other name."""
    found = _NAME.fullmatch(name)
    return TxnId(int(found["txn"])) if found and found["metastore"] == _digest(metastore_id) else None


def list_staging(table: Location) -> list[FileEntry]:
    """List the hidden folder of a table.

    A symbolic link counts as empty: its target is not the table's, and the listed files are going to be removed.
    """
    folder = staging_folder(table)
    if folder.store.is_symlink(folder.path):
        _log.warning("%s is a symbolic link: leftover files in its target are not removed", folder)
        return []
    return folder.list(missing_ok=True)


def _beginning(txn_id: TxnId, metastore_id: str) -> str:
    return f"{txn_id}_{_digest(metastore_id)}_"


def _digest(metastore_id: str) -> str:
    return hashlib.sha256(metastore_id.encode()).hexdigest()[:_METASTORE_DIGITS]
