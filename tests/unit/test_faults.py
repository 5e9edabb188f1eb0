"""Fault points: the threads that a test leaves alone, and the thread that a signal stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from hive_ingest.testing import FaultRecorder

#: A thread stops its process at a fault point, and counts the points that it has gone past.
STOPPED_IN_A_THREAD = """
import sys, threading
from hive_ingest.testing import FaultRecorder, CrashPoint
from signal import SIGSTOP

def pass_points():
    for occurrence in range(1, 51):
        FaultRecorder(CrashPoint("after_publish", 1, SIGSTOP))("after_publish")
        sys.stdout.write(f"{occurrence}\\n")
        sys.stdout.flush()

thread = threading.Thread(target=pass_points)
thread.start()
thread.join()
"""


def test_threads_that_are_left_alone_pass_all_points_unseen() -> None:
    recorder = FaultRecorder(except_threads="hive-ingest-worker")
    thread = threading.Thread(target=recorder, args=("after_publish",), name="hive-ingest-worker-0")
    thread.start()
    thread.join()
    recorder("after_publish")
    assert recorder.passed == {"after_publish": 1}


def test_a_thread_goes_no_further_than_the_point_that_stops_its_process() -> None:
    """The signal used to go to the process: another thread took it, and this one ran on, once even to its commit."""
    with subprocess.Popen([sys.executable, "-c", STOPPED_IN_A_THREAD], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            os.set_blocking(process.stdout.fileno(), False)
            seen = b""
            for occurrence in range(1, 51):
                _, status = os.waitpid(process.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status)
                seen += process.stdout.read() or b""
                assert len(seen.split()) == occurrence - 1
                process.send_signal(signal.SIGCONT)
            assert process.wait() == 0
        finally:
            process.kill()
