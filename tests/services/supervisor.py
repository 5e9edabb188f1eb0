"""Supervises a command, and kills it when the process that started it ends.

Run as `python -m tests.services.supervisor COMMAND…`, with a pipe as standard input. A Java server would outlive the
process that started it. This process stands between the two and waits for the end of its input: the kernel closes
the pipe even when the owner is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run `command`, kill it at the end of standard input, and return its exit code."""
    # SIGTERM reaches only this process, so it is passed on, even if it arrives while the child is being started.
    is_terminated = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_terminated.set())
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: child.kill())
    if is_terminated.is_set():
        child.kill()
    threading.Thread(target=_kill_at_end_of_input, args=(child,), daemon=True).start()
    return child.wait()


def _kill_at_end_of_input(child: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
