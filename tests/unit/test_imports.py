"""What an import of the package loads: each of Spark's Python processes pays for it again."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["hive_ingest", "hive_ingest.streaming.spark.data_source"])
def test_an_import_does_not_load_pandas(module: str) -> None:
    """Arrow's datasets did, for two thirds of the time, in all five processes of a write through the data source."""
    code = f"import sys, {module}; print(sorted({{'pandas', 'sqlalchemy', 'pyarrow.dataset'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_import_does_not_load_what_only_an_extra_brings() -> None:
    code = "import sys, hive_ingest.streaming.kafka; print(sorted({'kafka', 'fastavro'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
