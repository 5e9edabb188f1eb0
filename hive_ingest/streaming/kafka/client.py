"""The Kafka client: loaded when it is needed, and the few things of it that are not public."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from hive_ingest.errors import ConfigurationError, KafkaFailure
from hive_ingest.streaming.kafka.options import MAX_POLL_RECORDS, KafkaOptions

#: What the ingest sets itself: another value would break a promise.
RESERVED_OPTIONS = frozenset(
    {
        "auto_offset_reset",
        "bootstrap_servers",
        "enable_auto_commit",
        "group_id",
        "isolation_level",
        "key_deserializer",
        "value_deserializer",
    }
)


def load_kafka() -> Any:
    """The package `kafka`. Raises ConfigurationError where it is not installed."""
    for name in ("kafka", "crc32c"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigurationError(
                f"the package {error.name or name} is missing: pip install 'hive-ingest[kafka]'"
            ) from error
    return importlib.import_module("kafka")


def check_kafka_options(options: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for an option that the ingest sets itself, or that the client does not know."""
    kafka = load_kafka()
    for name in options:
        if name in RESERVED_OPTIONS:
            raise ConfigurationError(
                f"kafka_options[{name!r}] is set by the ingest: use its argument of that name, if there is one"
            )
        if name not in kafka.KafkaConsumer.DEFAULT_CONFIG:
            raise ConfigurationError(f"kafka_options[{name!r}] is not an option of kafka.KafkaConsumer")


def new_consumer(
    bootstrap_servers: str | list[str], group_id: str, options: KafkaOptions, kafka_options: Mapping[str, Any]
) -> Any:
    """A consumer that stores nothing in Kafka by itself, and never decides where to continue."""
    kafka = load_kafka()
    assignors = importlib.import_module("kafka.coordinator.assignors.cooperative_sticky")
    defaults = {
        "allow_auto_create_topics": False,
        "client_id": "hive-ingest",
        "max_poll_records": MAX_POLL_RECORDS,
        # A topic that was deleted and created again is noticed this early.
        "metadata_max_age_ms": 30_000,
        "metrics_enabled": False,
        "partition_assignment_strategy": [assignors.CooperativeStickyAssignor],
    }
    try:
        return kafka.KafkaConsumer(
            **{**defaults, **kafka_options},
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="none",
            enable_auto_commit=False,
            isolation_level=options.isolation_level,
        )
    except kafka.errors.KafkaError as error:
        raise KafkaFailure(f"cannot connect to Kafka at {bootstrap_servers}: {describe(error)}") from error


def topic_id(consumer: Any, topic: str) -> str | None:
    """The id of a topic as of the last metadata; None where the brokers are older than Kafka 2.8."""
    found = consumer._cluster.topic_id(topic)  # the public API has names only
    return None if found is None or not found.int else str(found)


def describe(error: BaseException) -> str:
    """An error of the Kafka client in one line, by its name."""
    text = str(error)
    name = type(error).__name__
    return text if text.startswith(name) or name in text else f"{name}: {text}"
