"""Arrow expressions leave out stripes where they say the same as a filter in text."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.model import Column
from hive_ingest.orc import OrcKind, ValueRange
from hive_ingest.reader.stripe_filter import FieldPath
from hive_ingest.reader.where import parse_where, stripes_of

COLUMNS = [
    Column("i", "int"),
    Column("b", "bigint"),
    Column("f", "float"),
    Column("d", "double"),
    Column("n", "decimal(9,2)"),
    Column("t", "string"),
    Column("c", "char(3)"),
    Column("day", "date"),
    Column("at", "timestamp"),
    Column("yes", "boolean"),
    Column("s", "struct<x:int,y:string,c:char(3)>"),
]
ID, TEXT = pc.field("i"), pc.field("t")
#: What is known of some columns in a stripe.
RANGES: dict[FieldPath, ValueRange] = {
    ("i",): ValueRange(OrcKind.INT, may_have_nulls=False, low=10, high=20),
    ("b",): ValueRange(OrcKind.LONG, may_have_nulls=True, low=2**53, high=2**53 + 1),
    ("f",): ValueRange(OrcKind.FLOAT, may_have_nulls=False, low=0.25, high=0.5),
    ("d",): ValueRange(OrcKind.DOUBLE, may_have_nulls=False, low=0.25, high=0.5),
    ("n",): ValueRange(OrcKind.DECIMAL, may_have_nulls=False, low=Decimal("1.50"), high=Decimal("2.50")),
    ("t",): ValueRange(OrcKind.STRING, may_have_nulls=False, low="JF", high="JFK"),
    ("c",): ValueRange(OrcKind.STRING, may_have_nulls=False, low="ab", high="ab"),
    ("day",): ValueRange(OrcKind.DATE, may_have_nulls=False, low=100, high=200),
    ("at",): ValueRange(OrcKind.TIMESTAMP, may_have_nulls=False, low=10**9, high=2 * 10**9),
    ("s", "x"): ValueRange(OrcKind.INT, may_have_nulls=True, low=10, high=20),
    ("s", "c"): ValueRange(OrcKind.CHAR, may_have_nulls=True, low="ab", high="ab"),
}


def may_match(expression: pc.Expression) -> bool:
    found = stripes_of(expression, COLUMNS)
    return found is None or found.may_match(RANGES.get)


@pytest.mark.parametrize(
    "expression",
    [
        ID < 10,
        ID == 21,
        ID > 20,
        pc.scalar(9) >= ID,
        ~(ID >= 10),
        (ID == 10) & (ID == 20) & (ID > 20),
        (ID < 10) | (ID > 20),
        (pc.add(ID, 1) > 5) & (ID > 20),
        ID.is_null(),
        ~ID.is_valid(),
        ID.isin([1, 2, 30]),
        ~(ID.isin([1]) | ID.is_valid()),
        pc.field("s", "x") > 20,
        pc.field("f") > 0.5,
        pc.field("d") < 0.25,
        pc.field("n") > Decimal("2.50"),
        pc.field("n") < 1,
        TEXT < "JF",
        TEXT.isin(["A", "JFKX"]),
        pc.starts_with(TEXT, "K"),
        pc.starts_with(TEXT, "JL%"),
        pc.field("c") == "abc",
        pc.field("day") > dt.date(1970, 7, 20),
        pc.field("at") > pa.scalar(2_000_001, pa.timestamp("us")),
        pc.field("at") == dt.datetime(2024, 2, 29),
    ],
    ids=str,
)
def test_a_stripe_without_a_row_for_which_the_expression_is_true_is_left_out(expression: pc.Expression) -> None:
    assert not may_match(expression)


@pytest.mark.parametrize(
    "expression",
    [
        ID > 10,
        ~(ID < 15),
        ID.isin([9, 15]),
        ~ID.isin([1, None]),
        TEXT == "JFK",
        pc.starts_with(TEXT, "k", ignore_case=True),
        pc.field("b") == float(2**53),  # Arrow compares doubles, and 2**53 + 1 is not one
        pc.field("f") == 0.1,
        pc.field("c") != "ab",  # to Arrow, the value is "ab "
        pc.field("s", "c") < "ab ",  # and in a struct "ab"
        pc.field("n") == 1.5,
        pc.field("at") == dt.date(1970, 1, 1),
        pc.field("yes"),
        ~pc.field("yes"),
        pc.field("yes") == True,  # noqa: E712 (an expression)
        pc.field("i") == pc.field("b"),
        ID.cast(pa.int64()) > 30,
        pa.scalar(None, pa.int32()) == ID,
        pc.field("i").is_null(nan_is_null=True),
        ~((pc.add(ID, 1) > 5) & (ID > 20)),
        (ID > 20) | (pc.add(ID, 1) > 5),
        pc.field(0) > 30,
        pc.if_else(ID > 30, ID > 30, ID < 10),
        ID.isin(pa.array([], pa.int32())),
    ],
    ids=str,
)
def test_a_stripe_is_read_where_the_expression_may_be_true_or_is_not_understood(expression: pc.Expression) -> None:
    assert may_match(expression)


def test_any_number_of_conditions_can_be_joined_one_by_one() -> None:
    equal, different = ([sign(ID, value) for value in range(21, 3021)] for sign in (operator.eq, operator.ne))
    assert not may_match(reduce(operator.or_, equal))
    assert not may_match(reduce(operator.or_, reversed(equal)))
    assert not may_match(reduce(lambda found, each: each | found, equal))
    assert may_match(reduce(operator.or_, equal, operator.eq(ID, 15)))
    assert not may_match(reduce(operator.and_, different, ID < 10))
    assert may_match(reduce(operator.and_, different, ID > 10))


def test_deeply_nested_conditions_are_left_to_arrow() -> None:
    nested = reduce(lambda found, value: ~(found | operator.gt(ID, value)), range(20, 3020), ID > 20)
    assert may_match(nested)
    assert not may_match(nested & (ID > 20))


def test_a_long_list_is_left_to_arrow() -> None:
    assert not may_match(ID.isin(list(range(21, 1021))))
    assert may_match(ID.isin(list(range(21, 1022))))
    assert not may_match(ID.isin(list(range(21, 1022))) & (ID > 20))


@pytest.mark.parametrize("text", ["i < 10", "not i >= 10", "i between 1 and 9", "t > 'JFK' or day is null"])
def test_the_expression_of_a_text_filter_leaves_out_what_the_text_does(text: str) -> None:
    where = parse_where(text, COLUMNS)
    assert not where.stripes.may_match(RANGES.get)
    assert not may_match(where.expression)


@pytest.mark.parametrize("names", [["a'\nliteral: '0"], ["a' 'b"], ["i: '5'"]])
def test_any_name_of_a_column_is_harmless(names: Sequence[str]) -> None:
    columns = [Column(name, "int") for name in names]
    for name in names:
        found = stripes_of(pc.field(name) > 20, columns)
        assert found is None or not found.may_match(lambda path: RANGES["i",])
