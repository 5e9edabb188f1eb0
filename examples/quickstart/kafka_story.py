"""The story of the job that reads from Kafka: two instances share a topic, and one of them is killed."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from examples.quickstart import places
from examples.quickstart.arrivals import Arrivals
from examples.quickstart.deliveries import PARTITIONS, TOPIC, Deliveries
from examples.quickstart.story import Story, in_transaction
from examples.quickstart.timeline import Commit, Runs
from examples.quickstart.writer_process import WriterProcess
from hive_ingest.metastore_client import MetastoreClient
from tests.services.kafka import running_broker

#: The group's session timeout, and the time of a transaction, with room for a busy machine.
_SECONDS_TO_TAKE_OVER = 30


@dataclass(frozen=True, slots=True)
class KafkaJob:
    """`KafkaIngest`, two instances of it, on messages that arrive while they run."""

    writer: str = "examples.quickstart.kafka_writer"
    transactions: int = 7
    what_it_does: str = f"two instances share the {PARTITIONS} partitions of a topic"
    caption: str = "A Kafka topic into a Hive ACID table; one of two instances is killed"
    after_the_kill: str = "The other instance goes on."
    seconds_between: float = 0.3

    def prepare(self, source: pa.Table, demo: Path) -> tuple[str, Arrivals]:
        servers = places.broker_address(demo).read_text()
        admin = KafkaAdminClient(bootstrap_servers=servers)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, replication_factor=1)])
        admin.close()
        deliveries = Deliveries(source, servers, places.input_folder(demo), self.seconds_between)
        return f"{deliveries.count:,} flights: a JSON message each, with its row number", deliveries


class KafkaStory(Story):
    """With a broker of its own."""

    _processes: tuple[WriterProcess, WriterProcess]

    def __init__(self, demo: Path) -> None:
        super().__init__(demo, KafkaJob())

    @contextmanager
    def _services(self) -> Iterator[None]:
        self._title("Starting a Kafka broker")
        self._say("Its files are fetched once, 120 MB, from the Maven repository of HIVE_INGEST_MAVEN_URL or Central")
        with running_broker(self._demo / "kafka") as broker:
            places.broker_address(self._demo).write_text(broker.bootstrap_servers)
            self._say(f"It listens on {broker.bootstrap_servers}")
            yield

    def _stream(self, client: MetastoreClient, arrivals: Arrivals, rows: int) -> Runs:
        # At once, and not stopped first: other threads of it may be using the metastore's file.
        killed_at = in_transaction(self._job.transactions + 1, signal.SIGKILL)
        with self._progress_bar(rows) as on_rows, arrivals:

            def show(_: int) -> None:
                on_rows(sum(process.rows for process in processes))

            processes: list[WriterProcess] = []
            with (
                WriterProcess(self._job.writer, self._demo, show, stop_at=killed_at) as first,
                WriterProcess(self._job.writer, self._demo, show) as second,
            ):
                processes += [first, second]
                first.wait_until_started()
                second.wait_until_started()
                arrivals.begin()
                first.wait_until_killed()
                self._look_at_the_open_transaction(client)
                arrivals.wait()
                while first.rows + second.rows < rows and second.is_running:
                    time.sleep(0.1)
                second.wait_until_done()
        self._processes = (first, second)
        killed = first.ended or math.nan
        recovered = _first_with_all_partitions(second, killed)
        self._check_the_other_instance(recovered - killed)
        return Runs(first.started, killed, second.ended or math.nan, recovered)

    def _check_the_other_instance(self, seconds: float) -> None:
        self._say(f"The other instance wrote all {PARTITIONS} partitions {seconds:.1f} s after the kill.")
        self._check(f"the other instance took over within {_SECONDS_TO_TAKE_OVER} s", seconds < _SECONDS_TO_TAKE_OVER)

    def _commits(self, client: MetastoreClient, landed: pa.Table) -> list[Commit]:
        """From the instances' own reports: transactions of two writers have no common order of ids."""
        found = []
        for process in self._processes:
            before = 0
            for at, report in process.reports:
                if report.rows > before:
                    found.append(Commit(at, report.rows - before, report.deltas))
                    before = report.rows
        return sorted(found, key=lambda commit: commit.at)


def _first_with_all_partitions(process: WriterProcess, after: float) -> float:
    return next((at for at, report in process.reports if at > after and report.partitions == PARTITIONS), math.inf)
