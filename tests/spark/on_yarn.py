"""Jobs submitted to YARN by `spark-submit`, as docs/deploy.md says."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.services.yarn import Yarn
from tests.spark.class_archive import JVM_OPTIONS
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.packed import Packed

#: The user of the jobs: another one than that of the daemons, who is the owner of HDFS.
USER = "etl"
#: Of cluster mode, with the driver in it.
APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"


@dataclass(frozen=True)
class YarnInstallation(Installation):
    """What an administrator sets on the machine that jobs are submitted from; the rest is said by their commands."""

    configuration: str = ""

    @property
    def environ(self) -> dict[str, str]:
        ours = super().environ
        names = ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP")
        return {name: ours[name] for name in names} | {"HADOOP_CONF_DIR": self.configuration, "HADOOP_USER_NAME": USER}

    @property
    def spark_submit(self) -> Path:
        return self._home / "bin" / "spark-submit"

    def _defaults(self) -> dict[str, str]:
        return super()._defaults() | {
            # Where they are: 400 MB would be sent to HDFS with each job.
            "spark.yarn.jars": f"local:{self._home}/jars/*",
            "spark.yarn.am.extraJavaOptions": JVM_OPTIONS,
            "spark.executor.instances": "2",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        }


def install_on(yarn: Yarn, folder: Path, version: str | None = None) -> YarnInstallation:
    return YarnInstallation(
        folder, "yarn", version=version, jvm_options=JVM_OPTIONS, configuration=str(yarn.configuration)
    )


def submit(
    start_driver: Callable[..., Driver],
    installation: YarnInstallation,
    packed: Packed,
    script: Path,
    *arguments: object,
    mode: str,
    options: Sequence[object] = (),
) -> Driver:
    """Submit a copy of `script`: beside the original lie modules whose names the standard library has, too."""
    job = installation.folder / "job" / "job.py"
    job.parent.mkdir(exist_ok=True)
    shutil.copy(script, job)
    environ = {"PYSPARK_PYTHON": "./env/bin/python"}
    if mode == "client":
        environ["PYSPARK_DRIVER_PYTHON"] = str(packed.python)
    launcher = [
        *(sys.executable, "-m", "tests.services.supervisor", installation.spark_submit),
        *("--properties-file", installation.folder / "spark.properties"),
        *("--master", "yarn", "--deploy-mode", mode, "--archives", f"{packed.archive}#env"),
        *("--conf", "spark.executor.memoryOverhead=1g"),
        *options,
    ]
    return start_driver(installation, job, *arguments, environ=environ, launcher=launcher)
