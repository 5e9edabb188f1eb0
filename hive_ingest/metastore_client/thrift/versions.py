"""The features of servers of different versions, determined when a connection is opened.

Observed with Hive 3.1.3 and 4.0.1; see `docs/metastores.md` for the consequences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hive_ingest.errors import UnsupportedFeature
from hive_ingest.model import LockType

#: The capabilities that we declare. Version 4 shows and creates transactional tables only for clients that have them.
PROCESSOR_CAPABILITIES = (
    *("HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE"),
    *("HIVECACHEINVALIDATE", "EXTREAD", "EXTWRITE"),
)


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """One version of the metastore service."""

    #: As the server reports it: "4.0.1"; servers of version 3 all say "3.0".
    text: str
    major: int

    @property
    def has_request_structures(self) -> bool:
        """`create_table_req` and `alter_table_req`, which carry our capabilities."""
        return self.major >= 4

    @property
    def has_table_ids(self) -> bool:
        """`Table.id` (HIVE-20538); `Table.creation_id` is its substitute."""
        return self.major >= 4

    @property
    def keeps_commit_key_value(self) -> bool:
        """`keyValue` of `commit_txn` (HIVE-20538), which version 3 silently ignores."""
        return self.major >= 4

    @property
    def has_managed_locations(self) -> bool:
        """Databases have one folder for managed tables and another for external ones (HIVE-22995)."""
        return self.major >= 4

    @property
    def always_keeps_history_level(self) -> bool:
        """MIN_HISTORY_LEVEL (HIVE-18747); in version 4 a setting, which it turns off if the table does not exist."""
        return self.major < 4

    @property
    def always_checks_write_conflicts(self) -> bool:
        """`commit_txn` has no `exclWriteEnabled` (HIVE-19211 came with version 4)."""
        return self.major < 4

    @property
    def has_max_allocated_write_id(self) -> bool:
        """`get_max_allocated_table_write_id` (HIVE-23103)."""
        return self.major >= 4

    @property
    def has_min_history(self) -> bool:
        """`add_write_ids_to_min_history`; whether the server uses it is a separate setting (HIVE-24291)."""
        return self.major >= 4

    @property
    def has_write_notifications(self) -> bool:
        """`add_write_notification_log`; whether the server uses it is a separate setting (HIVE-19267)."""
        return self.major >= 4

    @property
    def runs_compactions(self) -> bool:
        """A worker outside the server can take compactions; version 3 cannot even read the `_v` of its folders."""
        return self.major >= 4

    @property
    def closes_connection_on_errors(self) -> bool:
        """An unexpected exception in the server ends the connection instead of being reported."""
        return self.major < 4

    def lock_type(self, wanted: LockType) -> LockType:
        """Version 3 has no EXCL_WRITE: its SHARED_WRITE excludes other writers (HIVE-19369 split the two)."""
        if wanted is LockType.EXCL_WRITE and self.major < 4:
            return LockType.SHARED_WRITE
        return wanted


def parse_version(answer: str) -> ServerVersion:
    """Parse the response of `getVersion`. Raises UnsupportedFeature for a version before 3."""
    found = re.match(r"\d+", answer)
    if found is None or int(found[0]) < 3:
        raise UnsupportedFeature(
            f"this metastore reports version {answer!r}: transactional streaming needs Hive 3.1 or later"
        )
    return ServerVersion(answer, int(found[0]))
