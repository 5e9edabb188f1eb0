"""Whatever step a writer on S3 dies at: after a restart every row is there once, and nothing is left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.storage import Location
from hive_ingest.testing import CrashPoint
from hive_ingest.transactions import remove_leftovers
from tests.services.kinds import embedded_timeout
from tests.services.s3 import S3Service
from tests.support.rows import ids

CHILD = Path(__file__).parents[1] / "crash" / "child.py"
ROWS = 900
TABLE = "crash.numbers"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def ms(uri: str, s3_root: Location) -> Iterator[hi.MetastoreClient]:
    with hi.connect_metastore(uri, warehouse=str(s3_root), create=True, **embedded_timeout(5.0)) as client:
        client.create_database("crash")
        client.create_table(TABLE, columns={"id": "int", "text": "string"}, partition_keys={"part": "string"})
        yield client


def run(uri: str, warehouse: Location, crash: CrashPoint | None = None) -> tuple[int, str]:
    """Exit code and error output."""
    command = [sys.executable, str(CHILD), uri, json.dumps(embedded_timeout(5.0)), str(warehouse), TABLE, str(ROWS)]
    environ = os.environ | (crash.to_environment() if crash else {})
    child = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    return child.returncode, child.stderr


#: Those between which the store changes. `tests/crash` has all of them, on a local disk.
POINTS = {"after_spill": 5, "after_commit_heartbeat": 2, "between_renames": 4, "after_publish": 2}


@pytest.mark.parametrize(("point", "occurrence"), POINTS.items())
def test_killed_at_any_step_and_restarted_every_row_is_there_once(
    ms: hi.MetastoreClient, uri: str, s3: S3Service, s3_root: Location, point: str, occurrence: int
) -> None:
    code, err = run(uri, s3_root, CrashPoint(point, occurrence, signal.SIGKILL))
    assert code == -signal.SIGKILL, f"{point} was never hit: {err}"
    before = ids(ms, TABLE)
    assert before == list(range(len(before))), "a transaction is visible in part"
    code, err = run(uri, s3_root)
    assert code == 0, err
    assert ids(ms, TABLE) == list(range(ROWS))
    for table in (TABLE, "crash.crash__progress"):
        location = Location.of(ms.get_table(table).location)
        remove_leftovers(ms, location)
        assert (location / ".hive_ingest").list(missing_ok=True) == []
    bucket = str(s3_root).removeprefix("s3a://").partition("/")[0]
    assert s3.uploads(bucket) == []
