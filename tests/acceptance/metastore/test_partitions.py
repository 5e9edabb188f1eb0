"""Partitions and their folders, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hive_ingest.errors import (
    AlreadyExists,
    ConfigurationError,
    InvalidOperation,
    NoSuchObject,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table

COLUMNS = {"id": "int", "msg": "string"}


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    return metastore


@pytest.fixture
def alerts(ms: MetastoreClient) -> Table:
    return ms.create_table("web.alerts", columns=COLUMNS, partition_keys={"continent": "string", "country": "string"})


def folder(location: str) -> Path:
    assert location.startswith("file:/")
    return Path(location.removeprefix("file:"))


def test_partitions_are_registered_with_escaped_names(ms: MetastoreClient, alerts: Table) -> None:
    added = ms.add_partitions("web.alerts", [["Europe", "Île/de:France"], ["Asia", ""]])
    assert [each.values for each in added] == [
        ("Asia", "__HIVE_DEFAULT_PARTITION__"),
        ("Europe", "Île/de:France"),
    ]
    assert added[1].location == f"{alerts.location}/continent=Europe/country=Île%2Fde%3AFrance"
    assert folder(added[1].location).is_dir()
    assert added[1].columns == alerts.columns
    assert ms.list_partition_names("web.alerts") == [
        "continent=Asia/country=__HIVE_DEFAULT_PARTITION__",
        "continent=Europe/country=Île%2Fde%3AFrance",
    ]
    assert ms.list_partitions("web.alerts") == added
    assert ms.get_partition("web.alerts", ["Europe", "Île/de:France"]) == added[1]
    assert ms.get_partition("web.alerts", ["Asia", ""]) == added[0]


def test_partitions_are_added_all_or_none(ms: MetastoreClient, alerts: Table) -> None:
    ms.add_partitions("web.alerts", [["Asia", "India"]])
    with pytest.raises(AlreadyExists, match="country=India"):
        ms.add_partitions("web.alerts", [["Asia", "Japan"], ["Asia", "India"]])
    assert len(ms.list_partitions("web.alerts")) == 1
    added = ms.add_partitions("web.alerts", [["Asia", "Japan"], ["Asia", "India"]], if_not_exists=True)
    assert [each.values[1] for each in added] == ["India", "Japan"]


def test_a_partition_named_twice_in_one_call_is_an_error(ms: MetastoreClient, alerts: Table) -> None:
    with pytest.raises(AlreadyExists, match="twice"):
        ms.add_partitions("web.alerts", [["Asia", ""], ["Asia", "__HIVE_DEFAULT_PARTITION__"]])


def test_a_partition_needs_a_value_for_each_key(ms: MetastoreClient, alerts: Table) -> None:
    with pytest.raises(ConfigurationError):
        ms.add_partitions("web.alerts", [["Asia"]])


def test_an_unpartitioned_table_has_no_partitions(ms: MetastoreClient) -> None:
    ms.create_table("web.t", columns=COLUMNS)
    assert ms.list_partitions("web.t") == []
    with pytest.raises(InvalidOperation, match="not partitioned"):
        ms.add_partitions("web.t", [["Asia"]])


def test_existing_partitions_are_returned_by_name(ms: MetastoreClient, alerts: Table) -> None:
    ms.add_partitions("web.alerts", [["Asia", "In dia"], ["Asia", "Japan"]])
    names = ["continent=Asia/country=Japan", "continent=Asia/country=Nowhere", "continent=Asia/country=In dia"]
    assert [each.values[1] for each in ms.get_partitions_by_names("web.alerts", names)] == ["In dia", "Japan"]
    assert ms.get_partitions_by_names("web.alerts", []) == []


def test_lists_of_partitions_can_be_cut(ms: MetastoreClient, alerts: Table) -> None:
    ms.add_partitions("web.alerts", [["Asia", name] for name in ("India", "Japan", "China")])
    assert [each.values[1] for each in ms.list_partitions("web.alerts", max_parts=2)] == ["China", "India"]
    assert len(ms.list_partition_names("web.alerts", max_parts=1)) == 1
    assert len(ms.get_partitions_by_filter("web.alerts", 'continent = "Asia"', max_parts=2)) == 2


def test_partitions_are_listed_by_filter(ms: MetastoreClient) -> None:
    ms.create_table("web.t", columns=COLUMNS, partition_keys={"country": "string", "month": "int"})
    ms.add_partitions("web.t", [["India", "2"], ["India", "10"], ["Japan", "10"], ["", "1"]])
    found = ms.get_partitions_by_filter("web.t", 'country = "India" and month > 3')
    assert [each.values for each in found] == [("India", "10")]
    with pytest.raises(ConfigurationError, match="partition filter"):
        ms.get_partitions_by_filter("web.t", "country = ")


def test_a_partition_changes_its_columns_and_properties_only(ms: MetastoreClient, alerts: Table) -> None:
    (partition,) = ms.add_partitions("web.alerts", [["Asia", "India"]])
    changed = replace(partition, properties={"rows": "7"})
    ms.alter_partition("web.alerts", changed)
    found = ms.get_partition("web.alerts", ["Asia", "India"])
    assert found.properties.items() >= {"rows": "7"}.items()
    assert replace(found, properties={}) == replace(changed, properties={})
    with pytest.raises(InvalidOperation, match="keeps its location"):
        ms.alter_partition("web.alerts", replace(partition, location="file:/elsewhere"))
    with pytest.raises(NoSuchObject):
        ms.alter_partition("web.alerts", replace(partition, values=("Asia", "Japan")))


def test_a_dropped_partition_is_gone_with_its_folder(ms: MetastoreClient, alerts: Table) -> None:
    india, japan = ms.add_partitions("web.alerts", [["Asia", "India"], ["Asia", "Japan"]])
    ms.drop_partition("web.alerts", ["Asia", "India"])
    ms.drop_partition("web.alerts", ["Asia", "Japan"], delete_data=False)
    assert not folder(india.location).exists()
    assert folder(japan.location).exists()
    with pytest.raises(NoSuchObject):
        ms.get_partition("web.alerts", ["Asia", "India"])
    with pytest.raises(NoSuchObject):
        ms.drop_partition("web.alerts", ["Asia", "India"])
    ms.drop_partition("web.alerts", ["Asia", "India"], if_exists=True)


def test_a_partition_name_with_dots_stays_inside_its_table(ms: MetastoreClient) -> None:
    table = ms.create_table("web.t", columns=COLUMNS, partition_keys={"p": "string"})
    (partition,) = ms.add_partitions("web.t", [["../../../etc"]])
    assert folder(partition.location).resolve().is_relative_to(folder(table.location).resolve())
    ms.drop_partition("web.t", ["../../../etc"])
    assert folder(table.location).is_dir()
