"""Kafka topics into Hive tables, exactly once (`pip install 'hive-ingest[kafka]'`)."""

from hive_ingest.streaming.kafka.dead_letters import DeadLetterFile, DeadLetterTopic
from hive_ingest.streaming.kafka.ingest import KafkaIngest
from hive_ingest.streaming.kafka.message_writer import MessageWriter
from hive_ingest.streaming.kafka.messages import KafkaMessage, MessageColumns
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.routes import KafkaRoute
from hive_ingest.streaming.kafka.schema_registry import SchemaRegistry
from hive_ingest.streaming.kafka.stats import KafkaIngestStats, KafkaPartitionStats, KafkaRouteStats

__all__ = [
    "DeadLetterFile",
    "DeadLetterTopic",
    "KafkaIngest",
    "KafkaIngestStats",
    "KafkaMessage",
    "KafkaOptions",
    "KafkaPartitionStats",
    "KafkaRoute",
    "KafkaRouteStats",
    "MessageColumns",
    "MessageWriter",
    "SchemaRegistry",
]
