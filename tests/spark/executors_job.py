"""A driver script: writes ten rows with one environment of the executors after the other.

Run with the path of a JSON file that has `metastore`, `warehouse`, `table`, and `environments`: by name the Python
interpreter and the PYTHONPATH. Prints the name of each and how the write ended.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.spark import write_dataframe


def main(job: dict[str, Any]) -> None:
    place = {"metastore": job["metastore"], "warehouse": job["warehouse"], "shared_filesystem": True}
    for name, (interpreter, path) in job["environments"].items():
        os.environ["PYSPARK_PYTHON"] = interpreter
        spark = SparkSession.builder.config("spark.executorEnv.PYTHONPATH", path).getOrCreate()
        try:
            info = write_dataframe(spark.range(10), job["table"], **place)
            print(name, info.rows, flush=True)
        except ConfigurationError as error:
            print(name, str(error).replace("\n", " "), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
