"""A filter as text means what it says, and nothing else is let through."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.reader.where import parse_where

ROWS = pa.table(
    {
        "month": pa.array([1, 2, 3, None], pa.int32()),
        "origin": ["JFK", "O'Hare", "and", None],
        "price": pa.array([Decimal("1.50"), Decimal("-2.00"), None, Decimal("9.99")], pa.decimal128(5, 2)),
        "ratio": [0.5, -1e300, 2.0, None],
        "day": pa.array([dt.date(2013, 1, 1), dt.date(2013, 1, 2), None, None]),
        "at": pa.array([dt.datetime(2013, 1, 1, 5), None, None, dt.datetime(2014, 1, 1)], pa.timestamp("ns")),
        "late": [True, False, None, True],
    }
)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("month = 3", [2]),
        ("MONTH=3", [2]),
        ("month != 3", [0, 1]),
        ("month <> 3", [0, 1]),
        ("month < 2", [0]),
        ("month <= 2", [0, 1]),
        ("month > 2", [2]),
        ("month >= 2", [1, 2]),
        ("month >= 2 and month<3", [1]),
        ("month > 0 and origin = 'JFK' AND late = true", [0]),
        ("origin = 'O''Hare'", [1]),
        ("origin = 'and' and month = 3", [2]),
        ("origin is null", [3]),
        ("origin IS NOT NULL and month is not null", [0, 1, 2]),
        ("price = 1.5", [0]),
        ("price < -1", [1]),
        ("ratio = -1e300", [1]),
        ("day >= '2013-01-02'", [1]),
        ("at < '2013-01-01 06:00:00'", [0]),
        ("late = false", [1]),
    ],
)
def test_rows_are_those_that_a_reader_of_the_text_expects(where: str, rows: list[int]) -> None:
    numbered = ROWS.append_column("n", pa.array(range(4)))
    assert numbered.filter(parse_where(where, ROWS.schema))["n"].to_pylist() == rows


@pytest.mark.parametrize(
    "where",
    [
        "",
        "month",
        "month =",
        "month == 3",
        "= 3",
        "month = 3 or month = 4",
        "month = 3 and",
        "month = 3 month = 4",
        "month = 3; drop",
        "origin = 'JFK",
        'origin = "JFK"',
        "not month = 3",
        "month in (1, 2)",
        "(month = 3)",
        "month is 3",
        "month isnull",
        "month = 3and origin is null",
    ],
)
def test_what_is_not_a_chain_of_comparisons_is_refused(where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--where (cannot be read at|compares)"):
        parse_where(where, ROWS.schema, "--where")


def test_an_unknown_column_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'nowhere', which is no column: there are month, origin"):
        parse_where("nowhere = 3", ROWS.schema)


@pytest.mark.parametrize("literal", ["'x'", "1.5", "99999999999", "true"])
def test_a_literal_must_be_a_value_of_its_column(literal: Any) -> None:
    with pytest.raises(ConfigurationError, match="month, which is int32"):
        parse_where(f"month = {literal}", ROWS.schema)
