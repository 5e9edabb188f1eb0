"""Spark Structured Streaming into Hive, exactly once."""
