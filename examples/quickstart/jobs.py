"""How the two jobs of the quickstart differ: their files, their writer, and where it is killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from examples.quickstart import flights, places
from examples.quickstart.arrivals import Arrivals
from examples.quickstart.files_writer import ROWS_PER_TRANSACTION
from examples.quickstart.flights import FlightsFile


class Job(Protocol):
    """One way to stream the flights.

    Attributes:
        writer: A module, run as a process.
        transactions: How many its first run commits before it is killed in the next one.
        what_it_does: The end of the title above the progress bar.
        caption: For the picture.
        after_the_kill: What happens then.
    """

    writer: str
    transactions: int
    what_it_does: str
    caption: str
    after_the_kill: str

    def prepare(self, source: pa.Table, demo: Path) -> tuple[str, Arrivals]:
        """Write the files. Returns a sentence about them, and those that will arrive later."""


@dataclass(frozen=True, slots=True)
class FilesJob:
    """`ingest_files` on files that exist from the start."""

    writer: str = "examples.quickstart.files_writer"
    transactions: int = 9
    what_it_does: str = f"{ROWS_PER_TRANSACTION:,} rows a transaction"
    caption: str = "Files into a Hive ACID table; the writer is killed and started again"
    after_the_kill: str = "Starting it again."

    def prepare(self, source: pa.Table, demo: Path) -> tuple[str, Arrivals]:
        files = flights.write_months(source, places.input_folder(demo))
        return (
            f"{_rows(files):,} flights: {len(flights.JSON_MONTHS)} files of JSON lines, "
            f"{len(flights.DELIMITED_MONTHS)} of delimited text, each record with its row number",
            Arrivals([], places.input_folder(demo), 0),
        )


@dataclass(frozen=True, slots=True)
class SparkJob:
    """Spark Structured Streaming, on files that arrive while it runs."""

    writer: str = "examples.quickstart.spark_writer"
    transactions: int = 7
    what_it_does: str = "a transaction for each micro-batch of Spark"
    caption: str = "Spark Structured Streaming into a Hive ACID table; driver and JVM are killed and started again"
    after_the_kill: str = "Starting it again."
    seconds_between_files: float = 0.5

    def prepare(self, source: pa.Table, demo: Path) -> tuple[str, Arrivals]:
        files = flights.write_weeks(source, places.prepared_folder(demo))
        return (
            f"{_rows(files):,} flights: {len(files)} files of JSON lines, each record with its row number; "
            f"one will arrive every {self.seconds_between_files} s",
            Arrivals(files, places.input_folder(demo), self.seconds_between_files),
        )


def _rows(files: Sequence[FlightsFile]) -> int:
    return sum(file.rows for file in files)
