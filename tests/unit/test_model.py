"""The values that all packages share."""

import dataclasses

import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Column, Table, TableName, columns_of


def test_a_table_name_is_read_from_text_in_lower_case():
    assert TableName.of("Web.Alerts") == TableName("web", "alerts")
    assert TableName.of("alerts") == TableName("default", "alerts")
    assert TableName.of(TableName("a", "b")) == TableName("a", "b")
    assert str(TableName.of("Web.Alerts")) == "web.alerts"


@pytest.mark.parametrize("text", ["", ".alerts", "web.", "a.b.c", "web.al-erts", "web.a b", "web/x.y"])
def test_a_text_that_is_not_a_table_name_is_refused(text):
    with pytest.raises(ConfigurationError):
        TableName.of(text)


@pytest.mark.parametrize("value", [["web.a", "web.b"], ("web.a",), None, b"web.a"])
def test_what_is_neither_a_text_nor_a_table_name_is_refused(value):
    """A list of two tables ended in an AttributeError."""
    with pytest.raises(ConfigurationError, match="not the name of one table"):
        TableName.of(value)


def test_columns_are_given_as_a_mapping_or_objects_and_kept_in_lower_case():
    wanted = (Column("id", "int"), Column("msg", "string"))
    assert columns_of({"ID": "INT", "msg": " string "}) == wanted
    assert columns_of([Column("Id", "int"), Column("MSG", "String")]) == wanted
    assert columns_of(None) == ()


def test_a_table_knows_its_kind():
    plain = Table(TableName("web", "alerts"), columns_of({"id": "int"}))
    assert (plain.is_partitioned, plain.is_bucketed, plain.is_transactional) == (False, False, False)
    full = dataclasses.replace(
        plain, partition_keys=columns_of({"day": "date"}), num_buckets=4, properties={"transactional": "TRUE"}
    )
    assert full.is_partitioned
    assert full.is_bucketed
    assert full.is_transactional


def test_values_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TableName("a", "b").table = "c"  # type: ignore[misc]
