"""Our worker beside Hive's own on a real metastore, and the roles that are left to the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_ingest.compaction import Cleaner, Compactor, Initiator, compact, purge
from hive_ingest.errors import UnsupportedFeature
from hive_ingest.model import CompactionState
from tests.support.compactions import MAJOR, MINOR, Compacted
from tests.support.metastores import connect_in


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_our_worker_serves_the_queue_of_a_real_metastore(hive401_uri: str, tmp_path: Path, kind: object) -> None:
    with connect_in(tmp_path, hive401_uri) as client:
        table = Compacted(client)
        table.inserts(1, 4)
        table.delete(table.row_id(2))
        before = table.rows()
        (outcome,) = compact(client, table.name, kind="minor" if kind is MINOR else "major")
        assert outcome.accepted
        (work,) = Compactor(client).run_once().worked
        assert (work.state, work.message) == (CompactionState.READY_FOR_CLEANING, "")
        assert [info.state for info in table.history()] == [CompactionState.READY_FOR_CLEANING]
        assert table.rows() == before
        new = {"delta_1_5_v", "delete_delta_1_5_v"} if kind is MINOR else {"base_5_v"}
        assert new <= {*table.short_folders()}


def test_roles_that_a_server_has_itself_are_refused(hive401_uri: str, tmp_path: Path) -> None:
    with connect_in(tmp_path, hive401_uri) as client:
        table = Compacted(client)
        with pytest.raises(UnsupportedFeature, match="cleans after compactions itself"):
            Cleaner(client)
        with pytest.raises(UnsupportedFeature, match="cleans after compactions itself"):
            purge(client, table.name)
        with pytest.raises(UnsupportedFeature):
            Initiator(client).run_once()


def test_a_metastore_of_version_3_takes_requests_only(hive313_uri: str, tmp_path: Path) -> None:
    with connect_in(tmp_path, hive313_uri) as client:
        table = Compacted(client)
        table.inserts(1, 2)
        (outcome,) = compact(client, table.name, kind="major")
        assert outcome.state is CompactionState.INITIATED
        with pytest.raises(UnsupportedFeature, match="version 3 has no calls for a worker"):
            Compactor(client)
        with pytest.raises(UnsupportedFeature, match="cleans after compactions itself"):
            Cleaner(client)
        assert [info.state for info in table.history()] == [CompactionState.INITIATED]
