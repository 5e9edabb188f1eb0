"""What a writer tells the process that watches it: lines of JSON on its standard output."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """At the start, when `transactions` is 0, and after each commit.

    `rows` are those of the table, of earlier runs too; `transactions` those that this run has committed.
    """

    rows: int
    transactions: int

    @classmethod
    def from_line(cls, line: str) -> Told:
        return cls(**json.loads(line))

    def tell(self) -> None:
        print(json.dumps(asdict(self)), flush=True)
