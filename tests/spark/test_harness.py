"""What the other tests here stand on: sessions, drivers that can be killed, and nothing left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.services.spark_versions import LOWEST
from tests.spark.driver import Driver
from tests.spark.installation import LOCAL_CLUSTER, ROOT, Installation
from tests.support.waiting import wait_until

Install = Callable[..., Installation]
Start = Callable[..., Driver]

COUNTS = """
    import os, sys
    import pyarrow as pa
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    def pids(batches):
        for batch in batches:
            yield pa.record_batch([pa.array([os.getppid()] * batch.num_rows)], ["id"])
    rows = spark.range(0, 100, 1, 4).mapInArrow(pids, "id long").collect()
    print(len(rows), len({row.id for row in rows}), spark.sparkContext.master, *sys.argv[1:])
    spark.stop()
"""

WAITS = """
    import time
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    def wait(batches):
        for batch in batches:
            time.sleep(600)
            yield batch
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").count()
    print("ready", flush=True)
    spark.range(0, 2, 1, 2).mapInArrow(wait, "id long").count()
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


def test_python_tasks_run_in_the_session_of_this_process(spark: SparkSession) -> None:
    def double(batches):
        for batch in batches:
            yield pa.record_batch([pa.array([2 * value for value in batch.column(0).to_pylist()])], ["id"])

    rows = spark.range(0, 10, 1, 3).mapInArrow(double, "id long").collect()

    assert sorted(row.id for row in rows) == [2 * i for i in range(10)]


def test_a_session_has_the_time_zone_asked_for_and_others_keep_theirs(
    spark: SparkSession, spark_in: Callable[[str], SparkSession]
) -> None:
    tokyo = spark_in("Asia/Tokyo")
    noon = "SELECT cast(unix_seconds(TIMESTAMP '2024-07-01 12:00:00') AS string) AS seconds"

    assert int(spark.sql(noon).collect()[0].seconds) - int(tokyo.sql(noon).collect()[0].seconds) == 9 * 3600


def test_a_driver_runs_its_tasks_where_its_master_says(
    install_spark: Install, start_driver: Start, script: Callable[[str], Path], master: str
) -> None:
    installation = install_spark(master=master)

    done = start_driver(installation, script(COUNTS), "an argument", 7).wait()

    executors = 2 if master == LOCAL_CLUSTER else 1
    assert (done.returncode, done.out) == (0, f"100 {executors} {master} an argument 7\n"), done.err


def test_a_driver_runs_on_the_version_of_spark_asked_for(
    install_spark: Install, start_driver: Start, script: Callable[[str], Path]
) -> None:
    script_text = """
        import pyarrow as pa
        import pyspark
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        def versions(batches):
            import pyspark
            for batch in batches:
                yield pa.record_batch([pa.array([pyspark.__version__] * batch.num_rows)], ["version"])
        [row] = spark.range(1).mapInArrow(versions, "version string").collect()
        print(pyspark.__version__, spark.version, row.version)
    """

    done = start_driver(install_spark(version=LOWEST), script(script_text)).wait()

    assert (done.returncode, done.out.split()) == (0, [LOWEST] * 3), done.err


def test_a_killed_driver_leaves_nothing_behind(
    install_spark: Install, start_driver: Start, script: Callable[[str], Path], master: str
) -> None:
    driver = start_driver(install_spark(master=master), script(WAITS))
    driver.wait_for("ready")
    assert len(driver.executors()) == (2 if master == LOCAL_CLUSTER else 0)

    driver.kill()

    assert driver.wait(60).returncode == -signal.SIGKILL


def test_a_killed_executor_is_replaced(
    install_spark: Install, start_driver: Start, script: Callable[[str], Path]
) -> None:
    driver = start_driver(install_spark(master=LOCAL_CLUSTER), script(WAITS))
    driver.wait_for("ready")
    killed, kept = (executor.pid for executor in driver.executors())
    os.kill(killed, signal.SIGKILL)

    def replaced() -> bool:
        pids = {executor.pid for executor in driver.executors()}
        return len(pids) == 2 and kept in pids and killed not in pids

    wait_until(replaced, "there is no new executor")


def test_a_driver_whose_parent_is_killed_ends_with_all_that_it_started(
    install_spark: Install, script: Callable[[str], Path], tmp_path: Path
) -> None:
    parent = f"""
        import sys, time
        from pathlib import Path
        from tests.spark.driver import Driver
        from tests.spark.installation import Installation
        driver = Driver(Installation(Path({str(tmp_path / "inner")!r})), Path({str(script(WAITS))!r}))
        driver.wait_for("ready")
        print(*(member.pid for member in driver.processes()), flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(parent)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()

    assert len(pids) >= 3, "Python, its JVM and a worker were to be there"
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), "some are still there")


def test_a_driver_that_fails_reports_why(
    install_spark: Install, start_driver: Start, script: Callable[[str], Path]
) -> None:
    with pytest.raises(AssertionError, match=r"(?s)ended before it printed 'ready'.*ZeroDivisionError"):
        start_driver(install_spark(), script("1 / 0")).wait_for("ready")
