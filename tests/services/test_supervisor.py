"""No server outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil

from tests.support.waiting import wait_until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def start() -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """Starts a supervised command that sleeps. Returns the supervisor and the command."""
    supervisor = subprocess.Popen([sys.executable, "-m", "tests.services.supervisor", *SLEEPER], stdin=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = psutil.Process(supervisor.pid).children()
        if children:
            return supervisor, children[0]
        time.sleep(0.02)
    raise AssertionError("the command was not started")


def test_the_end_of_its_input_ends_the_command() -> None:
    supervisor, child = start()
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    assert supervisor.wait(60) != 0
    assert not child.is_running()


def test_a_signal_to_the_supervisor_ends_the_command() -> None:
    supervisor, child = start()
    with supervisor:
        os.kill(supervisor.pid, signal.SIGTERM)
        supervisor.wait(60)
    assert not child.is_running()


def test_the_command_ends_when_its_owner_is_killed() -> None:
    code = (
        "import subprocess, sys, time\n"
        f"command = [sys.executable, '-m', 'tests.services.supervisor', *{SLEEPER!r}]\n"
        "supervisor = subprocess.Popen(command, stdin=subprocess.PIPE)\n"
        "print(supervisor.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        supervisor = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    assert not psutil.wait_procs([supervisor], timeout=60)[1]


def test_what_the_command_has_started_in_a_session_of_its_own_ends_with_it() -> None:
    code = f"import subprocess, time; subprocess.Popen({SLEEPER!r}, start_new_session=True); time.sleep(600)"
    command = [sys.executable, "-m", "tests.services.supervisor", sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as supervisor:
        wait_until(lambda: len(psutil.Process(supervisor.pid).children(recursive=True)) == 2, "nothing was started")
        started = psutil.Process(supervisor.pid).children(recursive=True)
        assert supervisor.stdin is not None
        supervisor.stdin.close()
    assert not psutil.wait_procs(started, timeout=60)[1]
