"""Kafka to Spark to Hive: every message is one row, also when the driver dies on the way."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.testing import CrashPoint
from tests.kafka.test_services import produce
from tests.services.fetch import fetch
from tests.services.kafka import KafkaBroker
from tests.services.spark_versions import OF_KAFKA_JARS
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.support.warehouses import warehouse_in

MESSAGES = 50


@pytest.mark.one_embedded
def test_each_message_is_one_row_after_a_driver_that_died_before_spark_knew_of_its_commit(
    kafka_broker: KafkaBroker,
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
    metastore_uri: str,
    tmp_path: Path,
) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    sent = produce(kafka_broker, topic, MESSAGES, partitions=2)
    warehouse = warehouse_in(tmp_path)
    with hi.connect_metastore(metastore_uri, warehouse=warehouse, create=True) as client:
        client.create_database("web")
        columns = {"msg": "string", "offset": "bigint"}
        client.create_table("web.events", columns=columns, partition_keys={"kafka_partition": "int"})
        # The source is published, whole, for this version alone.
        jars = ",".join(str(jar) for jar in fetch("spark-kafka").iterdir())
        spark = install_spark(version=OF_KAFKA_JARS, conf={"spark.jars": jars})
        script = Path(__file__).with_name("to_hive.py")
        arguments = (kafka_broker.bootstrap_servers, topic, tmp_path / "checkpoint", metastore_uri, warehouse)

        crash = CrashPoint("after_batch", 2, signal.SIGKILL).to_environment()
        killed = start_driver(spark, script, *arguments, environ=crash).wait()
        assert killed.returncode == -signal.SIGKILL, killed.err
        before = hi.read_table(client, "web.events").num_rows
        assert 0 < before < MESSAGES, "it was not killed in the middle: the test tests nothing"

        done = start_driver(spark, script, *arguments).wait()
        assert done.returncode == 0, done.err
        assert "commit=None" in done.out, "Spark repeated no batch: the test tests nothing"
        rows = hi.read_table(client, "web.events").to_pylist()
    assert sorted([row["kafka_partition"], row["offset"], row["msg"]] for row in rows) == sent
