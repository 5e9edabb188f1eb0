"""Whether the Python processes of the executors can write into a table, found out before the first task does.

A task that lacks a package fails with a bare `ModuleNotFoundError` inside a Java stack trace, after Spark has run it
four times, and with a transaction open. A job of a few tasks finds out the same in advance, and says where what is
missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Table
from hive_ingest.storage import FileStore, Location
from hive_ingest.streaming.spark import executor_probe
from hive_ingest.streaming.spark.session import parallelism
from hive_ingest.streaming.spark.short_errors import without_java_stack

#: The lowest that `pyproject.toml` allows.
MIN_PYARROW = 22
_MOST_TASKS = 64
_MOST_PROBLEMS = 3
_ABORTED = "Job aborted due to stage failure"
#: What Spark reports of a Python that does not run at all, in the order of what tells most.
_REASONS = re.compile(
    r"Cannot run program[^\n]*|Python in worker[^\n]*|(?:ModuleNotFoundError|ImportError)[^\n]*|No module named[^\n]*"
)

#: The applications whose executors have been checked, each with the file system.
_checked: set[tuple[str, FileStore]] = set()


def check_executors(session: SparkSession, table: Table) -> None:
    """Check once for each application and file system that tasks can run and can reach the table.

    All executors are asked that get one of the tasks; those that come later are not.

    Raises:
        ConfigurationError: An executor lacks a package, has another version of one, or does not reach the table.
    """
    key = (session.conf.get("spark.app.id", "") or "", Location.of(table.location).store)
    if key in _checked:
        return
    own = json.loads(executor_probe.describe_python(table.location))
    problems = find_problems(_ask(session, table.location), own)
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        shown = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
        raise ConfigurationError(f"the executors cannot write into {table.name}: {'; '.join(shown)}. {_REMEDY}")
    _checked.add(key)


_REMEDY = (
    "Every executor needs the driver's version of hive-ingest with its extras, and access to the warehouse: install it "
    "for that interpreter, choose another one by PYSPARK_PYTHON, or send an environment with --archives "
    "(docs/deploy.md)"
)


def _ask(session: SparkSession, location: str) -> list[dict[str, Any]]:
    """What each task has found. Raises ConfigurationError if Python does not run there."""
    cloudpickle.register_pickle_by_value(executor_probe)  # type: ignore[no-untyped-call]
    describe = F.udf(executor_probe.describe_python, "string", useArrow=False)  # needs no pyarrow there
    tasks = min(parallelism(session.range(1)), _MOST_TASKS)
    rows = session.range(0, tasks, 1, tasks).select(describe(F.lit(location)).alias("found"))
    try:
        return [json.loads(row["found"]) for row in rows.collect()]
    except (PySparkException, Py4JJavaError) as error:
        if _ABORTED not in str(error):
            raise  # the query is being stopped, for example
        raise ConfigurationError(f"tasks in Python do not run on the executors: {_reason(error)}. {_REMEDY}") from None


def _reason(error: Exception) -> str:
    text = str(error)
    found = _REASONS.search(text)
    return (found[0] if found else without_java_stack(text)).strip().rstrip(".")


def find_problems(answers: Iterable[Mapping[str, Any]], own: Mapping[str, Any]) -> list[str]:
    """What keeps executors from writing, each problem of a host once; `own` is the answer of the driver's Python."""
    found = (_problem(answer, own) for answer in answers)
    return sorted({problem for problem in found if problem is not None})


def _problem(answer: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    version = own["hive_ingest"]
    where = f"on {answer['host']} {answer['executable']} (Python {answer['python']})"
    if answer.get("hive_ingest", version) != version:
        return f"{where} has hive-ingest {answer['hive_ingest']}, and the driver has {version}"
    if answer.get("failed") == "import":
        return f"{where} cannot import hive_ingest: {answer['error']}"
    if int(answer["pyarrow"].split(".")[0]) < MIN_PYARROW:
        return f"{where} has pyarrow {answer['pyarrow']}, and hive-ingest needs {MIN_PYARROW} or newer"
    if "failed" in answer:
        return f"{where} cannot open the warehouse: {answer['error']}"
    if not answer["finds_table"] and own.get("finds_table"):
        return f"{where} does not find the table's folder, which the driver finds: mount it there"
    return None
