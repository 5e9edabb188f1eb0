"""Spark for the long counts of `tests/spark`."""

from __future__ import annotations

from tests.spark.conftest import spark, spark_in, spark_process
from tests.spark.fixtures import install_spark, start_driver

__all__ = ["install_spark", "spark", "spark_in", "spark_process", "start_driver"]
