"""PySpark's daemon for Python tasks with armed fault points: `spark.python.daemon.module`.

Whoever first comes to a point for which `$HIVE_INGEST_TEST_ARMS/<point>` is a file does what it says, once: the file
is renamed to `<point>.hit`.

    kill            kill -9 of this Python worker
    kill-executor   kill -9 of the JVM whose worker it is
    raise           an error
    sleep           stay here until `<point>.wake` is a file
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
from pyspark import daemon

from hive_ingest.faults import set_hook
from hive_ingest.testing import FaultError

ENVIRONMENT = "HIVE_INGEST_TEST_ARMS"


def _reached(point: str) -> None:
    arms = Path(os.environ[ENVIRONMENT])
    hit = arms / f"{point}.hit"
    try:
        (arms / point).rename(hit)
    except FileNotFoundError:
        return
    _act(hit.read_text(), arms / f"{point}.wake")


def _act(action: str, wake: Path) -> None:
    if action == "raise":
        raise FaultError("on purpose, in a task")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "kill-executor":
        psutil.Process().parent().parent().kill()  # worker, daemon, JVM
    while not wake.exists():  # also while the executor's death takes its way
        time.sleep(0.02)


if __name__ == "__main__":
    set_hook(_reached)
    daemon.manager()
