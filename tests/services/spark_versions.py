"""Other versions of pyspark than the one that is installed, each in a folder of the cache.

    python -m tests.services.spark_versions [VERSION ...]     fetch what is missing (default: the lowest two)

Such a folder, first on PYTHONPATH, stands before what is installed; all that pyspark needs besides is shared. So
what is tested is an old pyspark with the newest pyarrow and pandas, as an installation of today has them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.services.cache import cache_root, once
from tests.services.fetch import PartUnavailable

LOWEST = "3.5.0"
#: The lowest that has data sources in Python.
LOWEST_WITH_DATA_SOURCES = "4.0.0"
#: That of the jars for Kafka, in ivy/spark-kafka.xml.
OF_KAFKA_JARS = "4.0.0"
#: The last of each line between the lowest and the one that is installed.
BETWEEN = ("3.5.9", "4.1.4", "4.2.1")


def pyspark_folder(version: str) -> Path:
    """The folder that holds the package pyspark of `version`, with its py4j. Raises `PartUnavailable`."""
    return once(cache_root() / "pyspark" / version, lambda folder: _install(version, folder))


def use_pyspark(version: str) -> None:
    """Have this process, and the drivers that it starts, import that version, or "lowest".

    Raises RuntimeError if pyspark has been imported: all tests would run with that version, and pass.
    """
    if "pyspark" in sys.modules:
        raise RuntimeError(f"pyspark was imported from {sys.modules['pyspark'].__file__} before {version} was chosen")
    sys.path.insert(0, str(pyspark_folder(LOWEST if version == "lowest" else version)))


def _install(version: str, folder: Path) -> None:
    print(f"pyspark {version}: fetching, and building what pip installs", file=sys.stderr, flush=True)
    # The folder is the cache.
    options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-compile", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), f"pyspark=={version}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise PartUnavailable(f"pyspark {version} could not be installed. pip said:\n{run.stdout}{run.stderr}")


if __name__ == "__main__":
    for each in sys.argv[1:] or [LOWEST, LOWEST_WITH_DATA_SOURCES]:
        print(f"pyspark {each}: {pyspark_folder(each)}", file=sys.stderr, flush=True)
