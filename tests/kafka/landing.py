"""A topic that instances of an ingest land in a table, and whether it is there: each message once, in order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.testing import CrashPoint
from tests.kafka.topics import Producer
from tests.services.kafka import KafkaBroker
from tests.services.kinds import Address
from tests.support.warehouses import warehouse_in

SCRIPT = Path(__file__).with_name("instance.py")
TABLE = "web.events"
_LONGEST_WAIT_SECONDS = 90.0


@dataclass
class Landing:
    """A topic, a table, and the instances between them.

    Attributes:
        sent: The id of each message, by its partition and offset.
    """

    broker: KafkaBroker
    client: MetastoreClient
    address: Address
    folder: Path
    partitions: int = 1
    topic: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    sent: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic = self.topic or self.broker.new_topic(partitions=self.partitions)
        self.client.create_database("web", if_not_exists=True)
        columns = {"id": "bigint", "kafka_partition": "int", "kafka_offset": "bigint"}
        self.client.create_table(TABLE, columns=columns, if_not_exists=True)
        self._instances: list[Instance] = []

    def produce(self, count: int) -> None:
        """Send so many further messages, to one partition after the other."""
        first = len(self.sent)
        with contextlib.closing(Producer(self.broker, self.topic)) as producer:
            self.sent |= producer.send(range(first, first + count), self.partitions)

    def start(
        self,
        crash: CrashPoint | None = None,
        *,
        until_end: bool = False,
        dead_letters: dict[str, Any] | None = None,
        **options: Any,
    ) -> Instance:
        """Start an instance. It ends at a bad message, unless it has a `DeadLetterTopic` with these arguments."""
        given = {
            "metastore": self.address.uri,
            "metastore_options": dict(self.address.options),
            "warehouse": warehouse_in(self.folder),
            "servers": self.broker.bootstrap_servers,
            "group": f"group-{self.topic}",
            "routes": {self.topic: TABLE},
            "until_end": until_end,
            "dead_letters": dead_letters,
            "options": {**self.options, **options},
        }
        self._instances.append(Instance(given, self.folder / f"instance-{len(self._instances) + 1}", crash))
        return self._instances[-1]

    def kill_all(self) -> None:
        """Leave no process behind."""
        for instance in self._instances:
            instance.kill()

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = hi.read_table(self.client, TABLE).to_pylist()
        return found

    def check_so_far(self) -> int:
        """Each row is a message that was sent, none is there twice, and none before it is missing. Returns how many."""
        found: dict[int, list[int]] = {number: [] for number in range(self.partitions)}
        for row in self.rows():
            place = (row["kafka_partition"], row["kafka_offset"])
            assert self.sent.get(place) == row["id"], f"a row that is no message: {row}"
            found[place[0]].append(place[1])
        for number, offsets in found.items():
            expected = sorted(offset for partition, offset in self.sent if partition == number)[: len(offsets)]
            assert offsets == expected, f"partition {number}: not each message once, in order"
        return sum(map(len, found.values()))

    def check(self) -> None:
        """Each message is a row, once."""
        assert self.check_so_far() == len(self.sent)

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"it never happened: {what}"
            time.sleep(0.05)

    def wait_for_all(self, *instances: Instance) -> None:
        """Wait until every message is there. The instances must live that long."""

        def is_complete() -> bool:
            for instance in instances:
                assert instance.process.poll() is None, f"an instance ended:\n{instance.log[-3000:]}"
            return len(self.rows()) >= len(self.sent)

        self.wait_until(is_complete, f"{len(self.sent)} messages in the table")


class Instance:
    """A process of the ingest. Its output goes to a file."""

    def __init__(self, given: dict[str, Any], folder: Path, crash: CrashPoint | None) -> None:
        folder.mkdir()
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), json.dumps(given)],
                env=os.environ | (crash.to_environment() if crash else {}),
                stdout=out,
                stderr=err,
            )

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def committed(self) -> int:
        """The rows that it reported as committed."""
        return sum(int(line.split()[1]) for line in self.lines if line.startswith("committed "))

    @property
    def log(self) -> str:
        return self._err.read_text()

    def wait(self, seconds: float = _LONGEST_WAIT_SECONDS) -> int:
        return self.process.wait(seconds)

    def stop(self) -> int:
        """End it as an operator does."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def landing_in(
    folder: Path, broker: KafkaBroker, address: Address, *, partitions: int = 1, **options: Any
) -> Iterator[Landing]:
    """A landing with an empty metastore at `address`."""
    with hi.connect_metastore(address.uri, warehouse=warehouse_in(folder), **address.options, create=True) as client:
        landing = Landing(broker, client, address, folder, partitions=partitions, options=options)
        try:
            yield landing
        finally:
            landing.kill_all()
