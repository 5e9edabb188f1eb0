"""Spark's own cluster on this machine, with workers that seem to be on two hosts.

Spark runs a speculative attempt on another host than the first one only, and `local-cluster` has one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from tests.spark.installation import ROOT, Installation
from tests.support.waiting import wait_until

#: Two names of one address.
HOSTS = ("127.0.0.1", "localhost")
#: Spark starts a second attempt of a task once the other one of two is done.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.locality.wait": "0",
}
_DEPLOY = "org.apache.spark.deploy"


@contextlib.contextmanager
def standalone_cluster(installation: Installation) -> Iterator[str]:
    """Its master's address. The cluster logs into the installation's folder."""
    with socket.socket() as free:
        free.bind((HOSTS[0], 0))
        port = free.getsockname()[1]
    master = f"spark://{HOSTS[0]}:{port}"
    with contextlib.ExitStack() as stack:
        arguments = [f"{_DEPLOY}.master.Master", "--host", HOSTS[0], "--port", port, "--webui-port", 0]
        stack.enter_context(_java(installation, "master", arguments))
        wait_until(lambda: _listens(port), "Spark's master has not come up")
        for host in HOSTS:
            work = installation.folder / f"work-{host}"
            options = ["--host", host, "--cores", 2, "--memory", "1g", "--webui-port", 0, "--work-dir", work]
            stack.enter_context(_java(installation, host, [f"{_DEPLOY}.worker.Worker", *options, master]))
        yield master


@contextlib.contextmanager
def _java(installation: Installation, name: str, arguments: Sequence[object]) -> Iterator[None]:
    environ = os.environ | installation.environ
    jars = Path(environ["SPARK_HOME"], "jars")
    environ["SPARK_SCALA_VERSION"] = next(jars.glob("spark-core_*")).name.split("_")[1].split("-")[0]
    java = Path(environ["JAVA_HOME"], "bin", "java")
    command = [
        sys.executable,
        "-m",
        "tests.services.supervisor",
        java,
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-cp",
        jars / "*",
        *arguments,
    ]
    with (
        (installation.folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=log, stderr=log
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def kill_worker(host: str) -> None:
    """Kill the worker of that host with its executors and their Python processes, as a machine that is lost would."""
    [worker] = [
        process
        for process in psutil.process_iter()
        if _is_worker_of(process, host) and process.ppid() in _own_supervisors()
    ]
    lost = [worker, *worker.children(recursive=True)]
    for process in lost:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _own_supervisors() -> set[int]:
    return {process.pid for process in psutil.Process().children()}


def _is_worker_of(process: psutil.Process, host: str) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        command = process.cmdline()
        return f"{_DEPLOY}.worker.Worker" in command and command[command.index("--host") + 1] == host
    return False


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOSTS[0], port), timeout=1):
        return True
    return False
