"""What a writer reports to the process that watches it: lines of JSON on its standard output."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """At the start, when `transactions` is 0, and after each commit.

    Attributes:
        rows: Rows of the table, with those of earlier runs.
        transactions: Those that this run has committed.
        deltas: Delta folders of the last one.
        partitions: Of the topic, those that this instance reads.
    """

    rows: int
    transactions: int
    deltas: int = 0
    partitions: int = 0

    @classmethod
    def from_line(cls, line: str) -> Report:
        return cls(**json.loads(line))

    def send(self) -> None:
        print(json.dumps(asdict(self)), flush=True)
