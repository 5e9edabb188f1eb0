"""Ends the transactions of connections and readers that nobody closed.

A finalizer runs on whatever thread happens to collect its object, between any two steps of that thread: on a worker
thread that the clean-up would wait for, or inside a call of the very metastore client that it would use. So a finalizer
only puts a task into a queue. One thread, the reaper, takes it from there and uses its own metastore client.

The exit of the interpreter ends what is open in the same way. Daemon threads go on until the interpreter stops them,
anywhere, so from then on they open no transaction, and those that they are opening are waited for (`opening`).
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from hive_ingest.errors import ConnectionMisuse
from hive_ingest.metastore_client import MetastoreClient

_log = logging.getLogger(__name__)

#: How long the interpreter's exit waits for open transactions to be ended. Others are left to the timeout.
EXIT_SECONDS = 10.0


class _Task:
    """An action with its own metastore client, and its outcome."""

    def __init__(self, client: MetastoreClient, action: Callable[[MetastoreClient], None], what: str) -> None:
        self.client = client
        self._action = action
        self._what = what
        self.done = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self.client:
                self._action(self.client)
        except Exception as error:  # noqa: BLE001 (there may be nobody to catch it, and other tasks wait in the queue)
            self.error = error
            _log.warning("%s could not be ended, its transaction will time out: %s", self._what, error)
        finally:
            self.done.set()


class _Mark:
    """A task that does nothing: when it is done, all tasks before it are."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def run(self) -> None:
        self.done.set()


class _Reaper:
    """The thread and its queue. Forked children have their own."""

    def __init__(self) -> None:
        # A SimpleQueue, because its put() is reentrant: a finalizer may run inside another put().
        self._queue: queue.SimpleQueue[_Task | _Mark] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.guards: set[Guard] = set()
        self._openings = 0
        self._no_openings = threading.Condition()
        self._is_exiting = False

    @contextmanager
    def opening(self) -> Iterator[None]:
        is_counted = False
        try:
            with self._no_openings:
                if self._is_exiting and threading.current_thread() is not threading.main_thread():
                    raise ConnectionMisuse(
                        "no transaction is opened any more, because the interpreter is exiting: end the threads that "
                        "read and write before the main thread ends, or do not make them daemon threads"
                    )
                self._openings += 1
                is_counted = True  # nothing can interrupt between these two, or the exit would wait in vain
            yield
        finally:
            if is_counted:
                with self._no_openings:
                    self._openings -= 1
                    self._no_openings.notify_all()

    def exit(self, seconds: float) -> bool:
        """Let no daemon thread open another transaction. False if one is still being opened after `seconds`."""
        with self._no_openings:
            self._is_exiting = True
            return self._no_openings.wait_for(lambda: self._openings == 0, seconds)

    def start(self) -> None:
        """Start the thread. Idempotent. Never called by a finalizer: starting a thread takes locks."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hive-ingest-reaper", daemon=True)
                self._thread.start()

    def submit(self, task: _Task) -> None:
        self._queue.put(task)

    def is_idle_within(self, seconds: float) -> bool:
        """Wait for all tasks in the queue. Returns whether they were done in time."""
        if self._thread is None:
            return True
        last = _Mark()
        self._queue.put(last)
        return last.done.wait(seconds)

    def _run(self) -> None:
        while True:
            self._queue.get().run()


_reaper = _Reaper()


def opening() -> AbstractContextManager[None]:
    """Around a call that opens a transaction, until its owner has a guard and knows the id.

    Raises:
        ConnectionMisuse: On a daemon thread, while the interpreter exits: nobody would end the transaction.
    """
    return _reaper.opening()


class Guard:
    """Ends an object's transactions when it is garbage collected or the interpreter exits, and warns of it."""

    def __init__(
        self,
        guarded: object | None,
        client: MetastoreClient,
        end: Callable[[MetastoreClient], None],
        what: str,
        warning: str,
    ) -> None:
        """Watches the object until `release`.

        Args:
            guarded: The object to watch. None if it does not exist yet (`watch`): until then, only the exit counts.
            client: Cloned at once, because its owner may close it before. Never called directly.
            end: Releases what the object holds. It must not refer to the object.
            what: The object's name in the log.
            warning: The text of the ResourceWarning.
        """
        _reaper.start()
        self._task = _Task(client.clone(), end, what)
        self._warning = warning
        self._reaper = _reaper
        self._finalizer = self._finalizer_of(self if guarded is None else guarded)
        _reaper.guards.add(self)

    def _finalizer_of(self, guarded: object) -> weakref.finalize[..., object]:
        finalizer = weakref.finalize(guarded, self._hand_over)
        finalizer.atexit = False  # see _at_exit
        return finalizer

    def watch(self, guarded: object, warning: str) -> None:
        """From now on, end what is held when `guarded` is collected, too."""
        before, self._warning = self._finalizer, warning
        self._finalizer = self._finalizer_of(guarded)
        before.detach()

    @property
    def is_active(self) -> bool:
        return self._finalizer.alive

    def release(self) -> None:
        """Stop watching an object that its owner has closed. Idempotent."""
        if self.deactivate():
            self._task.client.close()

    def deactivate(self) -> bool:
        """Stop watching. Returns False if the object was released or collected before."""
        self._reaper.guards.discard(self)
        return self._finalizer.detach() is not None

    def end_now(self) -> None:
        """End the object's transactions on the reaper's thread, and wait. Raises any error of that."""
        self.deactivate()
        self._reaper.submit(self._task)
        self._task.done.wait()
        if self._task.error is not None:
            raise self._task.error

    def _hand_over(self) -> None:
        self._reaper.guards.discard(self)
        if self._reaper is not _reaper:
            return  # a forked child does not own the parent's transaction
        self._reaper.submit(self._task)
        warnings.warn(
            self._warning, ResourceWarning, stacklevel=2
        )  # last, because a warnings filter may turn it into an error


def _at_exit() -> None:
    """Runs on the main thread, while daemon threads such as the reaper still run."""
    deadline = time.monotonic() + EXIT_SECONDS
    _reaper.exit(EXIT_SECONDS)
    for guard in [guard for guard in list(_reaper.guards) if guard.is_active]:
        guard._finalizer.detach()
        try:
            guard._hand_over()
        except ResourceWarning as error:
            _log.warning("%s", error)
    if not _reaper.is_idle_within(max(0.0, deadline - time.monotonic())):
        _log.warning("open transactions could not be ended within %.0f s: they will time out", EXIT_SECONDS)


def _forked() -> None:
    global _reaper
    _reaper = _Reaper()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
