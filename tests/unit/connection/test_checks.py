"""What a table must be to be streamed into."""

from __future__ import annotations

import pytest

from hive_ingest.connection import check_streamable
from hive_ingest.errors import UnsupportedFeature
from hive_ingest.metastore_client.table_checks import new_table


@pytest.mark.parametrize(
    ("location", "service"),
    [
        ("gs://bucket/warehouse/t", "Google Cloud Storage"),
        ("abfs://container@account.dfs.core.windows.net/t", "Azure Storage"),
        ("abfss://container@account.dfs.core.windows.net/t", "Azure Storage"),
    ],
)
def test_a_table_on_a_store_that_is_only_read_is_refused_by_its_name(location: str, service: str) -> None:
    """Before anything is listed, which without credentials waits for minutes."""
    table = new_table("web.t", columns={"id": "int"}, location=location)
    with pytest.raises(UnsupportedFeature, match=f"{location}.*{service} is supported for reading only.*HDFS or on S3"):
        check_streamable(table)
