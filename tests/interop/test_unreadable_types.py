"""Types that Hive's DDL has, but that Hive cannot read from an ORC table: the reason why they are refused here."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from tests.interop.hive import HiveError, RealHive

_MESSAGES = {
    "3.1.3": "ORC doesn't handle primitive category TIMESTAMPLOCALTZ",
    "4.0.1": "Unknown type TIMESTAMP_INSTANT",
}


def test_hive_reads_no_timestamp_with_local_time_zone_from_orc(hive: RealHive, database: str, tmp_path: Path) -> None:
    """Once this fails, the type can be supported."""
    folder = tmp_path / "zoned"
    folder.mkdir()
    at = pa.array([datetime(2024, 7, 1, 12, tzinfo=UTC)], pa.timestamp("ns", "UTC"))
    pyarrow.orc.write_table(pa.table({"at": at}), folder / "000000_0", compression="zlib")
    hive.sql(
        f"create external table {database}.zoned (at timestamp with local time zone) stored as orc location '{folder}'"
    )
    with pytest.raises(HiveError, match=_MESSAGES[hive.version]):
        hive.sql(f"select * from {database}.zoned")
