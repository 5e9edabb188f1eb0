"""The long count of `tests/spark/test_restarts.py`: every fault point of a driver about three times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.restarts import check_restarts


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1])
@pytest.mark.one_embedded
def test_fifty_restarts_in_a_row_lose_and_duplicate_nothing(
    seed: int,
    tmp_path: Path,
    metastore_uri: str,
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
) -> None:
    starts: dict[str, Any] = {"install_spark": install_spark, "start_driver": start_driver}
    check_restarts(seed, 50, folder=tmp_path, metastore_uri=metastore_uri, **starts)
