"""A real Kafka broker for tests: one process that is its own controller (KRaft), on this machine alone."""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from tests.services.fetch import fetch, java
from tests.services.ports import free_port
from tests.services.server import Server

if TYPE_CHECKING:
    from tests.services.kafka_security import BrokerSecurity

_ROOT = Path(__file__).parents[2]
_CLUSTER_ID = base64.urlsafe_b64encode(b"hive-ingest-test").decode().rstrip("=")

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port}{listeners},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{listeners}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}
log.dirs={folder}/data
auto.create.topics.enable=false
# What Kafka keeps for itself is kept once: there is no second broker.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# Tests wait for members that were killed.
group.min.session.timeout.ms=500
log.cleaner.dedupe.buffer.size=2097152
# Messages of tests may have any timestamp. Retention would remove old ones half a minute after the start.
log.retention.ms=-1
"""

# The second compiler would cost more time than it saves.
_OPTIONS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class KafkaFailed(Exception):
    """The broker did not start; the message ends with its log."""


class KafkaBroker(Server):
    """A running broker; `folder` holds its data and its log. After a restart it listens on the same port."""

    def __init__(self, folder: Path, security: BrokerSecurity | None = None) -> None:
        """With `security` it has the listeners of that beside its own, which asks for nothing."""
        self.folder = folder
        self._security = security
        self.port = free_port()
        self._topics = itertools.count(1)
        folder.mkdir(parents=True, exist_ok=True)
        text = _PROPERTIES.format(
            folder=folder,
            port=self.port,
            controller_port=free_port(),
            listeners=security.listeners if security else "",
            protocols=security.protocols if security else "",
        )
        (folder / "server.properties").write_text(text + (security.properties() if security else ""))
        self._format()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers. Raises `KafkaFailed`."""
        self._launch([*self._command("kafka.Kafka"), "server.properties"], self._log, self.folder)
        self.wait()

    def new_topic(self, partitions: int = 1) -> str:
        """Make a topic of a new name."""
        name = f"topic-{os.getpid()}-{next(self._topics)}"
        with contextlib.closing(self._client()) as client:
            client.create_topics([NewTopic(name, partitions, replication_factor=1)])
        return name

    def _client(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            # The client leaves its socket open when nobody listens.
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        try:
            with contextlib.closing(self._client()) as client:
                return bool(client.describe_cluster())
        except KafkaError:
            return False

    def _failure(self) -> KafkaFailed:
        return KafkaFailed(f"Kafka did not start; its log ends:\n{self._log.read_text()[-4000:]}")

    def _format(self) -> None:
        command = self._command("kafka.tools.StorageTool")
        arguments = ["format", "-t", _CLUSTER_ID, "-c", "server.properties"]
        if self._security is not None:
            arguments += self._security.format_arguments()
        with self._log.open("ab") as log:
            status = subprocess.run([*command, *arguments], cwd=self.folder, stdout=log, stderr=log, check=False)
        if status.returncode:
            raise KafkaFailed(f"Kafka's storage could not be formatted:\n{self._log.read_text()[-4000:]}")

    def _command(self, program: str) -> list[str]:
        return [str(java()), *_OPTIONS, "-cp", f"{fetch('kafka')}/*", program]

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"


@contextlib.contextmanager
def running_broker(folder: Path, security: BrokerSecurity | None = None) -> Iterator[KafkaBroker]:
    """A new and empty broker with its files in `folder`. Raises `KafkaFailed`, `PartUnavailable`."""
    broker = KafkaBroker(folder, security)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
