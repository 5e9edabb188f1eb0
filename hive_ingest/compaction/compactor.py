"""Runs the roles of compaction: in threads of this process, until it is stopped, or once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hive_ingest.compaction.cleaner import Cleaner, CleanerSettings, CleanResult
from hive_ingest.compaction.housekeeping import Housekeeper
from hive_ingest.compaction.initiator import Initiated, Initiator
from hive_ingest.compaction.job import JobSettings
from hive_ingest.compaction.policy import CompactionPolicy
from hive_ingest.compaction.worker import Worker, WorkResult
from hive_ingest.errors import ConfigurationError, StreamingError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionState

_log = logging.getLogger(__name__)

ROLES = ("initiator", "worker", "cleaner")


@dataclass(frozen=True, slots=True)
class CompactorSettings:
    """How often each role looks, and how it works.

    Attributes:
        initiator_seconds: The pause between two rounds of the initiator (Hive: `hive.compactor.check.interval`, 300).
        worker_seconds: The pause of a worker that found the queue empty.
        cleaner_seconds: The pause between two rounds of the cleaner.
    """

    policy: CompactionPolicy = field(default_factory=CompactionPolicy)
    job: JobSettings = field(default_factory=JobSettings)
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)
    initiator_seconds: float = 10.0
    worker_seconds: float = 1.0
    cleaner_seconds: float = 2.0


@dataclass(slots=True)
class CompactorResult:
    """What one round of all roles did."""

    initiated: list[Initiated] = field(default_factory=list)
    worked: list[WorkResult] = field(default_factory=list)
    cleaned: list[CleanResult] = field(default_factory=list)

    @property
    def has_problems(self) -> bool:
        """Whether something failed: a look at a table, a compaction, or a cleaning, which may be tried again."""
        return (
            any(each.error is not None or each.is_suspended for each in self.initiated)
            or any(work.state is CompactionState.FAILED for work in self.worked)
            or any(each.state in (CompactionState.FAILED, CompactionState.READY_FOR_CLEANING) for each in self.cleaned)
        )


class Compactor:
    """Initiator, workers and cleaner of one metastore. Several processes may run one each."""

    def __init__(
        self,
        client: MetastoreClient,
        *,
        roles: Sequence[str] | None = None,
        workers: int = 1,
        settings: CompactorSettings | None = None,
        version: str = "",
    ) -> None:
        """Does nothing yet.

        Args:
            client: The metastore's; cloned for each thread.
            roles: Of `"initiator"`, `"worker"` and `"cleaner"`. None: all that the metastore leaves to others; a real
                one has its own initiator and cleaner.
            workers: Threads that compact, each one table or partition.
            settings: How they work.
            version: Shown by SHOW COMPACTIONS.

        Raises:
            ConfigurationError: There is no such role.
            UnsupportedFeature: The metastore does not let others have one of the roles.
        """
        if isinstance(client, str):
            raise ConfigurationError(f"Compactor({client!r}): pass a client, from connect_metastore({client!r})")
        default = ("worker",) if client.has_own_cleaner else ROLES
        wanted = [roles] if isinstance(roles, str) else roles
        self._roles = tuple(dict.fromkeys(wanted if wanted is not None else default))
        if unknown := set(self._roles) - set(ROLES):
            raise ConfigurationError(
                f"{sorted(unknown)[0]!r} is not a role of a compactor: choose of {', '.join(ROLES)}"
            )
        if not isinstance(workers, int) or workers < 1 or not self._roles:
            raise ConfigurationError(f"roles={roles!r}, workers={workers!r}: give at least one role and one worker")
        self._client = client
        self._workers = workers
        self._settings = settings or CompactorSettings()
        self._version = version
        self._stop = threading.Event()
        for role in self._roles:
            self._make(role, client)  # fails now rather than in a thread

    def stop(self) -> None:
        """End `run` soon. A compaction under way goes back into the queue, and nothing of it is visible."""
        self._stop.set()

    def run_once(self) -> CompactorResult:
        """Initiate, compact until the queue is empty, clean.

        Raises:
            MetastoreError: The metastore cannot be asked.
        """
        result = CompactorResult()
        Housekeeper(self._client).run_if_due()
        if "initiator" in self._roles:
            result.initiated = self._initiator(self._client).run_once()
        if "worker" in self._roles:
            worker = self._worker(self._client)
            while not self._stop.is_set() and (work := worker.run_once()) is not None:
                result.worked.append(work)
        if "cleaner" in self._roles:
            result.cleaned = self._cleaner(self._client).run_once()
        return result

    def run(self) -> None:
        """Run all roles until `stop` is called, from another thread or by a signal handler."""
        threads = [
            threading.Thread(target=self._loop, args=(role,), name=f"hive-ingest-{role}-{number}")
            for role in self._roles
            for number in range(self._workers if role == "worker" else 1)
        ]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.2)
        finally:
            self._stop.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    # -- one role ----------------------------------------------------------------------------------

    def _loop(self, role: str) -> None:
        """Rounds of one role, with a client of its own. No error of a round ends it."""
        pause = getattr(self._settings, f"{role}_seconds")
        while not self._stop.is_set():
            try:
                with self._client.clone() as client:
                    self._rounds(role, client, pause)
            except StreamingError as error:
                _log.warning("the %s cannot reach the metastore, it tries again: %s", role, error)
                self._stop.wait(pause)

    def _rounds(self, role: str, client: MetastoreClient, pause: float) -> None:
        run_round, housekeeper = self._make(role, client), Housekeeper(client)
        while not self._stop.is_set():
            self._round("housekeeping", housekeeper.run_if_due)
            if not self._round(role, run_round):
                self._stop.wait(pause)

    def _round(self, role: str, run_round: Callable[[], object]) -> bool:
        """Whether a worker should look for more at once."""
        try:
            found = run_round()
        except StreamingError as error:
            _log.warning("the %s could not work, it tries again: %s", role, error)
        except Exception:  # noqa: BLE001 (nobody would notice that a role has ended)
            _log.exception("the %s failed unexpectedly, it tries again", role)
        else:
            return role == "worker" and found is not None
        return False

    def _make(self, role: str, client: MetastoreClient) -> Callable[[], object]:
        made: Initiator | Worker | Cleaner
        match role:
            case "initiator":
                made = self._initiator(client)
            case "worker":
                made = self._worker(client)
            case _:
                made = self._cleaner(client)
        return made.run_once

    def _initiator(self, client: MetastoreClient) -> Initiator:
        return Initiator(client, self._settings.policy, version=self._version, is_stopped=self._stop.is_set)

    def _worker(self, client: MetastoreClient) -> Worker:
        return Worker(client, self._settings.job, version=self._version, is_stopped=self._stop.is_set)

    def _cleaner(self, client: MetastoreClient) -> Cleaner:
        return Cleaner(client, self._settings.cleaner, is_stopped=self._stop.is_set)
