"""Runs a driver script: `python -m tests.spark.bootstrap SCRIPT ARGUMENT...`, until it ends or its parent does.

Spark's JVM ends when its Python does, so a test run that is killed leaves neither behind.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _die_with_the_parent() -> None:
    """The parent alone holds the other end of standard input; the kernel closes it, however the parent ends."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
