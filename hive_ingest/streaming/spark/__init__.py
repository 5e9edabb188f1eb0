"""Spark Structured Streaming and batch DataFrames into Hive, exactly once (`pip install 'hive-ingest[spark]'`).

Names are loaded when they are asked for (PEP 562): what needs no pyspark here, such as the progress of a sink, is
also used where none is installed, and executors load no more than their tasks.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hive_ingest.streaming.spark.compactor import SparkCompactor
    from hive_ingest.streaming.spark.data_source import HiveDataSource
    from hive_ingest.streaming.spark.dataframe import write_dataframe
    from hive_ingest.streaming.spark.foreach_batch import BatchStats, HiveSink

__all__ = ["BatchStats", "HiveDataSource", "HiveSink", "SparkCompactor", "write_dataframe"]

_MODULES = {
    "BatchStats": "foreach_batch",
    "HiveDataSource": "data_source",
    "HiveSink": "foreach_batch",
    "SparkCompactor": "compactor",
    "write_dataframe": "dataframe",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _require_pyspark(name)
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def _require_pyspark(name: str) -> None:
    """Raises ImportError, not ConfigurationError, because it leaves an `import` statement."""
    if importlib.util.find_spec("pyspark") is None:
        raise ImportError(f"{name} needs pyspark: pip install 'hive-ingest[spark]'", name="pyspark")
    if name == "HiveDataSource" and importlib.util.find_spec("pyspark.sql.datasource") is None:
        import pyspark

        raise ImportError(
            f"HiveDataSource needs pyspark 4.0 or newer, and this is {pyspark.__version__}: write with HiveSink or "
            "write_dataframe, and read with hive_ingest.scan",
            name="pyspark.sql.datasource",
        )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
