"""Memory is bounded by the buffer, whatever the number of partitions and flushes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.connection.many_partitions import ROWS_A_PARTITION_AND_FLUSH

pytestmark = pytest.mark.local_warehouse(because="thousands of files, for which a local disk takes seconds")

SCRIPT = Path(__file__).with_name("many_partitions.py")
BUFFER_MIB = 64
#: What the interpreter, Arrow and the open encoders may take beside the buffer.
ALLOWANCE_MIB = 300


def check_many_partitions(folder: Path, partitions: int, flushes: int) -> None:
    command = [sys.executable, str(SCRIPT), str(folder), str(partitions), str(flushes), str(BUFFER_MIB)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == partitions * flushes * ROWS_A_PARTITION_AND_FLUSH
    assert found["files"] == found["partitions"] == partitions, "one file for each partition"
    assert found["spills"] >= flushes
    assert found["rss_mib"] <= BUFFER_MIB + ALLOWANCE_MIB, found
    files = list((folder / "warehouse").rglob("bucket_*"))
    assert len(files) == partitions
    assert not list((folder / "warehouse").rglob("*.spill.*")), "spills are left"


def test_a_thousand_partitions_flushed_sixteen_times_fit_into_the_buffer(tmp_path: Path) -> None:
    check_many_partitions(tmp_path, 1_000, 16)
