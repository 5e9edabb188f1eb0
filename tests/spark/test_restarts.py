"""A few restarts in a row; `scripts/test soak` makes fifty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.restarts import check_restarts


def test_three_restarts_in_a_row_lose_and_double_nothing(
    tmp_path: Path, install_spark: Callable[..., Installation], start_driver: Callable[..., Driver]
) -> None:
    check_restarts(20261122, 3, folder=tmp_path, install_spark=install_spark, start_driver=start_driver)
