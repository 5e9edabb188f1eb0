"""Commits a transaction, with these steps in this order.

1. create the partitions that are new;
2. `add_dynamic_partitions` with every partition written: from here on the metastore remembers an abort;
3. send a heartbeat that confirms the transaction as open, unless one has done so just before;
4. publish: rename every file to its visible name, and notify event listeners if the server has any;
5. `commit_txn`.

Hive hides the files of an aborted transaction only as long as it remembers it, and it forgets one that never
registered a component. So nothing gets a visible name before (2).

Only an INSERT needs (1) and (2). A transaction that knows its partitions beforehand, such as a compaction's, starts
with `TableWrite.partition_locations` filled in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import tenacity

from hive_ingest.errors import (
    CommitOutcomeUnknown,
    MetastoreUnavailable,
    NoSuchTxn,
    StreamingError,
    StreamingIOFailure,
    TxnAborted,
)
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CommitKeyValue, TxnId
from hive_ingest.transactions.heartbeat import Heartbeater, now, send_heartbeat
from hive_ingest.transactions.opener import newest_overwrite
from hive_ingest.transactions.partitions import register_partitions
from hive_ingest.transactions.publisher import Publisher
from hive_ingest.transactions.table_write import TableWrite
from hive_ingest.transactions.write_notifications import add_write_notifications

_log = logging.getLogger(__name__)

#: A heartbeat that was sent less than this before publishing, and answered, is not repeated.
_RECENT_SECONDS = 0.5


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
        confirmed_at: float | None = None,
    ) -> None:
        """`confirmed_at` is what `send_heartbeat` returned for the transaction, once it had its locks."""
        self._client = client
        self._heartbeater = heartbeater
        self._txn_id = txn_id
        self._writes = writes
        self._retry_seconds = retry_seconds
        self._confirmed_at = confirmed_at
        self._publisher = Publisher(txn_id, writes, fsync=fsync)
        #: Whether the commit was requested: from then on it may have happened, whatever error is raised.
        self.was_requested = False

    def commit_insert(
        self,
        *,
        extra_partitions: Iterable[str] = (),
        key_value: CommitKeyValue | None = None,
        was_committed: Callable[[], bool] | None = None,
    ) -> None:
        """Run all five steps.

        Args:
            extra_partitions: Names of partitions of the first table to create, without rows.
            key_value: A table parameter that changes with the commit (HIVE-20538).
            was_committed: Decides at a new snapshot if the response was lost and the metastore has forgotten the
                transaction.

        Raises:
            TxnAborted: Nothing of the transaction is visible.
            CommitOutcomeUnknown: The response was lost and the outcome cannot be determined.
            PartitionCreationFailed, StreamingIOFailure: Nothing was committed.
        """
        for i, write in enumerate(self._writes):
            register_partitions(self._client, self._txn_id, write, extra_partitions if i == 0 else ())
        self.commit(key_value=key_value, was_committed=was_committed)

    def commit(
        self,
        *,
        key_value: CommitKeyValue | None = None,
        was_committed: Callable[[], bool] | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        """Run steps 3 to 5 for writes whose partitions are registered.

        Args:
            key_value, was_committed: As in `commit_insert`.
            before_commit: Called between the last rename and `commit_txn`. What it raises prevents the commit.
        """
        self._publisher.bring_to_file_systems(self._client)
        if self._confirmed_at is None or now() - self._confirmed_at > _RECENT_SECONDS:
            self._send_heartbeat()
        reach("after_commit_heartbeat")
        try:
            self._publisher.publish(self._refuse_if_late)
        except StreamingIOFailure:
            self._refuse_if_late()  # an abort is the real reason: a cleaner then removes our folders
            raise
        # As late as possible: TRUNCATE in Hive 4 does not wait for the lock of an appender.
        for write in self._writes:
            self._refuse_if_overtaken(write)
        add_write_notifications(self._client, self._txn_id, self._writes)
        if before_commit is not None:
            before_commit()
        self._commit_txn(key_value, was_committed)

    def withdraw(self) -> None:
        """Remove the published files, unless a commit was requested: then it may have happened."""
        if not self.was_requested:
            self._publisher.withdraw()

    # -- (3) ---------------------------------------------------------------------------------------

    def _send_heartbeat(self) -> None:
        """Send a heartbeat, retried for as long as publishing may still begin: a shorter outage costs nothing."""
        retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(MetastoreUnavailable),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=1),
            stop=lambda _: self._age_seconds() > self._max_age_seconds,
            before_sleep=tenacity.before_sleep_log(_log, logging.WARNING),
            reraise=True,
        )
        retry(send_heartbeat, self._client, self._heartbeater, self._txn_id)

    def _age_seconds(self) -> float:
        return self._heartbeater.age_seconds(self._txn_id)

    @property
    def _max_age_seconds(self) -> float:
        """The age of the last answered heartbeat from which on nothing may be published."""
        return self._heartbeater.timeout_seconds / 2

    # -- (4) ---------------------------------------------------------------------------------------

    def _refuse_if_late(self) -> None:
        """Refuse to publish for a transaction that may have timed out."""
        self._heartbeater.raise_if_lost(self._txn_id)
        age = self._age_seconds()
        if age > self._max_age_seconds:
            raise TxnAborted(
                f"transaction {self._txn_id}: the last answered heartbeat is {age:.1f} s old, more than half the "
                f"timeout ({self._max_age_seconds:.1f} s), so nothing may be published: write it again"
            )

    def _refuse_if_overtaken(self, write: TableWrite) -> None:
        if not write.may_be_overtaken:
            return
        for name, location in write.partition_locations.items():
            overwrite = newest_overwrite(location)
            if overwrite > write.write_id:
                raise TxnAborted(
                    f"{write.table.name} {name or '(whole table)'} was overwritten with write id {overwrite} after "
                    f"transaction {self._txn_id} took write id {write.write_id}, so its rows would be lost: "
                    "write them again"
                )

    # -- (5) ---------------------------------------------------------------------------------------

    def _commit_txn(self, key_value: CommitKeyValue | None, was_committed: Callable[[], bool] | None) -> None:
        self.was_requested = True
        try:
            self._client.commit_txn(self._txn_id, key_value=key_value)
        except (TxnAborted, NoSuchTxn) as error:
            self.was_requested = False  # a definite answer to the first request: nothing was committed
            self.withdraw()
            raise TxnAborted(f"transaction {self._txn_id} was not committed: {error}") from error
        except MetastoreUnavailable as error:
            self._resolve(key_value, was_committed, error)
        reach("after_commit_txn")

    def _resolve(
        self, key_value: CommitKeyValue | None, was_committed: Callable[[], bool] | None, lost: MetastoreUnavailable
    ) -> None:
        """Request the commit again after a lost response. The sink's progress decides if it is forgotten."""
        try:
            self._request_again(key_value)
        except TxnAborted:
            raise
        except NoSuchTxn:
            self._decide_by_progress(was_committed, lost)
        except StreamingError as error:  # no response again, or no connection, as after a ticket has expired
            raise self._unknown(f"the metastore cannot be asked again: {error}") from lost

    def _request_again(self, key_value: CommitKeyValue | None) -> None:
        retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(MetastoreUnavailable),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=5),
            stop=tenacity.stop_after_delay(self._retry_seconds),
            reraise=True,
        )
        retry(self._client.commit_txn, self._txn_id, key_value=key_value)

    def _decide_by_progress(self, was_committed: Callable[[], bool] | None, lost: MetastoreUnavailable) -> None:
        committed = None
        try:
            committed = was_committed() if was_committed is not None else None
        except (
            StreamingError
        ) as error:  # the progress table cannot be read: its disk is not available, or it is damaged
            _log.warning("the sink's progress, which shows whether it was committed, cannot be read: %s", error)
        if committed:
            return
        if committed is False:
            raise TxnAborted(f"transaction {self._txn_id} was not committed: its progress was not written") from lost
        raise self._unknown("the metastore does not know the transaction any more") from lost

    def _unknown(self, reason: str) -> CommitOutcomeUnknown:
        first = self._writes[0]
        return CommitOutcomeUnknown(
            f"the response to the commit of transaction {self._txn_id} (write id {first.write_id} of "
            f"{first.table.name}) was lost: either all its rows are visible or none; read the table to find out "
            f"({reason})",
            txn_id=self._txn_id,
            write_id=first.write_id,
            folders=tuple(map(str, self._publisher.folders)),
        )


def log_failure(action: Callable[[], None], what: str) -> None:
    """Run a clean-up and log any failure of it, which must not look like a failure of the transaction."""
    try:
        action()
    except Exception as error:  # noqa: BLE001
        _log.warning("%s failed: %s: %s", what, type(error).__name__, error)
