"""Spark and Kafka for the long counts of `tests/spark` and `tests/kafka`."""

from __future__ import annotations

from tests.kafka.conftest import kafka_broker
from tests.spark.conftest import spark, spark_in, spark_process
from tests.spark.fixtures import install_spark, start_driver

__all__ = ["install_spark", "kafka_broker", "spark", "spark_in", "spark_process", "start_driver"]
