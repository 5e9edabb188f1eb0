"""A real HDFS for tests: a NameNode, or a pair of them, and DataNodes in one process on this machine."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from hive_ingest.storage.hdfs.client import await_calls
from tests.services.fetch import fetch, java
from tests.services.java_service import JavaService
from tests.services.javac import class_path, compiled, java_files
from tests.services.ports import free_port
from tests.support.waiting import wait_until

_SOURCES = Path(__file__).parent / "java" / "hdfs"
# The second compiler would cost more time than it saves.
_OPTIONS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)


class Hdfs(JavaService):
    """A running HDFS; its files lie in `folder`. It ends with this process, however that ends.

    With `is_ha`, two NameNodes serve the name service `warehouse`, of which the first is active. Each block is on one
    DataNode, unless `java_options` name a file of properties (`hiveingest.site`) with another `dfs.replication`.
    `java_options` and `more_classes` are added to its command.
    """

    def __init__(
        self,
        folder: Path,
        *,
        is_ha: bool = False,
        datanodes: int = 1,
        java_options: Sequence[str] = (),
        more_classes: Sequence[Path] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ports = [free_port() for _ in range(2 if is_ha else 1)]
        self.is_ha = is_ha
        jars = fetch("hdfs")
        classes = compiled("hdfs", java_files(_SOURCES), jars)
        command = [
            *(str(java()), *_OPTIONS, *_LOGGING, f"-Dhiveingest.datanodes={datanodes}", *java_options),
            *("-cp", ":".join(map(str, (*more_classes, classes, class_path(jars))))),
            *("hiveingest.services.Hdfs", str(folder / "data"), *map(str, self.ports)),
        ]
        super().__init__("HDFS", folder, command)

    @property
    def uri(self) -> str:
        """The root, such as `hdfs://127.0.0.1:9000`."""
        return "hdfs://warehouse" if self.is_ha else f"hdfs://127.0.0.1:{self.ports[0]}"

    def configuration(self) -> dict[str, str]:
        """What a client needs of `hdfs-site.xml`; empty for a single NameNode."""
        if not self.is_ha:
            return {}
        addresses = {
            f"dfs.namenode.rpc-address.warehouse.nn{number}": f"127.0.0.1:{port}"
            for number, port in enumerate(self.ports, 1)
        }
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        return {
            "dfs.nameservices": "warehouse",
            "dfs.ha.namenodes.warehouse": "nn1,nn2",
            "dfs.client.failover.proxy.provider.warehouse": provider,
            **addresses,
        }

    def stop(self) -> None:
        """Kill it, once the calls of this process have ended, or will not end soon; idempotent."""
        await_calls()
        super().stop()

    def enter_safe_mode(self) -> None:
        self._obey("safemode enter")

    def leave_safe_mode(self) -> None:
        self._obey("safemode leave")

    def set_quota(self, path: str, *, names: int = -1, size_bytes: int = -1) -> None:
        """Of a folder; -1 lifts it."""
        self._obey(f"quota {path} {names} {size_bytes}")

    def set_permission(self, path: str, octal: str) -> None:
        self._obey(f"permission {path} {octal}")

    def write_tokens(self, file: Path, principal: str, keytab: Path) -> None:
        """Write delegation tokens of that principal to a file, as Hadoop does for the containers of an application."""
        self._obey(f"tokens {file} {principal} {keytab}")

    def fail_over(self, to: int) -> None:
        """Make the NameNode of that index active, and the other one a standby."""
        self._obey(f"failover {to}")

    def make_standby(self, number: int) -> None:
        """Of a pair: none is active then, as in the middle of a failover."""
        self._obey(f"standby {number}")

    def make_active(self, number: int) -> None:
        self._obey(f"active {number}")

    def stop_namenode(self, number: int = 0) -> None:
        self._obey(f"stop-namenode {number}")

    def start_namenode(self, number: int = 0) -> None:
        self._obey(f"start-namenode {number}")

    def stop_datanode(self) -> None:
        """The last one that runs. The NameNode notices that minutes later."""
        self._obey("stop-datanode")

    def start_datanodes(self) -> None:
        """All that were stopped."""
        self._obey("start-datanodes")

    def make_snapshot(self, path: str, name: str) -> None:
        """Of a folder, which cannot be removed then."""
        self._obey(f"snapshot {path} {name}")

    def delete_snapshot(self, path: str, name: str) -> None:
        """The only one of a folder, which can be removed again then."""
        self._obey(f"delete-snapshot {path} {name}")

    def pause(self) -> None:
        """Stop answering, as a machine under a long garbage collection does. Afterwards all threads stand still."""
        self._process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self._process.pid}/task")
        wait_until(lambda: all(map(_is_stopped, threads.iterdir())), "the NameNode does not stop")

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)


def _is_stopped(thread: Path) -> bool:
    try:
        state = (thread / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended
    return state == "T"
