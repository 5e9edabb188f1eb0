"""Spark Structured Streaming and batch DataFrames into Hive, exactly once (`pip install 'hive-ingest[spark]'`)."""

from hive_ingest.streaming.spark.dataframe import write_dataframe
from hive_ingest.streaming.spark.foreach_batch import BatchStats, HiveSink

__all__ = ["BatchStats", "HiveSink", "write_dataframe"]
