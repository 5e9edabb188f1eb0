"""A topic lands in a table: each message once, in the order of its partition, also over restarts."""

from __future__ import annotations

from pathlib import Path

import hive_ingest as hi
from hive_ingest.cli.deltas import partition_deltas
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionState, TableName
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from tests.kafka.topics import produce_ids
from tests.services.kafka import KafkaBroker
from tests.support.rows import ids


def ingest(metastore: MetastoreClient, broker: KafkaBroker, topic: str, **options: object) -> KafkaIngest:
    return KafkaIngest(
        metastore=metastore,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"group-{topic}",
        routes=[KafkaRoute(topic=topic, table="web.events", record_writer=hi.StrictJsonWriter())],
        **options,  # type: ignore[arg-type]
    )


def test_each_message_is_a_row_once_over_restarts(
    kafka_broker: KafkaBroker, metastore: MetastoreClient, tmp_path: Path
) -> None:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(100))
    ingest(metastore, kafka_broker, topic).run(until_end=True)
    assert ids(metastore, "web.events") == list(range(100))
    produce_ids(kafka_broker, topic, range(100, 150))
    ingest(metastore, kafka_broker, topic, max_rows=7).run(until_end=True)
    assert ids(metastore, "web.events") == list(range(150))
    ingest(metastore, kafka_broker, topic).run(until_end=True)
    assert ids(metastore, "web.events") == list(range(150))


def test_the_table_and_the_progress_of_its_sink_are_compacted_meanwhile(
    kafka_broker: KafkaBroker, metastore: MetastoreClient
) -> None:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(40))
    policy = hi.CompactionPolicy(max_deltas=1)
    options = {"max_rows": 5, "maintenance": "inline", "compaction_policy": policy}
    ingest(metastore, kafka_broker, topic, **options).run(until_end=True)
    assert ids(metastore, "web.events") == list(range(40))
    found = metastore.show_compactions()
    assert {info.table.table.endswith("__progress") for info in found} == {False, True}
    assert CompactionState.FAILED not in {info.state for info in found}
    (deltas,) = partition_deltas(metastore, TableName("web", "events"), small_bytes=0, count_rows=False)
    assert deltas.deltas <= 1
