"""What must be true at the end, computed from the source alone and compared with the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from examples.quickstart.flights import COLUMNS, FIELDS, PARTITION_KEYS
from hive_ingest.model import columns_of
from hive_ingest.schema import arrow_schema

SUMMED = ("distance", "air_time", "dep_delay", "arr_delay", "row_number")


@dataclass(frozen=True, slots=True)
class Check:
    """A promise and whether it was kept."""

    promise: str
    is_kept: bool


def compare(source: pa.Table, landed: pa.Table) -> Iterator[Check]:
    """The flights of the source and the rows of the table, as read in one snapshot."""
    expected = source.select(FIELDS).cast(arrow_schema(columns_of(COLUMNS | PARTITION_KEYS)))
    numbers = landed["row_number"]
    missing = source.num_rows - len(set(numbers.to_pylist()) & set(range(1, source.num_rows + 1)))
    twice = landed.num_rows - pc.count_distinct(numbers).as_py()
    yield Check(f"every row number from 1 to {source.num_rows:,} is there{_but(missing, 'missing')}", missing == 0)
    yield Check(f"none is there twice{_but(twice, 'more rows')}", twice == 0)
    yield Check(
        f"counts and sums of {len(SUMMED)} columns in each partition equal those of the source",
        _by_partition(landed).equals(_by_partition(expected)),
    )
    yield Check(
        f"every cell of all {len(FIELDS)} columns equals the source's",
        landed.select(FIELDS).sort_by("row_number").equals(expected.sort_by("row_number")),
    )


def _but(number: int, what: str) -> str:
    return f": {number:,} {what}" if number else ""


def _by_partition(flights: pa.Table) -> pa.Table:
    keys = list(PARTITION_KEYS)
    sums = [(name, "sum") for name in SUMMED]
    return (
        flights.group_by(keys).aggregate([("row_number", "count"), *sums]).sort_by([(key, "ascending") for key in keys])
    )
