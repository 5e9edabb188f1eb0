"""A process that writes files with many columns does not grow by what the ORC library frees."""

from __future__ import annotations

import subprocess
import sys

WRITE = """
import re
from pathlib import Path

import pyarrow as pa

from hive_ingest.orc.writer.insert_encoder import InsertEncoder
from hive_ingest.orc.writer.key_columns import InsertedRows

COLUMNS = 800
schema = pa.schema([(f"c{i}", pa.string() if i % 2 else pa.int64()) for i in range(COLUMNS)])
rows = pa.RecordBatch.from_pylist([{f"c{i}": "text" if i % 2 else i for i in range(COLUMNS)}] * 3, schema)
encoder = InsertEncoder(schema)
for _ in range(12):
    encoder.encode([rows], InsertedRows(1, 536870912, 0, 3), "a file")
print(re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text("ascii"))[0])
"""


def test_many_wide_files_take_the_memory_of_a_few() -> None:
    """Of 12, 2 GB were kept."""
    done = subprocess.run([sys.executable, "-c", WRITE], capture_output=True, text=True, check=True)
    assert int(done.stdout) // 1024 < 1300
