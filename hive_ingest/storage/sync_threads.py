"""Threads that wait for a device, or for a service that stores files.

They sync files and folders, as the journal of a file system commits once for all that wait for it, and upload the
parts of a file to S3.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache, partial

_THREADS = 8


@lru_cache(maxsize=64)
def _pool(device: int | str, process: int) -> ThreadPoolExecutor:
    """The threads for a device, so that one that does not answer delays no other. A forked child has its own."""
    return ThreadPoolExecutor(_THREADS, f"hive-ingest-sync-{device}")


def run_for_device(device: int | str, function: Callable[[], None]) -> Future[None]:
    """Run a function that waits for a device on one of its threads, or at once if no thread can be started."""
    done: Future[None] = Future()
    claim = threading.Lock()

    def run() -> None:
        if not claim.acquire(blocking=False):
            return
        try:
            function()
        except BaseException as error:  # noqa: BLE001 (the future raises it)
            done.set_exception(error)
        else:
            done.set_result(None)

    try:
        _pool(device, os.getpid()).submit(run)
    except RuntimeError:  # too many threads, or the interpreter is shutting down; the pool may run it even so
        run()
    return done


def run_shares(device: int | str, items: Sequence[str], function: Callable[[str], None]) -> None:
    """Call the function for each item, on several threads. The first error is raised once all have ended."""
    own, *others = [items[start::_THREADS] for start in range(min(_THREADS, len(items)))]

    def each(share: Sequence[str]) -> None:
        for item in share:
            function(item)

    futures = [run_for_device(device, partial(each, share)) for share in others]
    try:
        each(own)
    finally:
        wait(futures)
    for future in futures:
        future.result()
