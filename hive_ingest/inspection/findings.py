"""What a check of a table found."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hive_ingest.model import TableName


class Severity(enum.StrEnum):
    """How bad a finding is.

    ERROR: rows are lost, damaged, hidden or read twice, or a reader fails. WARNING: rows are right, but some reader or
    tool may stumble. NOTE: work for a cleaner or a compaction.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken, where and how.

    Attributes:
        rule: The name of the rule, as in docs/operations.md.
        place: A file or folder.
    """

    severity: Severity
    rule: str
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class TableCheck:
    """The result of a check: what was found, and how much was looked at.

    Attributes:
        rows: Rows in the files that a reader opens; deleted ones included.
    """

    table: TableName
    findings: tuple[Finding, ...]
    partitions: int
    files: int
    bytes: int
    rows: int

    @property
    def is_healthy(self) -> bool:
        """Whether there is no error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)
