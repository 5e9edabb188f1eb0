"""Kafka topics into Hive tables, exactly once (`pip install 'hive-ingest[kafka]'`)."""

from hive_ingest.streaming.kafka.stats import KafkaIngestStats, KafkaPartitionStats, KafkaRouteStats

__all__ = ["KafkaIngestStats", "KafkaPartitionStats", "KafkaRouteStats"]
