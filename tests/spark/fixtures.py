"""Drivers in separate processes, for the folders whose tests run Spark: imported by their conftest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.driver import Driver
from tests.spark.installation import Installation


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
