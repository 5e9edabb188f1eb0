"""Whatever deltas, deletes, aborts and buckets there are, a compaction changes no row and no ROW__ID."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.compaction import DistributedMerge, merge
from tests.support.merge_attempts import Attempts
from tests.unit.compaction.folders import Folder

_TEXT = st.one_of(st.none(), st.sampled_from(["", "a", "é" * 3, "x" * 40]))
_NUMBER = st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1))
_ITEMS = st.one_of(
    st.none(), st.lists(st.one_of(st.none(), st.fixed_dictionaries({"x": _NUMBER, "y": _TEXT})), max_size=3)
)
_COLUMNS = {"id": "int", "text": "string", "items": "array<struct<x:int,y:string>>", "s": "struct<x:int,y:string>"}
_STRUCT = st.one_of(st.none(), st.fixed_dictionaries({"x": _NUMBER, "y": _TEXT}))
_ROW = st.tuples(_NUMBER, _TEXT, _ITEMS, _STRUCT)


@dataclass(frozen=True)
class Insert:
    rows: list[tuple[Any, ...]]
    repeats: int
    bucket: int
    statements: int
    columns: int


@dataclass(frozen=True)
class Delete:
    seeds: list[int]


@dataclass(frozen=True)
class Compact:
    kind: str
    stripe_bytes: int
    threads: int
    split_bucket_bytes: int | None = None


_INSERT = st.builds(
    Insert,
    rows=st.lists(_ROW, min_size=1, max_size=4),
    repeats=st.sampled_from([1, 3, 700]),
    bucket=st.integers(0, 2),
    statements=st.integers(1, 2),
    columns=st.integers(2, 4),
)
_DELETE = st.builds(Delete, seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
_COMPACT = st.builds(
    Compact,
    kind=st.sampled_from(["minor", "major"]),
    stripe_bytes=st.sampled_from([100, 20_000, 1 << 20]),
    threads=st.integers(1, 2),
    split_bucket_bytes=st.sampled_from([None, 1, 3000]),
)
_STEPS = st.lists(
    st.tuples(st.one_of(_INSERT, _INSERT, _DELETE, _COMPACT), st.sampled_from([False, False, False, True])),
    min_size=3,
    max_size=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps=_STEPS)
def test_rows_and_row_ids_stay_the_same(steps: list[tuple[Insert | Delete | Compact, bool]]) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path), columns=dict(_COLUMNS))
        columns = 2
        for txn_id, (step, is_aborted) in enumerate([*steps, (Compact("major", 20_000, 2), False)], 1):
            if isinstance(step, Compact):
                _compact(folder, step, txn_id)
                continue
            write_id = folder.high_water_mark + 1
            if is_aborted:
                folder.aborted.add(write_id)
            if isinstance(step, Insert):
                columns = max(columns, step.columns)  # columns are only ever added
                _insert(folder, write_id, step, columns)
            else:
                _delete(folder, write_id, step)


def _insert(folder: Folder, write_id: int, step: Insert, columns: int) -> None:
    folder.columns = dict(list(_COLUMNS.items())[:columns])
    rows = [row[:columns] for row in step.rows] * step.repeats
    for statement in range(step.statements):
        folder.insert(write_id, rows, bucket=step.bucket, statement=statement, stripe_size_bytes=2000)
    folder.columns = dict(_COLUMNS)


def _delete(folder: Folder, write_id: int, step: Delete) -> None:
    folder.high_water_mark = write_id
    rows = [row_id for row_id, _ in folder.rows()]
    chosen = {rows[seed % len(rows)] for seed in step.seeds} if rows else set()
    for bucket in range(3):
        in_bucket = {row for row in chosen if row[1] in (encode_bucket(bucket, 0), encode_bucket(bucket, 1))}
        if in_bucket:
            folder.delete(write_id, in_bucket, bucket=bucket)


def _compact(folder: Folder, step: Compact, txn_id: int) -> None:
    before = folder.rows()
    plan = folder.plan(step.kind, txn_id)
    if plan is None:
        return
    merger = (
        merge
        if step.split_bucket_bytes is None
        else DistributedMerge(Attempts(), split_bucket_bytes=step.split_bucket_bytes)
    )
    folder.publish(folder.merge(plan, merger=merger, stripe_bytes=step.stripe_bytes, threads=step.threads))
    assert folder.staged == []
    assert folder.rows() == before
    again = folder.plan(step.kind, txn_id)
    assert again is None  # what was merged is not read any more
    if step.kind == "major":
        assert not any(name.startswith("delete_delta") for name in plan.folders)
