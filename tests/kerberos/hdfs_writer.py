"""A process that writes and reads on HDFS: `python hdfs_writer.py URI`. It writes a file at each line of its input.

Each line is the name of a new file. Its answer is "done", or the error.
"""

from __future__ import annotations

import sys

from hive_ingest.errors import StreamingError
from hive_ingest.storage import Location


def main(uri: str) -> None:
    """Answer each line of standard input."""
    root = Location.of(uri)
    for line in sys.stdin:
        try:
            file = root / line.strip()
            with file.create(sync=True) as out:
                out.write(b"rows")
            with file.open_input() as source:
                assert source.read() == b"rows"
            print("done", flush=True)
        except StreamingError as error:
            print(f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
