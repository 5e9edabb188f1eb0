"""When a policy compacts, minor or major, and what it gives as its reason."""

from __future__ import annotations

from typing import Any

import pytest

from hive_ingest.acid import AcidDirectory
from hive_ingest.compaction import CompactionPolicy, FolderSize, FolderState
from hive_ingest.errors import ConfigurationError
from hive_ingest.model import CompactionType

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
MIB = 1 << 20


def state(*, base: int | None = None, deltas: tuple[int, ...] = (), obsolete: tuple[str, ...] = ()) -> FolderState:
    """A folder whose base and deltas have these sizes, in MiB."""
    return FolderState(
        directory=AcidDirectory(),
        base=None if base is None else FolderSize("base_0000001", (base * MIB,)),
        deltas=tuple(FolderSize(f"delta_{i:07d}_{i:07d}_0000", (size * MIB,)) for i, size in enumerate(deltas, 2)),
        delete_deltas=(),
        obsolete=obsolete,
        aborted=(),
        originals=FolderSize("", ()),
    )


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        (state(), None),
        (state(base=1000, deltas=(10,) * 5), None),
        (state(base=1000, deltas=(10,) * 6), MINOR),
        (state(deltas=(10,) * 6), MAJOR),
        (state(deltas=(10,) * 5), None),
        (state(base=1000, deltas=(200, 51)), MAJOR),
        (state(base=1000, deltas=(200, 50)), None),
        (state(base=10, deltas=(1000,)), None),
        (state(base=1000, obsolete=("base_0000000",)), MAJOR),
        (state(base=1000, obsolete=("delta_0000000_0000000_0000",)), None),
    ],
)
def test_the_default_policy(folder: FolderState, expected: CompactionType | None) -> None:
    decision = CompactionPolicy().decide(folder)
    assert decision.type is expected
    assert decision.reason


def test_metadata_of_small_files_is_no_reason_to_write_a_base_again() -> None:
    """A hundred commits of a row or two beside a base of thousands."""
    found = state(base=1)
    deltas = tuple(FolderSize(f"delta_{i:07d}_{i:07d}_0000", (3100,)) for i in range(2, 102))
    folder = FolderState(found.directory, found.base, deltas, (), (), (), found.originals)
    assert folder.delta_bytes > found.base_bytes * 0.25
    assert CompactionPolicy().decide(folder).type is MINOR
    assert CompactionPolicy(file_overhead_bytes=0).decide(folder).type is MAJOR


def test_hives_thresholds_are_higher() -> None:
    policy = CompactionPolicy.hive()
    assert policy.decide(state(base=1000, deltas=(1,) * 10)).type is None
    assert policy.decide(state(base=1000, deltas=(1,) * 11)).type is MINOR
    assert policy.decide(state(base=1000, deltas=(101,))).type is MAJOR


def test_many_small_files_are_merged() -> None:
    folder = FolderSize("delta_0000002_0000002_0000", (MIB,) * 40)
    found = state(base=1000, deltas=(1,))
    merged = CompactionPolicy().decide(
        FolderState(found.directory, found.base, (folder, folder), (), (), (), found.originals)
    )
    assert (merged.type, merged.reason) == (MINOR, "80 small files in deltas (> 64)")


def test_deltas_wait_no_longer_than_the_policy_says() -> None:
    policy = CompactionPolicy(max_age_seconds=600)
    folder = state(base=1000, deltas=(1, 1))
    assert policy.decide(folder, seconds_since_last=599).type is None
    assert policy.decide(folder, seconds_since_last=601).type is MINOR
    assert policy.decide(state(base=1000, deltas=(1,)), seconds_since_last=601).type is None


def test_a_rest_is_as_long_as_the_share_of_the_time_requires() -> None:
    policy = CompactionPolicy(max_time_share=0.2)
    assert policy.rest_seconds(0.5) == 2
    assert policy.rest_seconds(60) == 5, "deltas must not become too many"
    assert CompactionPolicy.hive().rest_seconds(60) == 0


@pytest.mark.parametrize("name", ["NO_AUTO_COMPACTION", "no_auto_compaction"])
def test_a_table_can_be_left_alone(name: str) -> None:
    decision = CompactionPolicy().decide(state(deltas=(10,) * 60), {name: "True"})
    assert (decision.type, decision.reason) == (None, "the table has NO_AUTO_COMPACTION=true")


def test_properties_of_the_table_override_the_thresholds() -> None:
    number = "compactorthreshold.hive.compactor.delta.num.threshold"
    share = "compactorthreshold.hive.compactor.delta.pct.threshold"
    policy = CompactionPolicy()
    assert policy.decide(state(base=1000, deltas=(1,) * 3), {number: "2"}).type is MINOR
    assert policy.decide(state(base=1000, deltas=(1,) * 6), {number: "20"}).type is None
    assert policy.decide(state(base=1000, deltas=(1, 1)), {share: "0.001"}).type is MAJOR
    for text in ("few", "nan", "inf", "-1"):
        with pytest.raises(ConfigurationError, match=rf"num\.threshold='{text}' is not a number"):
            policy.decide(state(), {number: text})


@pytest.mark.parametrize(
    "options",
    [
        {"max_deltas": -1},
        {"max_deltas": None},
        {"max_delta_share": float("nan")},
        {"failed_threshold": 0},
        {"failed_threshold": "2"},
        {"max_small_files": "x"},
        {"max_age_seconds": -1},
        {"aborted_age_seconds": "12 h"},
        {"max_time_share": 0},
        {"max_time_share": 1.5},
    ],
)
def test_impossible_thresholds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        CompactionPolicy(**options)
