"""Ingests that run on a thread of their own while a test changes what they depend on."""

from __future__ import annotations

import threading
from typing import Any

import hive_ingest as hi
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from tests.services.kafka import KafkaBroker

LONGEST_SECONDS = 60.0


def route(topic: str, table: str = "web.events") -> KafkaRoute:
    return KafkaRoute(topic=topic, table=table, record_writer=hi.StrictJsonWriter())


def ingest(metastore: Any, broker: KafkaBroker, topic: str, **options: Any) -> KafkaIngest:
    given = {"group_id": f"group-{topic}", "routes": [route(topic)], **options}
    return KafkaIngest(metastore=metastore, bootstrap_servers=broker.bootstrap_servers, **given)


class Running:
    """An ingest on a thread of its own; it is stopped at the end of the block."""

    def __init__(self, running: KafkaIngest, *, until_end: bool = False) -> None:
        self.ingest = running
        self.error: BaseException | None = None
        self._until_end = until_end
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.ingest.run(until_end=self._until_end)
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ingest.stop()
        self.thread.join(LONGEST_SECONDS)

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        self.thread.join(LONGEST_SECONDS)
        assert not self.thread.is_alive(), "it does not end"
