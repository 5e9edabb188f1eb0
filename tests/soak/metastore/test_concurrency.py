"""Eight processes, 20,000 calls for each seed on each database, workers killed with -9 all the while."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_ingest.metastore_client import connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from tests.acceptance.metastore.history import check
from tests.acceptance.metastore.workload import run_workload

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="it checks a transaction manager of our own")

OPERATIONS = 20_000


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [20_240_101, 20_240_102])
def test_any_long_history_of_killed_workers_keeps_every_promise(metastore_uri: str, tmp_path: Path, seed: int) -> None:
    warehouse = str(tmp_path / "warehouse")
    (tmp_path / "calls").mkdir()
    with connect_metastore(metastore_uri, warehouse=warehouse, create=True) as ms:
        assert isinstance(ms, EmbeddedMetastoreClient)
        killed = run_workload(metastore_uri, warehouse, tmp_path / "calls", seed=seed, operations=OPERATIONS)
        history = check(tmp_path / "calls", ms)
    assert killed > 0
    assert sum(call.answered for call in history.calls) >= OPERATIONS
