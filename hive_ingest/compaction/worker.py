"""Takes compactions from the queue and carries them out. Source: Hive 4's `Worker`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hive_ingest.compaction.job import CompactionJob, JobResult, JobSettings, JobStopped, RefusedCompaction
from hive_ingest.compaction.worker_ids import new_worker_id
from hive_ingest.errors import MetastoreUnavailable, NoSuchObject, StreamingError, UnsupportedFeature
from hive_ingest.events import CompactionEnded, report
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionInfo, CompactionState
from hive_ingest.transactions import log_failure

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What became of a compaction.

    Attributes:
        info: The compaction, with what the worker stored about it.
        state: READY_FOR_CLEANING, REFUSED, FAILED, or INITIATED where it went back into the queue. WORKING: the
            metastore cannot be reached, and will find out.
        message: Why, where it was not carried out.
        made: The files and folders that were published.
    """

    info: CompactionInfo
    state: CompactionState
    message: str = ""
    made: JobResult = field(default_factory=JobResult)


class Worker:
    """One worker. It compacts one table or partition at a time; several workers share the queue."""

    def __init__(
        self,
        client: MetastoreClient,
        settings: JobSettings | None = None,
        *,
        version: str = "",
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Does nothing yet.

        Args:
            client: The metastore's.
            settings: How compactions are run.
            version: Shown by SHOW COMPACTIONS as the worker's.
            is_stopped: Called regularly during a compaction; True ends it, and it goes back into the queue.

        Raises:
            UnsupportedFeature: A worker outside the server cannot serve this metastore.
        """
        if not client.runs_compactions:
            raise UnsupportedFeature(
                "a Hive Metastore of version 3 has no calls for a worker outside of it: run Hive's own "
                "(hive.compactor.worker.threads), which takes our requests too"
            )
        self._client = client
        self._settings = settings or JobSettings()
        self._version = version
        self._is_stopped = is_stopped
        self._pid = os.getpid()
        self.id = new_worker_id()

    def run_once(self) -> WorkResult | None:
        """Carry out the oldest request. None: there is none.

        Raises:
            MetastoreError: The queue cannot be read. What goes wrong with a compaction is in its result.
        """
        if self._pid != os.getpid():  # in a fork: the id must name the process that does the work
            self._pid, self.id = os.getpid(), new_worker_id()
        info = self._client.find_next_compact(self.id, worker_version=self._version)
        if info is None:
            return None
        reach("after_find_next_compact")
        started = time.monotonic()
        result = self._carry_out(info)
        self._report(result, time.monotonic() - started)
        return result

    def _carry_out(self, info: CompactionInfo) -> WorkResult:
        job = CompactionJob(self._client, info, self._settings, self._is_stopped)
        try:
            made = job.run()
        except RefusedCompaction as error:
            return self._refused(job.info, str(error))
        except NoSuchObject as error:
            return self._refused(job.info, f"it was dropped or renamed since the request: {error}")
        except MetastoreUnavailable as error:
            _log.warning("compaction %d of %s: %s", info.id, info.table, error, extra={"compaction": info.id})
            return WorkResult(job.info, CompactionState.WORKING, str(error))
        except JobStopped as error:
            return self._put_back(job.info, str(error))
        except StreamingError as error:
            return self._failed(job.info, str(error))
        except Exception as error:  # noqa: BLE001 (a defect must not keep the compaction at work forever)
            _log.exception("compaction %d of %s failed unexpectedly", info.id, info.table)
            return self._failed(job.info, f"{type(error).__name__}: {error}")
        except BaseException:  # the process is being ended
            self._put_back(job.info, "interrupted")
            raise
        return WorkResult(job.info, CompactionState.READY_FOR_CLEANING, made=made)

    @staticmethod
    def _report(result: WorkResult, seconds: float) -> None:
        is_done = result.state is CompactionState.READY_FOR_CLEANING
        report(
            CompactionEnded(
                str(result.info.table),
                result.info.partition_name or "",
                type=result.info.type.name.lower(),
                state="succeeded" if is_done else result.state.text,
                file_bytes=sum(file.size_bytes for file in result.made.files),
                seconds=seconds,
            )
        )

    def _refused(self, info: CompactionInfo, message: str) -> WorkResult:
        info = replace(info, error_message=message)
        self._end(info, self._client.mark_refused)
        return WorkResult(info, CompactionState.REFUSED, message)

    def _failed(self, info: CompactionInfo, message: str) -> WorkResult:
        place = f"{info.table} {info.partition_name or ''}".rstrip()
        _log.warning("compaction %d of %s failed: %s", info.id, place, message, extra={"compaction": info.id})
        info = replace(info, error_message=message)
        self._end(info, self._client.mark_failed)
        return WorkResult(info, CompactionState.FAILED, message)

    def _put_back(self, info: CompactionInfo, message: str) -> WorkResult:
        """Back into the queue, where another worker finds it."""
        if not self._client.has_own_cleaner:
            log_failure(self._revoke, f"putting compaction {info.id} back")
            return WorkResult(info, CompactionState.INITIATED, message)
        return self._failed(info, message)

    def _revoke(self) -> None:
        self._client.revoke_from_local_workers(self.id)

    def _end(self, info: CompactionInfo, mark: Callable[[CompactionInfo], None]) -> None:
        # If this fails too, the compaction is put back into the queue once its transaction has ended.
        log_failure(lambda: mark(info), f"noting the end of compaction {info.id}")
