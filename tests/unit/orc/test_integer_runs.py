"""Streams of integers hold what was written; that the ORC library reads them too, `test_early_timestamps` shows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.orc.format.integer_runs import write_integers
from tests.unit.orc.integer_streams import read_integers

#: Of all widths, and in runs that are longer than one run of a stream can be.
_SIGNED = st.integers(0, 63).flatmap(lambda bits: st.integers(-(2**bits), 2**bits - 1))
_GROUPS = st.lists(
    st.lists(st.tuples(_SIGNED, st.integers(1, 700)), max_size=4).map(
        lambda runs: np.array([number for number, repeats in runs for number in [number] * repeats], np.int64)
    ),
    max_size=3,
)


@given(groups=_GROUPS)
def test_signed_integers_are_read_as_they_were_written(groups: list[npt.NDArray[np.int64]]) -> None:
    stream, starts = write_integers(groups, signed=True)
    parts = [stream[start:end] for start, end in pairwise([*starts, len(stream)])]
    assert [read_integers(part, signed=True) for part in parts] == [group.tolist() for group in groups]


@given(groups=_GROUPS)
def test_unsigned_integers_are_read_as_they_were_written(groups: list[npt.NDArray[np.int64]]) -> None:
    stream, _ = write_integers([np.abs(group >> 1) for group in groups], signed=False)
    assert read_integers(stream, signed=False) == [abs(number) for group in groups for number in (group >> 1).tolist()]
