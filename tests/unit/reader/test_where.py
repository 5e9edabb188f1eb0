"""A filter as text means what SQL says, and anything else is refused with its place."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Column, columns_of
from hive_ingest.reader.where import parse_where
from hive_ingest.schema import arrow_schema

COLUMNS = columns_of(
    {
        "month": "int",
        "origin": "string",
        "code": "char(3)",
        "price": "decimal(5,2)",
        "ratio": "double",
        "day": "date",
        "at": "timestamp",
        "late": "boolean",
        "user": "struct<name:string,age:int>",
        "tags": "array<string>",
    }
)
ROWS = pa.table(
    {
        "month": pa.array([1, 2, 3, None], pa.int32()),
        "origin": ["JFK", "O'Hare", "a%b_c\\d", None],
        "code": ["a  ", "ab ", "abc", None],
        "price": pa.array([Decimal("1.50"), Decimal("-2.00"), None, Decimal("9.99")], pa.decimal128(5, 2)),
        "ratio": [0.5, -1e300, 2.0, None],
        "day": pa.array([dt.date(2013, 1, 1), dt.date(2013, 1, 2), None, None]),
        "at": pa.array([dt.datetime(2013, 1, 1, 5), None, None, dt.datetime(2014, 1, 1)], pa.timestamp("ns")),
        "late": [True, False, None, True],
        "user": [{"name": "ann", "age": 30}, {"name": "bob", "age": None}, None, {"name": None, "age": 7}],
        "tags": [["a"], [], None, ["b"]],
    },
    schema=arrow_schema(COLUMNS),
)


def selected(where: str, rows: pa.Table = ROWS) -> list[int]:
    numbered = rows.append_column("n", pa.array(range(rows.num_rows)))
    found: list[int] = numbered.filter(parse_where(where, COLUMNS).expression)["n"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("place.code = 'ab'", [0, 1]),
        ("place.code = 'ab '", [0, 1]),
        ("place.code in ('ab', 'x')", [0, 1]),
        ("place.code between 'ab' and 'ab'", [0, 1]),
        ("place.code <> 'ab'", [2, 3]),
        ("place.code not in ('ab')", [2, 3]),
        ("place.code = ''", [3]),
        ("place.code like 'ab'", [0, 1]),
        ("place.code is null", [4, 5]),
    ],
)
def test_a_char_in_a_struct_is_compared_without_regard_to_blanks(where, rows):
    """Our files hold it without blanks at its end, Hive's with them."""
    places = pa.array([{"code": code} for code in ("ab", "ab ", "abc", "", None)] + [None])
    table = pa.table({"place": places, "n": range(6)})
    condition = parse_where(where, [Column("place", "struct<code:char(3)>")])
    assert table.filter(condition.expression)["n"].to_pylist() == rows


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("month = 3", [2]),
        ("MONTH=3", [2]),
        ("`month` = 3", [2]),
        ("3 = month", [2]),
        ("2 < month", [2]),
        ("2 >= month", [0, 1]),
        ("month != 3", [0, 1]),
        ("month <> 3", [0, 1]),
        ("month < 2", [0]),
        ("month <= 2", [0, 1]),
        ("month > 2", [2]),
        ("month >= +2", [1, 2]),
        ("month = '3'", [2]),
        ("month >= 2 and month<3", [1]),
        ("month > 0 and origin = 'JFK' AND late = true", [0]),
        ("month = 1 or month = 3", [0, 2]),
        ("month = 1 OR month = 3 and late = true", [0]),
        ("(month = 1 or month = 2) and late = false", [1]),
        ("not month = 3", [0, 1]),
        ("not (month = 1 or month = 2)", [2]),
        ("not not month = 1", [0]),
        ("month between 2 and 3", [1, 2]),
        ("month not between 2 and 3", [0]),
        ("month between 1 and 2 and late = true", [0]),
        ("month in (1, 3, 7)", [0, 2]),
        ("month not in (1, 3, 7)", [1]),
        ("not (month in (1))", [1, 2]),
        ("origin in ('JFK')", [0]),
        ("price in (1.5, 9.99)", [0, 3]),
        ("at in (timestamp '2014-01-01 00:00:00')", [3]),
        ("origin = 'O''Hare'", [1]),
        ('origin = "O\'Hare"', [1]),
        ("origin is null", [3]),
        ("origin IS NOT NULL and month is not null", [0, 1, 2]),
        ("not origin is null", [0, 1, 2]),
        ("tags is null", [2]),
        ("code = 'ab'", [1]),
        ("code in ('a', 'abc ')", [0, 2]),
        ("price = 1.5", [0]),
        ("price = 9.990", [3]),
        ("price < -1", [1]),
        ("ratio = -1e300", [1]),
        ("ratio > .4", [0, 2]),
        ("day >= '2013-01-02'", [1]),
        ("day = date '2013-01-01'", [0]),
        ("at < '2013-01-01 06:00:00'", [0]),
        ("at > date '2013-01-01'", [0, 3]),
        ("at = timestamp '2014-01-01 00:00:00'", [3]),
        ("late = false", [1]),
        ("true = late", [0, 3]),
        ("user.name = 'ann'", [0]),
        ("user.age is null", [1, 2]),
    ],
)
def test_rows_are_those_that_a_reader_of_the_text_expects(where: str, rows: list[int]) -> None:
    assert selected(where) == rows


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("origin like 'JFK'", [0]),
        ("origin like 'jfk'", []),
        ("origin like '%a%'", [1, 2]),
        ("origin like '_FK'", [0]),
        ("origin like '%\\%%'", [2]),
        ("origin like 'a%b\\_c%'", [2]),
        ("origin like '%\\\\d'", [2]),
        ("origin like '%c\\d' escape '!'", [2]),
        ("origin like 'a!%b%' escape '!'", [2]),
        ("origin like '.*'", []),
        ("origin not like '%a%'", [0]),
        ("not origin like '%a%'", [0]),
        ("code like 'a_'", [1]),
        ("code like '%c'", [2]),
    ],
)
def test_like_is_sqls(where: str, rows: list[int]) -> None:
    assert selected(where) == rows


def test_like_takes_newlines_and_letters_of_any_script() -> None:
    origins = ["a\nb", "日本", "ab"]
    rows = pa.Table.from_pylist([{"origin": origin} for origin in origins], schema=arrow_schema(COLUMNS))
    assert selected("origin like 'a%b'", rows) == [0, 2]
    assert selected("origin like '__'", rows) == [1, 2]


Truth = bool | None


def conditions() -> st.SearchStrategy[tuple[str, tuple[Truth, ...]]]:
    """A filter over `late` and `month`, and what SQL makes of it for each of the four rows."""
    atoms = st.sampled_from(
        [
            ("late = true", (True, False, None, True)),
            ("month = 1", (True, False, False, None)),
            ("month in (1, 2)", (True, True, False, None)),
            ("month not between 2 and 3", (True, False, False, None)),
            ("month is null", (False, False, False, True)),
            ("origin like 'J%'", (True, False, False, None)),
        ]
    )

    def extend(inner: st.SearchStrategy[tuple[str, tuple[Truth, ...]]]) -> st.SearchStrategy:
        return st.one_of(
            inner.map(lambda c: (f"not ({c[0]})", tuple(None if t is None else not t for t in c[1]))),
            st.tuples(inner, inner).map(
                lambda p: (f"({p[0][0]}) and ({p[1][0]})", tuple(map(sql_and, p[0][1], p[1][1])))
            ),
            st.tuples(inner, inner).map(
                lambda p: (f"({p[0][0]}) or ({p[1][0]})", tuple(map(sql_or, p[0][1], p[1][1])))
            ),
        )

    return st.recursive(atoms, extend, max_leaves=8)


def sql_and(a: Truth, b: Truth) -> Truth:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def sql_or(a: Truth, b: Truth) -> Truth:
    if a or b:
        return True
    return None if a is None or b is None else False


@settings(max_examples=200)
@given(conditions())
def test_nulls_count_as_unknown_in_every_combination(condition: tuple[str, tuple[Truth, ...]]) -> None:
    where, truths = condition
    assert selected(where) == [i for i, truth in enumerate(truths) if truth]


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("", "expected a column, at position 0, its end"),
        ("month", "expected an operator, at position 5"),
        ("month =", "expected a quoted string or a number"),
        ("month == 3", "expected a quoted string or a number, at position 7"),
        ("= 3", "expected a column, at position 0"),
        ("month = 3 and", "expected a column"),
        ("month = 3 month = 4", "expected 'and', 'or' or the end of the filter, at position 10 ('month = 4')"),
        ("month = 3; drop", "unexpected text, at position 9"),
        ("origin = 'JFK", "the closing quote is missing, at position 9"),
        ("origin = JFK", "expected a quoted string or a number, at position 9"),
        ("origin = 3", "origin is string: put the value in quotes, at position 9"),
        ("month = null", "use 'is null' or 'is not null', at position 8"),
        ("month in (1, null)", "nothing is equal to null"),
        ("month in ()", "expected a quoted string or a number"),
        ("month in 1", "expected '('"),
        ("month between 1", "expected 'and'"),
        ("month not = 3", "expected 'between', 'in' or 'like'"),
        ("(month = 3", "expected ')'"),
        ("month = 3)", "expected 'and', 'or' or the end"),
        ("month is 3", "expected 'null'"),
        ("month = 3and origin is null", "unexpected text, at position 8"),
        ("month like '3%'", "month is int: only string columns can be compared by 'like', at position 0"),
        ("origin like 3", "expected a quoted string, at position 12"),
        ("origin like 'a!' escape '!'", "the escape '!' must stand before"),
        ("origin like 'a' escape '!!'", "expected a single character in quotes, at position 23"),
        ("nowhere = 3", "there is no column 'nowhere' (the columns are month, origin, "),
        ("user.size = 3", "'user.size' does not name a field of struct<name:string,age:int>"),
        ("month.x = 3", "'month.x' does not name a field of int"),
        ("tags = 'a'", "tags is array<string>: it can only be tested by 'is null' or 'is not null'"),
        ("month = 'x'", "'x' is not a value of type int, the type of month, at position 8"),
        ("month = 1.5", "'1.5' is not a value of type int"),
        ("month = 99999999999", "is not a value of type int"),
        ("month = true", "'true' is not a value of type int"),
        ("day = 2013", "'2013' is not a value of type date"),
        ("day = timestamp '2013-01-01 00:00:00'", "is not a value of type date"),
        ("price = 1.555", "'1.555' is not a value of type decimal(5,2)"),
        ("late = 1", "'1' is not a value of type boolean"),
        ("(" * 5000 + "month = 3" + ")" * 5000, "more than 100 levels of parentheses"),
    ],
)
def test_a_filter_that_cannot_be_used_says_why_and_where(where: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_where(where, COLUMNS)
    assert why in str(caught.value)
    assert "an example of a filter is" in str(caught.value)


def test_many_alternatives_do_not_nest_deeply() -> None:
    assert selected(" or ".join(f"month = {i}" for i in range(3, 3000))) == [2]
    assert selected(f"month in ({', '.join(map(str, range(2, 3000)))})") == [1, 2]


@given(st.text(alphabet="month='\"()<>!., andorinlikebetween0123456789`\\", max_size=40))
def test_any_text_is_a_filter_or_a_configuration_error(text: str) -> None:
    try:
        expression = parse_where(text, COLUMNS).expression
    except ConfigurationError:
        return
    ROWS.filter(expression)


def test_a_pattern_with_an_escape_at_its_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must stand before %, _ or itself"):
        parse_where("origin like 'a\\'", COLUMNS)


def test_in_finds_what_equals_finds_among_floats() -> None:
    """Arrow's `isin` compares bits: -0.0 was not in a list with 0, and `not in` gave it back."""
    rows = pa.table({"f": pa.array([0.0, -0.0, 1.5, float("nan"), None], pa.float64())})
    columns = (Column("f", "double"),)

    def found(text: str) -> list[str]:
        return [str(value) for value in rows.filter(parse_where(text, columns).expression)["f"].to_pylist()]

    assert found("f in (0, 2)") == found("f = 0 or f = 2") == ["0.0", "-0.0"]
    assert found("f not in (0, 2)") == found("not (f = 0 or f = 2)") == ["1.5", "nan"]


def test_a_decimal_of_any_exponent_is_compared_or_refused():
    assert selected("price > 0e-99999999") == [0, 3]
    assert selected("price > 0e99999999") == [0, 3]
    for number in ("1e-99999999", "1e-50", "1e99999999"):
        with pytest.raises(ConfigurationError, match="is not a value of type"):
            selected(f"price = {number}")
