"""What readers may conclude from the statistics of a stripe: nothing that a writer of Hive's history did not mean."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.orc import AcidFileReader, FileToRead, OrcKind, StripeBounds, ValueRange
from hive_ingest.orc.format.protobuf import bytes_field, int_field, signed_field
from hive_ingest.orc.format.tail import OrcTail
from hive_ingest.storage import LocalStore
from tests.support.acid_files import write_acid_file

ROWS = 3
DAY_NS = 86_400_000_000_000


def tail_of(tmp_path: Path, column: pa.Array, **options: Any) -> OrcTail:
    rows = pa.StructArray.from_arrays([column], ["c"])
    path = write_acid_file(tmp_path / "bucket_00000", [(1, 0, i) for i in range(len(column))], rows=rows, **options)
    with AcidFileReader(LocalStore(), FileToRead(str(path), None, False, path.stat().st_size)) as reader:
        return reader.tail


def bounds(tail: OrcTail, *fields: str, rows: int = ROWS) -> ValueRange | None:
    return StripeBounds(tail, tail.footer.statistics, rows, is_acid=True).of(0, fields)


def changed(tail: OrcTail, number: int, message: bytes) -> OrcTail:
    """The tail with other statistics of one column; the table's only one has number 7."""
    statistics = list(tail.footer.statistics)
    statistics[number] = message
    return replace(tail, footer=replace(tail.footer, statistics=tuple(statistics)))


def test_integers_have_bounds_and_no_null(tmp_path: Path) -> None:
    found = bounds(tail_of(tmp_path, pa.array([3, -1, 7], pa.int64())))
    assert found == ValueRange(OrcKind.LONG, may_have_nulls=False, may_have_values=True, low=-1, high=7)


def test_a_column_of_nulls_has_no_values(tmp_path: Path) -> None:
    found = bounds(tail_of(tmp_path, pa.nulls(3, pa.int64())))
    assert found is not None
    assert (found.may_have_nulls, found.may_have_values) == (True, False)


def test_a_column_that_the_file_lacks_has_only_nulls(tmp_path: Path) -> None:
    tail = tail_of(tmp_path, pa.array([1, 2, 3]))
    found = StripeBounds(tail, tail.footer.statistics, ROWS, is_acid=True).of(1, ())
    assert found == ValueRange(OrcKind.STRUCT, may_have_nulls=True, may_have_values=False)


@pytest.mark.parametrize("values", [[1.0, math.nan, 2.0], [math.nan, 1.0, 2.0], [math.nan] * 3, [1.0, 2.0, math.inf]])
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_a_nan_takes_the_bounds_away_wherever_it_is(tmp_path: Path, values: list[float], type_: pa.DataType) -> None:
    found = bounds(tail_of(tmp_path, pa.array(values, type_)))
    assert found is not None
    assert (found.low, found.high) == (None, None)


def test_numbers_without_nan_have_bounds(tmp_path: Path) -> None:
    found = bounds(tail_of(tmp_path, pa.array([1.5, -0.0, 2.5])))
    assert found is not None
    assert (found.low, found.high) == (-0.0, 2.5)


def test_statistics_without_any_value_are_not_believed(tmp_path: Path) -> None:
    """Those of a minor compaction by Hive 3.1.3: every column has no value, and no null."""
    tail = tail_of(tmp_path, pa.array([1, 2, 3]))
    empty = int_field(1, 0) + int_field(10, 0)
    nothing = replace(tail, footer=replace(tail.footer, statistics=(empty,) * len(tail.footer.statistics)))
    assert bounds(nothing) is None
    assert bounds(changed(tail, 7, empty)) is None, "neither values nor nulls in rows that are there"
    assert bounds(replace(tail, footer=replace(tail.footer, statistics=()))) is None


def test_a_stripe_with_other_operations_than_inserts_is_not_left_out(tmp_path: Path) -> None:
    """As in files of Hive 2: the reader must see its updates and deletes to refuse the file."""
    tail = tail_of(tmp_path, pa.array([1, 2, 3]))
    both = signed_field(1, 0) + signed_field(2, 2) + signed_field(3, 2)
    assert bounds(changed(tail, 1, int_field(1, ROWS) + bytes_field(2, both) + int_field(10, 0))) is None


def test_damaged_statistics_are_unknown(tmp_path: Path) -> None:
    tail = tail_of(tmp_path, pa.array([1, 2, 3]))
    assert bounds(changed(tail, 7, b"\xff")) is None
    assert bounds(changed(tail, 1, b"\xff")) is None


def test_fields_of_a_struct_may_be_null_where_the_struct_is(tmp_path: Path) -> None:
    structs = pa.array([{"n": 1}, {"n": None}, {"n": 5}], pa.struct([("n", pa.int64())]))
    found = bounds(tail_of(tmp_path, structs), "n")
    assert found is not None
    assert (found.low, found.high, found.may_have_nulls) == (1, 5, True)
    assert bounds(tail_of(tmp_path / "b", structs), "absent") is None


def test_timestamps_of_another_writer_may_be_off_by_a_time_zone(tmp_path: Path) -> None:
    times = pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), None], pa.timestamp("ns"))
    low, high = times[0].value, times[1].value
    tail = tail_of(tmp_path, times)
    assert off_by(bounds(tail), low, high) == (1_000_000, 1_000_000), "they may be rounded to milliseconds"
    hives = replace(tail, footer=replace(tail.footer, writer=0))
    assert off_by(bounds(hives), low, high) >= (DAY_NS, DAY_NS)


def off_by(found: ValueRange | None, low: int, high: int) -> tuple[int, int]:
    """By how much the bounds are wider than these."""
    assert found is not None
    assert isinstance(found.low, int)
    assert isinstance(found.high, int)
    return low - found.low, found.high - high


def test_dates_of_another_calendar_have_no_bounds(tmp_path: Path) -> None:
    found = bounds(tail_of(tmp_path, pa.array([dt.date(1500, 1, 1), dt.date(2024, 1, 1), None])))
    assert found is not None
    assert (found.low, found.high) == (None, None)
