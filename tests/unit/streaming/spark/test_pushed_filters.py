"""A filter that is pushed keeps exactly the rows that Spark would keep; any other stays with Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark

from hive_ingest.reader.predicate import Predicate
from hive_ingest.streaming.spark.pushed_filters import all_of, to_expression

TYPES = {"id": "int", "msg": "string", "day": "date", "price": "decimal(5,2)", "late": "boolean", "ratio": "double"}
ROWS = pa.record_batch(
    {
        "id": pa.array([1, 2, 3, None], pa.int32()),
        "msg": ["a%b", "", None, "b"],
        "day": [dt.date(2024, 1, 1), None, dt.date(2024, 1, 3), dt.date(2024, 1, 4)],
        "price": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("-1.00")], pa.decimal128(5, 2)),
        "late": [True, False, None, True],
        "ratio": [1.0, float("nan"), None, 2.0],
    }
)
EXACT = [
    (spark.EqualTo(("id",), 2), [1]),
    (spark.EqualTo(("ID",), 2), [1]),
    (spark.Not(spark.EqualTo(("id",), 2)), [0, 2]),
    (spark.EqualNullSafe(("id",), 2), [1]),
    (spark.EqualNullSafe(("id",), None), [3]),
    (spark.Not(spark.EqualNullSafe(("id",), 2)), [0, 2, 3]),
    (spark.Not(spark.EqualNullSafe(("id",), None)), [0, 1, 2]),
    (spark.GreaterThan(("id",), 2), [2]),
    (spark.Not(spark.GreaterThan(("id",), 2)), [0, 1]),
    (spark.GreaterThanOrEqual(("day",), dt.date(2024, 1, 3)), [2, 3]),
    (spark.LessThan(("price",), Decimal("1.5")), [3]),
    (spark.LessThanOrEqual(("price",), Decimal("1.5")), [0, 3]),
    (spark.LessThan(("msg",), "b"), [0, 1]),
    (spark.In(("id",), (3, 1, 7)), [0, 2]),
    (spark.Not(spark.In(("id",), (3, 1, 7))), [1]),
    (spark.IsNull(("msg",)), [2]),
    (spark.Not(spark.IsNull(("msg",))), [0, 1, 3]),
    (spark.IsNotNull(("ratio",)), [0, 1, 3]),
    (spark.EqualTo(("late",), True), [0, 3]),
    (spark.Not(spark.EqualTo(("late",), True)), [1]),
    (spark.StringStartsWith(("msg",), "a"), [0]),
    (spark.Not(spark.StringStartsWith(("msg",), "a")), [1, 3]),
    (spark.StringEndsWith(("msg",), "b"), [0, 3]),
    (spark.StringContains(("msg",), "%"), [0]),
    (spark.StringContains(("msg",), ""), [0, 1, 3]),
]
SPARKS_OWN = [
    spark.EqualTo(("ratio",), 1.0),  # NaN is equal to itself there, and larger than all else
    spark.GreaterThan(("ratio",), 1.0),
    spark.EqualTo(("id",), None),
    spark.EqualTo(("id",), 2**40),
    spark.EqualTo(("id",), "2"),
    spark.EqualTo(("price",), Decimal("1.555")),
    spark.In(("id",), (1, None)),
    spark.EqualTo(("address", "city"), "Bonn"),
    spark.EqualTo(("elsewhere",), 1),
    spark.StringStartsWith(("id",), "1"),
    spark.Not(spark.Not(spark.EqualTo(("id",), 2))),
    spark.Not(spark.EqualTo(("ratio",), 1.0)),
]


@pytest.mark.parametrize(("filter", "rows"), EXACT, ids=[str(filter) for filter, _ in EXACT])
def test_a_pushed_filter_keeps_the_rows_for_which_it_is_true(filter: Any, rows: list[int]) -> None:
    expression = to_expression(filter, TYPES)
    assert expression is not None
    mask = Predicate(ROWS.schema, filter=expression).mask(ROWS)
    assert [i for i, keep in enumerate(mask.to_pylist()) if keep] == rows


@pytest.mark.parametrize("filter", SPARKS_OWN, ids=map(str, SPARKS_OWN))
def test_filters_that_arrow_evaluates_differently_are_left_to_spark(filter: Any) -> None:
    assert to_expression(filter, TYPES) is None


def test_filters_are_joined_by_and() -> None:
    expressions = [to_expression(filter, TYPES) for filter in (spark.IsNotNull(("id",)), spark.LessThan(("id",), 3))]
    joined = all_of([expression for expression in expressions if expression is not None])
    assert Predicate(ROWS.schema, filter=joined).mask(ROWS).to_pylist() == [True, True, False, False]
    assert all_of([]) is None
