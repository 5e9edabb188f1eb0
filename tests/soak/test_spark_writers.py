"""The long count of `tests/spark/test_parallel.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.numbers import Tables
from tests.spark.test_parallel import check_that_4096_tasks_write
from tests.support.metastores import connect_in


@pytest.mark.timeout(3600)
@pytest.mark.one_embedded
def test_five_thousand_tasks_write_an_unbucketed_table_with_all_its_bucket_numbers(
    spark: SparkSession, metastore_uri: str, tmp_path: Path
) -> None:
    with connect_in(tmp_path, metastore_uri) as client:
        check_that_4096_tasks_write(spark, client, Tables(client))
