"""Spark sessions: one for the whole process, and drivers in processes of their own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from tests.spark.driver import Driver
from tests.spark.installation import LOCAL, LOCAL_CLUSTER, Installation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that all tests of this process share, with `local[2]`; its JVM ends with the tests."""
    installation = Installation(tmp_path_factory.mktemp("spark"))
    with mock.patch.dict(os.environ, installation.environ):
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        session = SparkSession.builder.getOrCreate()
        try:
            yield session
        finally:
            gateway = SparkContext._gateway
            session.stop()
            _end_jvm(gateway)
            SparkContext._gateway = SparkContext._jvm = None


def _end_jvm(gateway: Any) -> None:
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)


@pytest.fixture
def spark_in(spark_process: SparkSession) -> Iterator[Callable[[str], SparkSession]]:
    """Makes a session in a time zone, with nothing in it that another test left."""

    def new_session(time_zone: str) -> SparkSession:
        session = spark_process.newSession()
        session.conf.set("spark.sql.session.timeZone", time_zone)
        sessions.append(session)
        return session

    sessions: list[SparkSession] = []
    yield new_session
    for session in sessions:
        for query in session.streams.active:
            query.stop()
    spark_process.catalog.clearCache()


@pytest.fixture
def spark(spark_in: Callable[[str], SparkSession]) -> SparkSession:
    """A session in UTC, with nothing in it that another test left."""
    return spark_in("UTC")


@pytest.fixture(params=[LOCAL, LOCAL_CLUSTER], ids=["local", "cluster"])
def master(request: pytest.FixtureRequest) -> str:
    """Tasks in the driver's JVM, then in executors of their own."""
    value: str = request.param
    return value


@pytest.fixture
def install_spark(tmp_path: Path) -> Callable[..., Installation]:
    """Makes an `Installation` of this test's own, by the arguments of one."""
    numbers = itertools.count(1)

    def install(**options: Any) -> Installation:
        return Installation(tmp_path / f"spark-{next(numbers)}", **options)

    return install


@pytest.fixture
def start_driver() -> Iterator[Callable[..., Driver]]:
    """Starts a `Driver`, by the arguments of one; at the end none of them is left."""
    drivers: list[Driver] = []

    def start(*arguments: Any, **options: Any) -> Driver:
        drivers.append(Driver(*arguments, **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()
