"""Removes deleted, overwritten and aborted rows from the disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from hive_ingest.compaction.cleaner import Cleaner, CleanerSettings
from hive_ingest.compaction.folder_state import FolderState
from hive_ingest.compaction.job import JobSettings
from hive_ingest.compaction.policy import has_no_cleanup
from hive_ingest.compaction.requests import CompactionOutcome, compact
from hive_ingest.compaction.target import Target, find_target
from hive_ingest.errors import NoSuchObject, StreamingError
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import CompactionState, TableName, TxnState
from hive_ingest.storage import Location
from hive_ingest.transactions import STAGING_FOLDER, hidden_copies, remove_leftovers

_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PurgeOutcome:
    """What a purge did in one partition, or in a table without partitions.

    Attributes:
        left: Folders that may still hold deleted or overwritten rows. Empty: all such rows are removed.
        reasons: Why these are left.
    """

    table: TableName
    partition_name: str | None
    left: tuple[str, ...]
    reasons: tuple[str, ...] = ()


def purge(
    metastore: MetastoreClient | str,
    table: str | TableName,
    *,
    partition: str | None = None,
    timeout_seconds: float = 300.0,
    settings: JobSettings | None = None,
) -> list[PurgeOutcome]:
    """Remove deleted, overwritten and aborted rows from the disk, as requests for erasure require.

    A major compaction of each partition, then a wait for the readers that still need the old files, then their
    removal, whatever the retention. What cannot be removed in time is reported.

    Args:
        metastore: A client or the URI of an embedded metastore; a real one has a cleaner of its own.
        table: `"database.table"`.
        partition: As for `compact`.
        timeout_seconds: How long to wait for readers and writers once the compactions have ended.
        settings: Of the compactions.

    Raises:
        UnsupportedFeature: The metastore has its own cleaner.
        NoSuchObject, ConfigurationError, MetastoreError: As for `compact`.
    """
    with opened_metastore(metastore) as client:
        return _purge(client, table, partition, timeout_seconds, settings)


def _purge(
    client: MetastoreClient,
    table: str | TableName,
    partition: str | None,
    timeout_seconds: float,
    settings: JobSettings | None,
) -> list[PurgeOutcome]:
    cleaner = Cleaner(client, CleanerSettings())
    outcomes = compact(client, table, partition=partition, kind="major", wait=True, settings=settings)
    deadline = time.monotonic() + timeout_seconds
    while True:
        cleaner.run_once(table)
        look = _Look(client, TableName.of(table))
        found = [look.at(outcome) for outcome in outcomes]
        if not any(each.left for each in found) or time.monotonic() >= deadline:
            return found
        if not any(map(look.may_change, outcomes)):
            return found
        time.sleep(_PAUSE_SECONDS)


class _Look:
    """What is left in a table at one moment, and why."""

    def __init__(self, client: MetastoreClient, table: TableName) -> None:
        self._client = client
        self._compactions = {info.id: info for info in client.show_compactions(table)}
        try:
            self._copies = _hidden_copies(client, Location.of(client.get_table(table).location))
        except NoSuchObject:
            self._copies = []

    def may_change(self, outcome: CompactionOutcome) -> bool:
        """Whether waiting may help: a compaction runs or waits for the cleaner, or aborted files for their grace."""
        info = self._compactions.get(outcome.id)
        waits = info is not None and info.state is CompactionState.READY_FOR_CLEANING
        return waits or bool(self._copies or self._client.get_aborted_components(outcome.table, outcome.partition_name))

    def at(self, outcome: CompactionOutcome) -> PurgeOutcome:
        """What is left in one partition, or in a table without partitions."""
        try:
            target = find_target(self._client, outcome.table, outcome.partition_name)
            valid_txns = self._client.get_valid_txns()
            (snapshot,) = self._client.get_valid_write_ids([outcome.table], valid_txns)
            state = FolderState.read(target.location, snapshot, valid_txns)
            copies = self._copies + _hidden_copies(self._client, target.location)
        except NoSuchObject:
            return PurgeOutcome(outcome.table, outcome.partition_name, ())  # dropped meanwhile, with its files
        except StreamingError as error:
            return PurgeOutcome(outcome.table, outcome.partition_name, ("(not known)",), (str(error),))
        left = [*state.obsolete, *state.aborted]
        reasons = [*self._why_left(outcome, target, is_aborted=bool(state.aborted))] if left else []
        if outcome.state is CompactionState.FAILED:
            left += [folder.name for folder in state.deltas]
        if state.delete_deltas or outcome.state is CompactionState.FAILED:
            left += [folder.name for folder in state.delete_deltas] or ["(not known)"]
            reasons.append(
                f"the major compaction did not include them: it is {outcome.state.text}"
                + (f" ({outcome.message})" if outcome.message else "")
                + (f"; write id {snapshot.min_open} is still open" if snapshot.min_open else "")
            )
        if state.directory.has_uncompacted_aborts:
            left.append("rows of aborted transactions in files with rows of others")
            reasons.append("there was nothing to merge them with: purge again after the next insert")
        if copies:
            left += [f"{STAGING_FOLDER}/{name}" for name in dict.fromkeys(copies)]
            reasons.append("compactions that run, or were killed and have not timed out, hold copies of rows")
        if not left:
            try:  # a power failure must not bring back what is reported as removed
                target.location.store.sync_folders([target.location.path])
            except StreamingError as error:
                left, reasons = ["(not known)"], [str(error)]
        return PurgeOutcome(outcome.table, outcome.partition_name, tuple(left), tuple(reasons))

    def _why_left(self, outcome: CompactionOutcome, target: Target, *, is_aborted: bool) -> Iterator[str]:
        info = self._compactions.get(outcome.id)
        if info is not None and info.error_message:
            yield info.error_message
        if info is not None and info.state is CompactionState.READY_FOR_CLEANING and info.next_txn_id is not None:
            transactions = self._client.get_open_txns_info().transactions
            older = [each.id for each in transactions if each.state is TxnState.OPEN and each.id < info.next_txn_id]
            if older:
                few = ", ".join(map(str, older[:5])) + (", …" if len(older) > 5 else "")
                yield f"open transactions may read them: {few} (hive-ingest show transactions names their owners)"
        if is_aborted:
            yield (
                "writers of aborted transactions may not know it yet: what they left is removed one transaction "
                f"timeout ({self._client.txn_timeout_seconds:g} s) after their last heartbeat"
            )
        if has_no_cleanup(target.table.properties) or has_no_cleanup(target.properties):
            yield "NO_CLEANUP=true is set: remove the property, then purge again"


def _hidden_copies(client: MetastoreClient, location: Location) -> list[str]:
    """Hidden copies that are left once the files of ended transactions are removed."""
    remove_leftovers(client, location)
    return hidden_copies(client, location)
