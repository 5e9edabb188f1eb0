"""Reads a file with one byte changed, for each line `<position> <value>` on stdin; run as a separate process.

A damaged file may end this process, so each outcome is printed before the next byte is changed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa

from hive_ingest.errors import CorruptFile, UnsupportedFeature
from hive_ingest.orc.acid_schema import ACID_COLUMNS, ROW
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.storage import LocalStore


def read(path: Path) -> pa.Table:
    file = FileToRead(str(path), None, False, path.stat().st_size)
    with AcidFileReader(LocalStore(), file) as reader:
        columns = [child.name for child in reader.row.children]
        acid = [name for name in ACID_COLUMNS if name != ROW]
        stripes = [reader.read(i, acid, columns).batch for i in range(reader.num_stripes)]
    return pa.Table.from_batches(stripes)


def outcome(path: Path, expected: pa.Table) -> str:
    try:
        found = read(path)
    except (CorruptFile, UnsupportedFeature) as error:
        return type(error).__name__
    return "same" if found.equals(expected) else "wrong"


def peak_memory_mb() -> int:
    """Memory of this process alone: `ru_maxrss` starts with that of the process that forked it."""
    [kilobytes] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    return int(kilobytes) // 1024


def main(path: Path) -> None:
    expected, content = read(path), bytearray(path.read_bytes())
    damaged = path.with_suffix(".damaged")
    for line in sys.stdin:
        position, value = map(int, line.split())
        original, content[position] = content[position], value
        damaged.write_bytes(content)
        content[position] = original
        print(outcome(damaged, expected), peak_memory_mb(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
