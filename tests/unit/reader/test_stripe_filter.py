"""Which stripes a filter leaves out: only those in which it cannot be true."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pytest

from hive_ingest.errors import UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import columns_of
from hive_ingest.orc import OrcKind, StripeReader, ValueRange
from hive_ingest.reader import read_table
from hive_ingest.reader.stripe_filter import FieldPath
from hive_ingest.reader.where import parse_where
from tests.support.acid_files import TableOnDisk

COLUMNS = columns_of(
    {
        "i": "int",
        "d": "double",
        "m": "decimal(5,2)",
        "s": "string",
        "c": "char(4)",
        "v": "varchar(2)",
        "u": "struct<n:int>",
    }
)
#: Columns of a stripe: i is 5 to 9, d may have a NaN, s is "ab" to "cd" or null, u.n is 5 to 9 or null.
RANGES: dict[FieldPath, ValueRange] = {
    ("i",): ValueRange(OrcKind.INT, False, True, 5, 9),
    ("d",): ValueRange(OrcKind.DOUBLE, False, True),
    ("m",): ValueRange(OrcKind.DECIMAL, False, True, Decimal("1.50"), Decimal("2")),
    ("s",): ValueRange(OrcKind.STRING, True, True, "ab", "cd"),
    ("c",): ValueRange(OrcKind.CHAR, False, True, "a", "b\t"),
    ("v",): ValueRange(OrcKind.VARCHAR, False, True, "abc", "abd"),
    ("u", "n"): ValueRange(OrcKind.INT, True, True, 5, 9),
}


@pytest.mark.parametrize(
    ("where", "may_match"),
    [
        ("i = 4", False),
        ("i = 5", True),
        ("i < 5", False),
        ("i <= 5", True),
        ("i > 9", False),
        ("i >= 9", True),
        ("i != 7", True),
        ("not i < 100", False),
        ("i between 1 and 4", False),
        ("i not between 5 and 9", False),
        ("i in (1, 2, 10)", False),
        ("i in (1, 7)", True),
        ("i not in (1, 7)", True),
        ("i is null", False),
        ("i = 4 or i = 6", True),
        ("i = 6 and s = 'zz'", False),
        ("not (i = 6 or s = 'b')", True),
        ("d = 1.5", True),
        ("not d < 1e300", True),
        ("m = 1.5", True),
        ("m < 1.5", False),
        ("s = 'aa'", False),
        ("s is null", True),
        ("not s = 'aa'", True),
        ("s like 'ce%'", False),
        ("s like 'c%'", True),
        ("s like '%z'", True),
        ("s like 'b\\_%'", True),
        ("s not like 'b%'", True),
        ("c = 'a'", True),
        ("c = 'b'", True),
        ("v = 'ab'", True),
        ("v = 'ac'", False),
        ("u.n = 4", False),
        ("u.n = 5", True),
        ("u.n is null", True),
        ("u is not null", True),
    ],
)
def test_a_stripe_is_left_out_if_no_value_in_its_range_fits(where: str, may_match: bool) -> None:
    stripes = parse_where(where, COLUMNS).stripes
    assert stripes.may_match(lambda path: RANGES.get(path)) is may_match
    pickled = pickle.loads(pickle.dumps(stripes))
    assert pickled.may_match(lambda path: RANGES.get(path)) is may_match


@pytest.mark.parametrize("where", ["i = 4", "not i < 100", "s like 'z%'", "i is null", "i in (1)", "u.n = 4"])
def test_a_stripe_of_which_nothing_is_known_is_read(where: str) -> None:
    assert parse_where(where, COLUMNS).stripes.may_match(lambda path: None)


def test_only_nulls_make_every_comparison_unknown() -> None:
    nothing = ValueRange(OrcKind.INT, may_have_nulls=True, may_have_values=False)
    for where, may_match in [("i = 4", False), ("not i = 4", False), ("i in (4)", False), ("i is null", True)]:
        assert parse_where(where, COLUMNS).stripes.may_match(lambda path: nothing) is may_match


@pytest.mark.one_embedded
def test_files_of_which_no_row_can_pass_are_not_decoded(
    make_table: Any, struct: Any, metastore: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: TableOnDisk = make_table()
    for first in (0, 100, 200):
        table.insert(table.commit(), struct(id=[first + 1, first + 2], msg=["a", "b"]))
    read: list[str] = []
    original = StripeReader.read

    def spy(self: StripeReader, *arguments: Any) -> Any:
        read.append(self.path)
        return original(self, *arguments)

    monkeypatch.setattr(StripeReader, "read", spy)
    found = read_table(metastore, "web.t", where="id between 101 and 150")
    assert found["id"].to_pylist() == [101, 102]
    assert [path.split("/")[-2] for path in read] == ["delta_0000002_0000002_0000"]


@pytest.mark.one_embedded
def test_files_that_do_not_fit_the_table_are_refused_even_if_no_row_could_pass(
    make_table: Any, struct: Any, metastore: MetastoreClient
) -> None:
    """By position, the bounds of another column would leave the file out."""
    table: TableOnDisk = make_table()
    for first in (0, 100):
        table.insert(table.commit(), struct(msg=["a"], id=[first]))
    with pytest.raises(UnsupportedFeature, match="columns are matched by position"):
        read_table(metastore, "web.t", where="id = 5")
