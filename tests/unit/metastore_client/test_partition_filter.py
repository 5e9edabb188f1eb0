from __future__ import annotations

import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.partition_filter import parse_filter
from hive_ingest.model import DEFAULT_PARTITION_NAME, Column

KEYS = (Column("country", "string"), Column("month", "int"), Column("day", "date"), Column("price", "decimal(5,2)"))
INDIA = ("India", "3", "2024-01-31", "9.50")
JAPAN = ("Japan", "12", "2024-02-01", "10.00")
NOTHING = (DEFAULT_PARTITION_NAME,) * 4


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ('country = "India"', [INDIA]),
        ("country = 'India'", [INDIA]),
        ("COUNTRY = 'India'", [INDIA]),
        ("`country` = 'India'", [INDIA]),
        ("'India' = country", [INDIA]),
        ("country != 'India'", [JAPAN]),
        ("country <> 'India'", [JAPAN]),
        ("country > 'India'", [JAPAN]),
        ("month > 3", [JAPAN]),
        ("month >= 3", [INDIA, JAPAN]),
        ("month < 12", [INDIA]),
        ("4 > month", [INDIA]),
        ("12 <= month", [JAPAN]),
        ("month = '03'", [INDIA]),
        ("month between 1 and 5", [INDIA]),
        ("month not between 1 and 5", [JAPAN]),
        ("not (month between 1 and 5)", [JAPAN, NOTHING]),
        ("day < '2024-02-01'", [INDIA]),
        ("day = date '2024-02-01'", [JAPAN]),
        ("price < 10", [INDIA]),
        ("price = 10", [JAPAN]),
        ("price >= 9.5", [INDIA, JAPAN]),
        ("country like 'In%'", [INDIA]),
        ("country like '_a%'", [JAPAN]),
        ("country LIKE 'in%'", []),
        ("country like 'In.*'", []),
        ("not country = 'India'", [JAPAN, NOTHING]),
        ("country = 'India' and month > 3", []),
        ("country = 'India' OR month > 3", [INDIA, JAPAN]),
        ("country = 'x' or country = 'India' and month = 3", [INDIA]),
        ("(country = 'x' or country = 'India') and month = 12", []),
        (f"country = '{DEFAULT_PARTITION_NAME}'", [NOTHING]),
        ("country = 'In\\'dia'", []),
    ],
)
def test_a_filter_selects_partitions_by_their_typed_values(text: str, selected: list[tuple[str, ...]]) -> None:
    matches = parse_filter(text, KEYS)
    assert [values for values in (INDIA, JAPAN, NOTHING) if matches(values)] == selected


def test_numbers_are_not_compared_as_text() -> None:
    assert parse_filter("month < 10", KEYS)(("x", "9", "2024-01-01", "1"))


def test_a_quote_can_be_written_with_a_backslash() -> None:
    assert parse_filter(r"country = 'Cote d\'Ivoire'", KEYS)(("Cote d'Ivoire", "1", "2024-01-01", "1"))


def test_a_value_out_of_its_types_range_matches_no_comparison() -> None:
    matches = parse_filter("month != 3", KEYS)
    assert not matches(("x", "unknown", "2024-01-01", "1"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a partition key, at position 0"),
        ("country", "expected an operator, at position 7"),
        ("country = ", "expected a quoted string or a number, at position 10, its end"),
        ("country = India", "expected a quoted string or a number, at position 10"),
        ("city = 'x'", "'city' is not a partition key (the keys are country, month, day, price)"),
        ("month = 'march'", "'march' is not a value of type int, the type of partition key 'month', at position 8"),
        ("day > 'soon'", "'soon' is not a value of type date"),
        ("(month = 1", "expected ')'"),
        ("month = 1 month = 2", "expected 'and', 'or' or the end of the filter, at position 10"),
        ("month = 1 and", "expected a partition key"),
        ("month between 1 or 2", "expected 'and'"),
        ("month not 3", "expected 'between', 'in' or 'like'"),
        ("month in (1, 2)", "the metastore's filters do not have 'in', 'is null' and 'escape', at position 0"),
        ("month is not null", "the metastore's filters do not have 'is not null', 'not in' and 'not like'"),
        ("day not like '2024%'", "the metastore's filters do not have"),
        ("country = 'Cote d''Ivoire'", "expected 'and', 'or' or the end of the filter"),
        ("month = 1; drop table x", "unexpected text, at position 9"),
        ("country = 'India", "the closing quote is missing, at position 10"),
    ],
)
def test_an_unparsable_filter_shows_the_position_of_its_error(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_filter(text, KEYS)
    assert why in str(caught.value)
