"""Kafka topics into Hive tables, exactly once (`pip install 'hive-ingest[kafka]'`)."""

from hive_ingest.streaming.kafka.ingest import KafkaIngest
from hive_ingest.streaming.kafka.routes import KafkaRoute
from hive_ingest.streaming.kafka.stats import KafkaIngestStats, KafkaPartitionStats, KafkaRouteStats

__all__ = ["KafkaIngest", "KafkaIngestStats", "KafkaPartitionStats", "KafkaRoute", "KafkaRouteStats"]
