"""The transactions of the table, read from the table itself: when each was committed, and what it wrote."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

import hive_ingest as hi
from examples.quickstart.flights import PARTITION_KEYS
from examples.quickstart.places import NAME, SINK
from hive_ingest.connection import progress_table_name
from hive_ingest.metastore_client import MetastoreClient


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction: when it was committed (seconds since the epoch), its rows and its delta folders."""

    at: float
    rows: int
    deltas: int


@dataclass(frozen=True, slots=True)
class Runs:
    """The two runs of the writer, in seconds since the epoch: one that was killed, and one right after it.

    Attributes:
        recovered: When all sources were written again. None: with the first commit after the kill.
    """

    started: float
    killed: float
    ended: float
    recovered: float | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened when.

    Attributes:
        arrivals: The times at which files arrived, and the rows that had arrived by then.
        commits: The transactions, in their order.
        deltas: When was counted, and how many delta folders a reader opened then.
        runs: The two runs of the writer.
    """

    arrivals: Sequence[tuple[float, int]]
    commits: Sequence[Commit]
    deltas: Sequence[tuple[float, int]]
    runs: Runs

    @property
    def rows(self) -> int:
        return sum(commit.rows for commit in self.commits)

    @property
    def deltas_written(self) -> int:
        return sum(commit.deltas for commit in self.commits)

    @property
    def seconds(self) -> float:
        return self.runs.ended - self.runs.started


def commits(client: MetastoreClient, landed: pa.Table) -> list[Commit]:
    """The transactions in their order.

    The sink's progress was written in the same transactions, so both tables have the same number of them.

    Args:
        landed: The table, read with its row ids.
    """
    progress = hi.read_table(client, str(progress_table_name(NAME.database, SINK)))
    times = progress.group_by("txn_id").aggregate([("written_at", "max")]).sort_by("txn_id")["written_at_max"]
    keys = landed.select(list(PARTITION_KEYS)).append_column("write_id", pc.struct_field(landed["row__id"], "writeid"))
    deltas = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    found = deltas.group_by("write_id").aggregate([("count_all", "sum"), ("count_all", "count")]).sort_by("write_id")
    return [
        Commit(at.replace(tzinfo=dt.UTC).timestamp(), rows, deltas)
        for at, rows, deltas in zip(
            times.to_pylist(), found["count_all_sum"].to_pylist(), found["count_all_count"].to_pylist(), strict=True
        )
    ]
