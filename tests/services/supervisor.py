"""Supervises a command, and kills it when the process that started it ends.

Run as `python -m tests.services.supervisor COMMAND…`, with a pipe as standard input. A Java server would outlive the
process that started it. This process stands between the two and waits for the end of its input: the kernel closes
the pipe even when the owner is killed. What the command has started ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

import psutil


def main(command: list[str]) -> int:
    """Run `command`, kill it at the end of standard input, and return its exit code."""
    # SIGTERM reaches only this process, so it is passed on, even if it arrives while the child is being started.
    is_terminated = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_terminated.set())
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: _kill(child))
    if is_terminated.is_set():
        _kill(child)
    threading.Thread(target=_kill_at_end_of_input, args=(child,), daemon=True).start()
    return child.wait()


def _kill_at_end_of_input(child: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill it and its descendants, some of which lead sessions of their own (the containers of a YARN node)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        command = psutil.Process(child.pid)
        command.suspend()  # it starts no more of them
        for process in command.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
