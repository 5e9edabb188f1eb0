"""Spark drivers for the long counts of `tests/spark`."""

from __future__ import annotations

from tests.spark.fixtures import install_spark, start_driver

__all__ = ["install_spark", "start_driver"]
