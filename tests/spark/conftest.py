"""Spark sessions: one for the whole process, and drivers in separate processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from tests.spark.fixtures import install_spark, start_driver
from tests.spark.installation import LOCAL, LOCAL_CLUSTER, Installation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["install_spark", "start_driver"]


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
    """Tasks in the driver's JVM, then in separate executors."""
    value: str = request.param
    return value
