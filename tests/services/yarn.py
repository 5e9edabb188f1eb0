"""A real YARN for tests: a ResourceManager and a NodeManager, processes of their own on this machine."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.sax.saxutils import escape

import psutil

from tests.services.fetch import fetch, java
from tests.services.hdfs import Hdfs
from tests.services.javac import class_path
from tests.services.ports import free_port
from tests.services.server import Server

_OPTIONS = (
    *("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    # The web pages of both are made by Guice, which adds classes to Java's own loader.
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
)
_SERVER = "org.apache.hadoop.yarn.server"

_NODE = {
    "yarn.nodemanager.hostname": "127.0.0.1",
    "yarn.nodemanager.address": "127.0.0.1:0",
    "yarn.nodemanager.localizer.address": "127.0.0.1:0",
    "yarn.nodemanager.webapp.address": "127.0.0.1:0",
    "yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    # A JVM reserves much more address space than it uses.
    "yarn.nodemanager.vmem-check-enabled": "false",
    # A disk that is nearly full is no reason to refuse tests.
    "yarn.nodemanager.disk-health-checker.enable": "false",
    # It would call `find`.
    "yarn.nodemanager.log-container-debug-info.enabled": "false",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
}
_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}
#: What a node unpacks archives with, by Python: machines that run tests need not have them.
_TOOLS = {
    "gzip": "import gzip, shutil, sys; shutil.copyfileobj(gzip.open(sys.stdin.buffer), sys.stdout.buffer)",
    "tar": (
        "import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall(filter='fully_trusted')"
    ),
}


class YarnFailed(Exception):
    """A daemon did not start; the message ends with its log."""


class _Daemon(Server):
    """It serves once its log has a line with `sign`."""

    def __init__(self, program: str, sign: str, folder: Path) -> None:
        self._program = f"{_SERVER}.{program}"
        self._sign = sign
        self._folder = folder
        self._log = folder / f"{program.rpartition('.')[2]}.log"

    def start(self, classes: Sequence[str], environ: Mapping[str, str]) -> None:
        command = [str(java()), *_OPTIONS, "-cp", ":".join(classes), self._program]
        self._launch(command, self._log, self._folder, environ)
        self.wait()

    def processes(self) -> list[psutil.Process]:
        """It, and all that it has started."""
        assert self._process is not None
        found: list[psutil.Process] = psutil.Process(self._process.pid).children(recursive=True)
        return found

    def _answers(self) -> bool:
        return self._sign in self._log.read_text(errors="replace")

    def _failure(self) -> YarnFailed:
        return YarnFailed(f"{self._program} did not start; its log ends:\n{self._log.read_text()[-4000:]}")


class Yarn:
    """A running YARN whose default file system is `hdfs`; its files are in `folder`.

    It ends with this process, however that ends, and so do its containers.
    """

    def __init__(self, folder: Path, hdfs: Hdfs, *, java_home: Path) -> None:
        """`java_home` is the Java of the containers."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        #: HADOOP_CONF_DIR of clients.
        self.configuration = folder / "conf"
        self.configuration.mkdir()
        self._configure(hdfs)
        jars = (class_path(fetch(name)) for name in ("hdfs", "yarn"))
        classes = [str(self.configuration), *jars]
        # What nodes hand on to containers: by default these three, and a few that are not set here.
        node = {
            "JAVA_HOME": str(java_home),
            "HADOOP_CONF_DIR": str(self.configuration),
            "PATH": f"{self._tools()}{os.pathsep}{os.environ['PATH']}",
        }
        self._manager = _Daemon("resourcemanager.ResourceManager", "Transitioned to active state", folder)
        self._node = _Daemon("nodemanager.NodeManager", "Registered with ResourceManager", folder)
        with contextlib.ExitStack() as stack:
            stack.callback(self.stop)
            self._manager.start(classes, {})
            self._node.start(classes, node)
            stack.pop_all()

    def stop(self) -> None:
        """Kill the daemons and all containers; idempotent."""
        self._node.stop()
        self._manager.stop()

    def containers(self, program: str) -> list[psutil.Process]:
        """The JVMs that run this class in containers."""
        return [process for process in self._node.processes() if _runs(process, program)]

    def driver_output(self) -> str:
        """What the drivers of the newest application have printed, one attempt after the other (cluster mode)."""
        return "".join(file.read_text("utf-8", "replace") for file in self._logs("container_*_000001/stdout"))

    def errors(self) -> str:
        """Error output of the containers of the newest application."""
        return "\n".join(
            f"{file.parent.name}:\n{file.read_text('utf-8', 'replace')[-4000:]}"
            for file in self._logs("container_*/stderr")
        )

    def _logs(self, pattern: str) -> list[Path]:
        applications = sorted((self.folder / "logs").glob("application_*"))
        return sorted(applications[-1].glob(pattern)) if applications else []

    def _configure(self, hdfs: Hdfs) -> None:
        manager = {
            f"yarn.resourcemanager.{name}": f"127.0.0.1:{free_port()}"
            for name in (
                "address",
                *(f"{part}.address" for part in ("scheduler", "resource-tracker", "admin", "webapp")),
            )
        }
        folders = {f"yarn.nodemanager.{name}-dirs": str(self.folder / f"{name}s") for name in ("local", "log")}
        self._write("core-site", {"fs.defaultFS": hdfs.uri})
        self._write("hdfs-site", hdfs.configuration())
        self._write("yarn-site", manager | folders | _NODE)
        self._write("capacity-scheduler", _QUEUES)

    def _write(self, name: str, properties: Mapping[str, str]) -> None:
        lines = "".join(
            f"<property><name>{key}</name><value>{escape(value)}</value></property>\n"
            for key, value in properties.items()
        )
        (self.configuration / f"{name}.xml").write_text(f"<configuration>\n{lines}</configuration>\n")

    def _tools(self) -> Path:
        folder = self.folder / "tools"
        folder.mkdir()
        for name, program in _TOOLS.items():
            (folder / name).write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(program)}\n")
            (folder / name).chmod(0o755)
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _runs(process: psutil.Process, program: str) -> bool:
    """Not the shell that started it, whose command has the same words in one."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return program in process.cmdline()
    return False


def kill_container(jvm: psutil.Process) -> None:
    """Kill a JVM and all that it has started, as on a machine that is lost."""
    lost = [jvm, *jvm.children(recursive=True)]
    for process in lost:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
