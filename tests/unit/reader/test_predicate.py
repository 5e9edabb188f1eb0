"""A filter is bound before anything is read, and names the columns that it needs."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.reader.predicate import Predicate

SCHEMA = pa.schema(
    [("id", pa.int32()), ("msg", pa.string()), ("s", pa.struct([("x", pa.int64())])), ("k", pa.date32())]
)
BATCH = pa.RecordBatch.from_pylist(
    [{"id": 1, "msg": "a", "s": {"x": 5}}, {"id": None, "msg": None, "s": None}, {"id": 3, "msg": "c", "s": {"x": 7}}],
    schema=SCHEMA,
)


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        (pc.field("id") > 3, {"id"}),
        ((pc.field("id") > 3) | (pc.field("s", "x") == 1), {"id", "s"}),
        (pc.field("msg").isin(["a"]) & ~pc.field("k").is_null(), {"msg", "k"}),
        (pc.scalar(True), set()),
        (pc.field(0) == 1, {"id", "msg", "s", "k"}),
    ],
    ids=lambda value: "-".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_the_columns_that_it_reads_are_known(expression, columns):
    assert Predicate(SCHEMA, filter=expression).paths == {(name,) for name in columns}


def test_rows_for_which_it_is_null_are_not_kept():
    mask = Predicate(SCHEMA, filter=pc.field("id") > 1).mask(BATCH)
    assert pa.table({"n": [0, 1, 2]}).filter(mask)["n"].to_pylist() == [2]


def test_nested_fields_can_be_selected():
    assert Predicate(SCHEMA, filter=pc.field("s", "x") == 7).mask(BATCH).to_pylist() == [False, None, True]


def test_a_large_batch_comes_back_in_order():
    numbers = pa.record_batch({"id": pa.array(range(500_000), pa.int32())})
    mask = Predicate(pa.schema([("id", pa.int32())]), filter=pc.field("id") >= 250_000).mask(numbers)
    assert mask.to_pylist() == [i >= 250_000 for i in range(500_000)]


@pytest.mark.parametrize(
    "expression", [pc.field("absent") == 1, pc.field("msg") == 1, pc.field("id") + 1, pc.field("s", "y") == 1], ids=str
)
def test_an_expression_that_does_not_fit_is_refused_before_reading(expression):
    with pytest.raises(ConfigurationError, match="filter"):
        Predicate(SCHEMA, filter=expression)
