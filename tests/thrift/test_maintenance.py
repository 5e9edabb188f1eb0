"""Compaction out of the writing process on a real metastore: requests on all versions, our worker on version 4."""

from __future__ import annotations

from pathlib import Path

import hive_ingest as hi
from hive_ingest.model import CompactionState
from tests.support.compactions import Compacted
from tests.support.metastores import connect_in
from tests.support.rows import rows


def write_six_times(table: Compacted) -> None:
    with hi.Maintenance(table.client) as maintenance:
        for i in range(6):
            hi.append(
                table.client,
                table.name,
                rows([i], text=["x"]),
                settings={"fsync": False},
                on_commit=maintenance.on_commit,
            )
        assert maintenance.finish(60)


def test_requests_are_served_by_our_worker_on_version_4(hive401_uri: str, tmp_path: Path) -> None:
    with connect_in(tmp_path, hive401_uri) as client:
        table = Compacted(client)
        write_six_times(table)
        assert [info.state for info in table.history()] == [CompactionState.READY_FOR_CLEANING]
        assert "base_6_v" in table.short_folders()
        assert table.ids() == [0, 1, 2, 3, 4, 5]


def test_requests_are_left_to_hives_worker_on_version_3(hive313_uri: str, tmp_path: Path) -> None:
    with connect_in(tmp_path, hive313_uri) as client:
        table = Compacted(client)
        write_six_times(table)
        assert [info.state for info in table.history()] == [CompactionState.INITIATED]
