"""The writer without Spark: streams the prepared files into the table. It may be killed at any moment.

Run as `python -m examples.quickstart.files_writer <demo folder>`. The environment may name a fault point to stop at
(`hive_ingest.testing`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.quickstart.flights import DELIMITER, NULL
from examples.quickstart.places import COMPACTION, NAME, SINK, connect, input_folder
from examples.quickstart.reports import Report
from hive_ingest.record_writer import RecordWriter, StrictDelimitedInputWriter, StrictJsonWriter
from hive_ingest.streaming import IngestProgress, ingest_files
from hive_ingest.testing import arm_from_environment

ROWS_PER_TRANSACTION = 5_000


def load(demo: Path) -> None:
    """Both halves of the year go through one sink, so each file is loaded once."""
    steps: dict[str, RecordWriter] = {
        "*.json": StrictJsonWriter(unknown_fields="fail"),
        "*.txt": StrictDelimitedInputWriter(field_delimiter=DELIMITER, null_format=NULL),
    }
    sum_ = _Sum()
    with connect(demo) as client:
        for pattern, record_writer in steps.items():
            ingest_files(
                client,
                NAME,
                sorted(input_folder(demo).glob(pattern)),
                sink=SINK,
                record_writer=record_writer,
                rows_per_transaction=ROWS_PER_TRANSACTION,
                on_progress=sum_.add,
                maintenance="inline",
                compaction_policy=COMPACTION,
            )
            sum_.next_step()


class _Sum:
    """Adds up the steps."""

    def __init__(self) -> None:
        self._before = self._now = Report(rows=0, transactions=0)

    def add(self, progress: IngestProgress) -> None:
        self._now = Report(
            rows=self._before.rows + progress.records_committed,
            transactions=self._before.transactions + progress.transactions_committed,
        )
        self._now.send()

    def next_step(self) -> None:
        self._before = self._now


if __name__ == "__main__":
    arm_from_environment(except_threads="hive-ingest-worker")
    load(Path(sys.argv[1]))
