"""Arrays made without pandas are those that `pa.array` makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hive_ingest.arrow_arrays import boolean_array, number_array, numbers_of, text_array


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("step", [1, 3])
def test_numbers(dtype: type, step: int) -> None:
    values: Any = np.arange(20).astype(dtype)[::step]
    array = number_array(values)
    array.validate(full=True)
    assert array == pa.array(values)


@pytest.mark.parametrize("count", [0, 1, 8, 13])
def test_booleans(count: int) -> None:
    values = np.arange(count) % 3 == 0
    array = boolean_array(values)
    array.validate(full=True)
    assert array == pa.array(values)


@pytest.mark.parametrize("texts", [[], [""], ["a", "", "é"]])
def test_texts(texts: list[str]) -> None:
    array = text_array(texts)
    array.validate(full=True)
    assert array == pa.array(texts, pa.string())


@pytest.mark.parametrize("values", [[], [1, 2, 3], [1, None, 3] * 7, [None] * 9])
@pytest.mark.parametrize("start", [0, 2])
def test_numbers_of_an_array(values: list[int | None], start: int) -> None:
    found = numbers_of(pa.array(values, pa.int32())[start:], np.int32, null=-1)
    assert found.tolist() == [-1 if value is None else value for value in values[start:]]
    assert found.dtype == np.int32


def test_numbers_of_timestamps_and_of_nulls_without_values() -> None:
    assert numbers_of(pa.array([5, None], pa.timestamp("ns")), np.int64).tolist() == [5, 0]
    assert numbers_of(pa.nulls(3, pa.date32()), np.int32).tolist() == [0, 0, 0]
