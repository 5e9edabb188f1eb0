"""The long count of `tests/acceptance/connection/test_memory.py`."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.connection.test_memory import check_many_partitions


def test_ten_thousand_partitions_flushed_sixteen_times_fit_into_the_buffer(tmp_path: Path) -> None:
    check_many_partitions(tmp_path, 10_000, 16)
