"""Partition values are typed, and a filter leaves out what it cannot need."""

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import InvalidOperation
from hive_ingest.model import Column, Partition, Table, TableName
from hive_ingest.reader.partitions import partition_value, prune, typed_partitions
from hive_ingest.reader.where import parse_where

TABLE = Table(
    TableName("web", "t"),
    (Column("id", "bigint"),),
    partition_keys=(Column("country", "string"), Column("month", "int")),
)
SCHEMA = pa.schema([("id", pa.int64()), ("country", pa.string()), ("month", pa.int32())])
NULL = "__HIVE_DEFAULT_PARTITION__"
VALUES = [("India", "1"), ("India", "2"), ("France", NULL), (NULL, "3")]


def partitions():
    found = [Partition(TABLE.name, values, f"/w/{'-'.join(values)}") for values in VALUES]
    return typed_partitions(TABLE, found)


def test_partitions_come_by_name_with_typed_values():
    found = partitions()
    assert [p.name for p in found] == [
        "country=France/month=__HIVE_DEFAULT_PARTITION__",
        "country=India/month=1",
        "country=India/month=2",
        "country=__HIVE_DEFAULT_PARTITION__/month=3",
    ]
    assert [v.as_py() for v in found[1].values.values()] == ["India", 1]
    assert [v.as_py() for v in found[0].values.values()] == ["France", None]


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        (pc.field("country") == "India", ["India-1", "India-2"]),
        ((pc.field("country") == "India") & (pc.field("month") > 1) & (pc.field("id") == 9), ["India-2"]),
        ((pc.field("month") == 3) | (pc.field("id") == 9), ["France-" + NULL, "India-1", "India-2", NULL + "-3"]),
        (pc.field("month").is_null(), ["France-" + NULL]),
        (pc.field("country") != "India", ["France-" + NULL]),
        (pc.field("country").isin(["France", "Spain"]), ["France-" + NULL]),
        (pc.field("month") + 1 == 3, ["India-2"]),
        (pc.match_substring(pc.field("country"), "nd"), ["India-1", "India-2"]),
        (pc.scalar(False), []),
        (pc.field("id") > 5, ["France-" + NULL, "India-1", "India-2", NULL + "-3"]),
    ],
    ids=str,
)
def test_only_partitions_for_which_it_may_be_true_are_kept(expression, kept):
    assert [p.location.removeprefix("/w/") for p in prune(partitions(), SCHEMA, expression)] == kept


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("country in ('France', 'Spain')", ["France-" + NULL]),
        ("country not in ('France', 'Spain')", ["India-1", "India-2"]),
        ("country like 'In%' and month between 2 and 3", ["India-2"]),
        ("country like 'I%\\_%' or month is null", ["France-" + NULL]),
        ("not (month = 1 or id = 9)", ["France-" + NULL, "India-2", NULL + "-3"]),
        ("country is null", [NULL + "-3"]),
    ],
)
def test_a_filter_as_text_selects_partitions_too(where, kept):
    columns = [Column("id", "int"), Column("country", "string"), Column("month", "int")]
    expression = parse_where(where, columns).expression
    assert [p.location.removeprefix("/w/") for p in prune(partitions(), SCHEMA, expression)] == kept


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("string", "a/b é", "a/b é"),
        ("int", "007", 7),
        ("bigint", "-9", -9),
        ("boolean", "true", True),
        ("date", "2020-02-29", dt.date(2020, 2, 29)),
        ("double", "1.5", 1.5),
        ("date", NULL, None),
    ],
)
def test_a_value_has_the_type_of_its_key(type_, text, value):
    assert partition_value(Column("k", type_), text).as_py() == value


@pytest.mark.parametrize("text", ["ab", "ab  "])
def test_a_char_is_padded_however_its_folder_is_named(text):
    assert partition_value(Column("c", "char(4)"), text).as_py() == "ab  "
    assert partition_value(Column("c", "char(4)"), NULL).as_py() is None


def test_a_value_that_is_not_of_its_type_is_an_error_that_names_both():
    with pytest.raises(InvalidOperation, match=r"'soon' of day is not of type date"):
        partition_value(Column("day", "date"), "soon")
