"""A real broker for all tests of this folder, and Spark drivers that read from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.kafka import KafkaBroker, running_broker
from tests.spark.fixtures import install_spark, start_driver

__all__ = ["install_spark", "start_driver"]


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Started when the first test requests it. Each test creates its own topics."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
