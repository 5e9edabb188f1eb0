"""What a table must be to be streamed into."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hive_ingest.connection import check_streamable
from hive_ingest.errors import UnsupportedFeature
from hive_ingest.metastore_client.table_checks import new_table


def test_a_table_on_a_store_that_is_only_read_is_refused_by_its_name() -> None:
    """Before anything is listed, which without credentials waits for minutes."""
    location = "gs://bucket/warehouse/t"
    table = new_table("web.t", columns={"id": "int"}, location=location)
    reason = f"{location}.*Google Cloud Storage is supported for reading only.*HDFS, on S3 or on Azure Storage"
    with pytest.raises(UnsupportedFeature, match=reason):
        check_streamable(table)


@pytest.mark.parametrize("properties", [{"transactional": "true"}, {"transactional": "true", "bucketing_version": "1"}])
def test_a_table_with_the_bucketing_of_hive_2_is_refused(properties: dict[str, str]) -> None:
    """Hive takes a table without the property for one of version 1, whose rows lie in other buckets."""
    table = new_table("web.t", columns={"id": "int"}, bucket_columns=["id"], num_buckets=2, location="file:/t")
    check_streamable(table)
    with pytest.raises(UnsupportedFeature, match=r"web.t has .*bucketing_version.*1.*recreate it in Hive 3 or later"):
        check_streamable(replace(table, properties=properties))
