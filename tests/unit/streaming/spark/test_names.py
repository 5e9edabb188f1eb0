"""The names of the Spark package, and that pyspark is loaded with them and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hive_ingest.streaming import spark


def test_every_public_name_can_be_imported() -> None:
    assert sorted(spark.__all__) == ["BatchStats", "HiveDataSource", "HiveSink", "SparkCompactor", "write_dataframe"]
    for name in spark.__all__:
        assert getattr(spark, name).__name__ == name
        assert name in dir(spark)


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'hive_ingest\.streaming\.spark' has no attribute 'Sink'"):
        spark.Sink  # noqa: B018


def test_modules_that_need_no_spark_load_none() -> None:
    code = "import sys, hive_ingest.streaming.sinks; print('pyspark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
