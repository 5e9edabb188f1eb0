"""Runs a command that ends when its owner does: python -m tests.services.leash COMMAND…, with a pipe as standard input.

A server in Java outlives whoever started it. This process, between the two, waits for the end of its input, which
the kernel closes also when the owner is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run `command`; kill it at the end of standard input."""
    # A signal to this process alone would leave the child running: also one that comes while it is being started.
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: child.kill())
    if is_over.is_set():
        child.kill()
    threading.Thread(target=_kill_at_end_of_input, args=(child,), daemon=True).start()
    return child.wait()


def _kill_at_end_of_input(child: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
