"""The writer: streams the prepared files into the table. It may be killed at any moment, and is started again.

Run as `python -m examples.quickstart.load <demo folder>`; a fault to stop at may be in the environment
(`hive_ingest.testing`). Prints one line of JSON at the start and after each commit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from examples.quickstart.flights import DELIMITER, NULL
from examples.quickstart.places import NAME, connect, input_folder
from hive_ingest.record_writer import RecordWriter, StrictDelimitedInputWriter, StrictJsonWriter
from hive_ingest.streaming import IngestProgress, ingest_files
from hive_ingest.testing import arm_from_environment

ROWS_PER_TRANSACTION = 5_000
SINK = "flights"


def load(demo: Path) -> None:
    """Both halves of the year go through one sink, so each file is loaded once."""
    steps: dict[str, RecordWriter] = {
        "*.json": StrictJsonWriter(unknown_fields="fail"),
        "*.txt": StrictDelimitedInputWriter(field_delimiter=DELIMITER, null_format=NULL),
    }
    teller = _Teller()
    with connect(demo) as client:
        for pattern, record_writer in steps.items():
            ingest_files(
                client,
                NAME,
                sorted(input_folder(demo).glob(pattern)),
                sink=SINK,
                record_writer=record_writer,
                rows_per_transaction=ROWS_PER_TRANSACTION,
                on_progress=teller.tell,
            )
            teller.next_step()


class _Teller:
    """Adds up the steps, and tells the parent."""

    def __init__(self) -> None:
        self._before = [0, 0, 0]
        self._now = self._before

    def tell(self, progress: IngestProgress) -> None:
        found = (progress.bytes_committed, progress.records_committed, progress.transactions_committed)
        self._now = [before + more for before, more in zip(self._before, found, strict=True)]
        print(json.dumps(dict(zip(("bytes", "rows", "transactions"), self._now, strict=True))), flush=True)

    def next_step(self) -> None:
        self._before = self._now


if __name__ == "__main__":
    arm_from_environment()
    load(Path(sys.argv[1]))
