"""Executors whose Python cannot write are found before a transaction is open, with an error that says what is wrong."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.spark import executors
from hive_ingest.streaming.spark.executors import MIN_PYARROW, find_problems
from tests.spark.driver import Driver
from tests.spark.installation import ROOT, Installation
from tests.spark.standalone import standalone_cluster
from tests.support.metastores import connect_in

pytestmark = [pytest.mark.one_embedded, pytest.mark.local_warehouse(because="a folder that both workers share")]

SCRIPT = Path(__file__).with_name("executors_job.py")


def other_version(folder: Path) -> str:
    """A folder for PYTHONPATH, with a package of another version."""
    (folder / "hive_ingest").mkdir(parents=True)
    (folder / "hive_ingest" / "__init__.py").write_text("__version__ = '0.0.9'")
    return str(folder)


def test_executors_without_the_package_are_found_before_a_transaction_is_open(
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
    sqlite_uri: str,
    tmp_path: Path,
) -> None:
    """They failed with a bare "No module named 'tenacity'", after four attempts."""
    venv.create(tmp_path / "bare", symlinks=True)
    bare, nowhere = str(tmp_path / "bare" / "bin" / "python"), str(tmp_path / "nowhere")
    environments = {
        "bare": (bare, nowhere),
        "other": (sys.executable, other_version(tmp_path / "other")),
        "none": (f"{nowhere}/python", nowhere),
        "good": (sys.executable, str(ROOT)),
    }
    with connect_in(tmp_path, sqlite_uri) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "bigint"})
        warehouse = client.get_table("web.t").location.removesuffix("/web.db/t")
        job = tmp_path / "job.json"
        names = {"metastore": sqlite_uri, "warehouse": warehouse, "table": "web.t"}
        job.write_text(json.dumps(names | {"environments": environments}))
        with standalone_cluster(install_spark()) as master:
            done = start_driver(install_spark(master=master), SCRIPT, job).wait()
        assert done.returncode == 0, done.err
        printed = dict(line.split(" ", 1) for line in done.out.splitlines())
        assert re.search(rf"{bare} \(Python 3\S+\) cannot import hive_ingest: .*No module named", printed["bare"])
        assert f"has hive-ingest 0.0.9, and the driver has {hi.__version__}" in printed["other"]
        assert f'Cannot run program "{nowhere}/python"' in printed["none"]
        assert all("docs/deploy.md" in printed[name] for name in ("bare", "other", "none"))
        assert printed["good"] == "10"
        assert hi.read_table(client, "web.t").num_rows == 10
        assert client.get_max_allocated_write_id("web.t") == 1  # the others opened no transaction


GOOD: dict[str, Any] = {
    "host": "node1",
    "executable": "/env/bin/python",
    "python": "3.11.4",
    "hive_ingest": "0.1.0",
    "pyarrow": "26.0.1",
    "finds_table": True,
}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({}, None),
        ({"pyarrow": "21.0.0"}, "has pyarrow 21.0.0, and hive-ingest needs 22 or newer"),
        ({"failed": "warehouse", "error": "no HDFS"}, "cannot open the warehouse: no HDFS"),
        ({"finds_table": False}, "does not find the table's folder, which the driver finds: mount it there"),
    ],
    ids=["good", "pyarrow", "warehouse", "folder"],
)
def test_a_problem_names_the_host_and_the_interpreter(found: dict[str, Any], problem: str | None) -> None:
    where = "on node1 /env/bin/python (Python 3.11.4)"
    expected = [] if problem is None else [f"{where} {problem}"]
    assert find_problems([GOOD | found] * 2, GOOD) == expected


def test_a_folder_that_the_driver_does_not_find_either_is_no_problem_of_the_executors() -> None:
    assert find_problems([GOOD | {"finds_table": False}], GOOD | {"finds_table": False}) == []


def test_the_lowest_pyarrow_is_that_of_the_package() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"pyarrow>={MIN_PYARROW}" in dependencies


@pytest.fixture
def client(sqlite_uri: str, tmp_path: Path):
    with connect_in(tmp_path, sqlite_uri) as client:
        yield client


def test_executors_are_asked_once_for_all_tables_of_a_file_system(
    spark: SparkSession, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = executors._ask

    def count(session: SparkSession, location: str) -> Any:
        asked.append(location)
        return ask(session, location)

    monkeypatch.setattr(executors, "_ask", count)
    monkeypatch.setattr(executors, "_checked", set())
    client.create_database("web")
    for name in ("a", "b"):
        client.create_table(f"web.{name}", columns={"id": "bigint"})
        executors.check_executors(spark, client.get_table(f"web.{name}"))
    assert asked == [client.get_table("web.a").location]
