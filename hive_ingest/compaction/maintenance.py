"""Compaction as part of a pipeline: what was written is looked at right after its commit, in threads of the process."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, get_args

from hive_ingest.compaction.cleaner import Cleaner
from hive_ingest.compaction.compactor import Compactor, CompactorSettings
from hive_ingest.compaction.initiator import Initiator
from hive_ingest.compaction.policy import CompactionPolicy
from hive_ingest.compaction.worker_ids import is_of_this_process
from hive_ingest.errors import ConfigurationError, MetastoreUnavailable, StreamingError
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import CompactionState, TableName
from hive_ingest.transactions import log_failure

_log = logging.getLogger(__name__)

MaintenanceMode: TypeAlias = Literal["off", "request", "inline"]
#: The most tables and partitions that wait to be examined; the initiator finds those beyond.
MAX_WAITING = 10_000
#: The longest wait of `close` for threads that are at work.
CLOSE_SECONDS = 30.0
_POLL_SECONDS = 0.1
#: The queue is looked at more often than by a compactor of its own, as requests come from this process.
_WORKER_SECONDS = 0.25
#: The pause after looking at partitions is at least this many times as long as that took.
_REST = 9
_Place: TypeAlias = tuple[TableName, str | None]


class Committed(Protocol):
    """What is needed of a `CommitInfo`."""

    @property
    def table(self) -> TableName: ...
    @property
    def partitions(self) -> tuple[str, ...]: ...
    @property
    def progress_table(self) -> TableName | None: ...


_Info = TypeVar("_Info", bound=Committed)
_Hook: TypeAlias = Callable[[_Info], None]


class Maintenance:
    """Keeps tables compacted while a process writes to them.

        with hi.Maintenance(metastore) as maintenance:
            with hi.StreamingConnection.connect(metastore, table="db.t", on_commit=maintenance.on_commit, …) as conn:
                …

    After each commit a thread looks at the partitions that were written, and at the progress table of the sink, and
    requests compactions by the policy. In mode `"inline"` further threads carry out what is in the metastore's queue
    and remove the old files, so that nothing else has to run. A server's own cleaner does that on a real metastore;
    on one of Hive 3.1 its own worker also does the compactions.

    Several processes and threads may each have one. After a fork the child's does nothing.
    """

    def __init__(
        self,
        metastore: MetastoreClient | str,
        *,
        mode: MaintenanceMode = "inline",
        policy: CompactionPolicy | None = None,
        workers: int = 1,
        pause_seconds: float = 1.0,
        settings: CompactorSettings | None = None,
    ) -> None:
        """Start the threads.

        Args:
            metastore: A client, which is cloned; or the URI of a metastore.
            mode: `"inline"`; or `"request"`, which leaves the work to `hive-ingest compactor` or to Hive. `"off"` does
                nothing.
            policy: When to compact. None: that of `settings`.
            workers: How many compactions run at a time, each in a thread.
            pause_seconds: The shortest time between two looks at partitions.
            settings: Of the threads that mode `"inline"` has.

        Raises:
            ConfigurationError: There is no such mode, or a number is too low.
            MetastoreError: The metastore cannot be reached.
        """
        check_mode(mode)
        if policy is not None and not isinstance(policy, CompactionPolicy):
            raise ConfigurationError(f"policy={policy!r}: pass a CompactionPolicy, such as CompactionPolicy.hive()")
        settings = settings or CompactorSettings(worker_seconds=_WORKER_SECONDS)
        self._settings = replace(settings, policy=policy or settings.policy)
        self._pause = pause_seconds
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: dict[_Place, None] = {}
        self._seen: dict[_Place, None] = {}
        self._is_looking = self._is_hurried = self._is_closed = False
        self._client = connect_metastore(metastore) if isinstance(metastore, str) else metastore.clone()
        self._threads: list[threading.Thread] = []
        self._compactor: Compactor | None = None
        try:
            if mode == "inline" and self._client.runs_compactions:
                self._compactor = Compactor(self._client, workers=workers, settings=self._settings)
        except BaseException:
            self._client.close()
            raise
        if mode == "inline" and self._compactor is None:
            _log.info("the metastore's own worker does the compactions: this process only requests them")
        if mode != "off":
            self._start()

    def _start(self) -> None:
        self._thread("hive-ingest-maintenance", self._run)
        if self._compactor is not None:
            self._thread("hive-ingest-compactor", self._compactor.run)
        atexit.register(self.close)  # a merge that is cut off would keep its transaction open until it times out

    def _thread(self, name: str, run: Callable[[], None]) -> None:
        # Daemons, as are the threads that they start: a process that forgets to close this must be able to end.
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    # -- for the writer ----------------------------------------------------------------------------

    def on_commit(self, info: Committed) -> None:
        """Note what was written. Returns at once and does not raise; any thread may call it."""
        if not self._threads or os.getpid() != self._pid:
            return
        places: list[_Place] = [(info.table, partition) for partition in info.partitions or (None,)]
        if info.progress_table is not None:
            places.append((info.progress_table, None))
        with self._changed:
            if not self._waiting:
                self._changed.notify_all()  # not at each commit: the thread would wake up, and take the interpreter
            self._note(places)
            if len(self._seen) < MAX_WAITING:
                self._seen.update(dict.fromkeys(places))

    def _note(self, places: Iterable[_Place]) -> None:
        for place in places:
            if len(self._waiting) < MAX_WAITING:
                self._waiting[place] = None

    def finish(self, timeout_seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until what was committed has been looked at and, in mode `"inline"`, compacted and cleaned.

        Files that open readers may need stay for a later cleaner.

        Args:
            timeout_seconds: The longest wait.

        Returns:
            False if there was not enough time; other processes, or the next run, do the rest.
        """
        if not self._threads or os.getpid() != self._pid:
            return True
        if self._is_closed:
            return False
        deadline = time.monotonic() + timeout_seconds
        if self._compactor is None:
            return self._look_by(deadline)
        if not (self._look_by(deadline) and self._compact_by(deadline)):
            return False
        with self._changed:
            self._note(self._seen)  # the first look may have come while a compaction was under way
        return self._look_by(deadline) and self._compact_by(deadline) and self._clean()

    def _look_by(self, deadline: float) -> bool:
        """Has the thread look at what is waiting, without pauses."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            self._changed.wait_for(self._has_looked, max(0.0, deadline - time.monotonic()))
            self._is_hurried = False
            return self._has_looked()

    def _has_looked(self) -> bool:
        return self._is_closed or not (self._waiting or self._is_looking)

    def _compact_by(self, deadline: float) -> bool:
        """Waits for the compactions of the tables that were written, but not for those that another process does."""
        try:
            while self._has_work():
                if self._is_closed or time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_SECONDS)
        except StreamingError as error:
            _log.warning("whether the compactions have ended is not known: %s", error)
            return False
        return True

    def _has_work(self) -> bool:
        with self._changed:
            tables = sorted({table for table, _ in self._seen})
        infos = [info for table in tables for info in self._client.show_compactions(table)]
        return any(
            info.state is CompactionState.INITIATED
            or (info.state is CompactionState.WORKING and is_of_this_process(info.worker_id))
            for info in infos
        )

    def _clean(self) -> bool:
        """Once, as the cleaner's thread is about to be stopped. What fails is left to a later one."""
        try:
            if not self._client.has_own_cleaner:
                Cleaner(self._client, self._settings.cleaner).run_once()
        except StreamingError as error:
            _log.warning("old files are left to a later cleaner: %s", error)
        return True

    # -- the thread that looks ---------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closed:
            try:
                with self._client.clone() as client:
                    self._look_until_closed(Initiator(client, self._settings.policy))
            except Exception as error:  # noqa: BLE001 (nobody would notice that this thread has ended)
                _log.warning("what was written cannot be looked at now, it is tried again: %s", error)
                self._wait(self._pause)

    def _look_until_closed(self, initiator: Initiator) -> None:
        while (places := self._next_places()) is not None:
            started = time.monotonic()
            again: Iterable[_Place] = places
            is_failed = True
            try:
                found = initiator.examine(places, is_hurried=self._is_hurried)
                is_failed = any(_is_passing(each.error) for each in found)
                later = [each for each in found if each.is_resting or _is_passing(each.error)]
                again = [(each.table, each.partition_name) for each in later]
            finally:
                with self._changed:
                    self._note(again)
                    self._is_looking = False
                    self._changed.notify_all()
            self._wait(max(self._pause, _REST * (time.monotonic() - started)), is_failed=is_failed)

    def _next_places(self) -> list[_Place] | None:
        """None: it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._waiting)
            if self._is_closed:
                return None
            places, self._waiting = [*self._waiting], {}
            self._is_looking = True
            return places

    def _wait(self, seconds: float, *, is_failed: bool = True) -> None:
        """Shorter when it is closed, or when someone waits and nothing has failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or (self._is_hurried and not is_failed), seconds)

    # -- the end -----------------------------------------------------------------------------------

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Stop the threads. Idempotent.

        A compaction under way is given up: nothing of it is visible, and it goes back into the queue. Call `finish`
        before to have the work done.

        Args:
            timeout_seconds: The longest wait for them.
        """
        if self._is_closed or os.getpid() != self._pid:
            return
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        atexit.unregister(self.close)
        if self._compactor is not None:
            self._compactor.stop()
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            _log.warning(
                "a compaction did not stop within %.0f s: it goes on in the background. If the process ends meanwhile, "
                "nothing of it becomes visible, and it is taken up again once its transaction has timed out",
                timeout_seconds,
            )
        log_failure(self._client.close, "closing the metastore's client")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_mode(mode: Any) -> None:
    """Raises ConfigurationError for what is not a `MaintenanceMode`."""
    if mode not in get_args(MaintenanceMode):
        known = ", ".join(map(repr, get_args(MaintenanceMode)))
        raise ConfigurationError(f"maintenance={mode!r} is unknown: use one of {known}")


@contextmanager
def maintained(
    metastore: MetastoreClient | str,
    maintenance: MaintenanceMode | Maintenance,
    policy: CompactionPolicy | None = None,
    *,
    finish_seconds: float = CLOSE_SECONDS,
) -> Iterator[Maintenance | None]:
    """The maintenance of one run of a pipeline.

    Args:
        metastore: As for `Maintenance`.
        maintenance: A mode: threads run until the block is left, and where it ends well for up to `finish_seconds`
            longer, so that short runs are compacted too. Or one that the caller has, and closes.
        policy: As for `Maintenance`.
        finish_seconds: See `maintenance`.
    """
    if isinstance(maintenance, Maintenance):
        yield maintenance
        return
    check_mode(maintenance)
    if maintenance == "off":
        yield None
        return
    with Maintenance(metastore, mode=maintenance, policy=policy) as made:
        yield made
        # Everything is committed: a caller who saw an error now would write it again.
        log_failure(partial(_finish, made, finish_seconds), "the maintenance of a finished run")


def _finish(maintenance: Maintenance, timeout_seconds: float) -> None:
    maintenance.finish(timeout_seconds)


def hook_of(maintenance: Maintenance | None, on_commit: _Hook[_Info] | None = None) -> _Hook[_Info] | None:
    """What a connection calls after each commit: the maintenance, if there is one, then what the caller gave."""
    if maintenance is None or on_commit is None:
        return on_commit if maintenance is None else maintenance.on_commit

    def both(info: _Info) -> None:
        maintenance.on_commit(info)
        on_commit(info)

    return both


def _is_passing(error: StreamingError | None) -> bool:
    return isinstance(error, MetastoreUnavailable)
