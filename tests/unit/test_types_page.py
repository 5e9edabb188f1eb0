"""The first table of docs/types.md says what the types are and where they may be used."""

from __future__ import annotations

import html
import re

import pytest

from hive_ingest.acid import EXACT_KINDS
from hive_ingest.acid.bucketing import check_bucket_type
from hive_ingest.errors import UnsupportedFeature
from hive_ingest.schema import arrow_type, parse_type
from tests.unit.record_writer.test_records_table import table_with

#: Types that stand for those with variables.
_EXAMPLES = {
    "decimal(p,s)": "decimal(10,2)",
    "varchar(n)": "varchar(3)",
    "char(n)": "char(3)",
    "array<t>": "array<int>",
    "map<k,v>": "map<int,int>",
    "struct<name:t,…>": "struct<a:int>",
}
_ARROW = {"decimal(p,s)": "decimal128(10, 2)"}


def rows() -> list[tuple[str, str, bool, bool]]:
    found = []
    for row in table_with("Bucket column"):
        names = re.split(r", (?![^<(]*[>)])", html.unescape(row["Hive type"]))
        shown = re.findall(r"`([^`]*)`", row["Arrow type"])
        for name, arrow in zip(names, shown if len(shown) > 1 else shown * len(names), strict=True):
            found.append((name, arrow, row["Partition key"] == "yes", row["Bucket column"] != "no"))
    return found


@pytest.mark.parametrize(("name", "arrow", "is_key", "is_bucket"), rows(), ids=lambda value: str(value))
def test_a_type_is_and_may_be_what_the_table_says(name: str, arrow: str, is_key: bool, is_bucket: bool) -> None:
    hive = _EXAMPLES.get(name, name)
    assert str(arrow_type(hive)).startswith(_ARROW.get(name, arrow).removesuffix("…>"))
    assert (parse_type(hive).kind in EXACT_KINDS) == is_key
    try:
        check_bucket_type(hive)
    except UnsupportedFeature:
        assert not is_bucket
    else:
        assert is_bucket


def test_every_type_is_in_the_table() -> None:
    assert len(rows()) == 17
