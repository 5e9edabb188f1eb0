"""Fault points of threads that a test leaves alone."""

from __future__ import annotations

import threading

from hive_ingest.testing import FaultRecorder


def test_threads_that_are_left_alone_pass_all_points_unseen() -> None:
    recorder = FaultRecorder(except_threads="hive-ingest-worker")
    thread = threading.Thread(target=recorder, args=("after_publish",), name="hive-ingest-worker-0")
    thread.start()
    thread.join()
    recorder("after_publish")
    assert recorder.passed == {"after_publish": 1}
