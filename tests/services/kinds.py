"""The kinds of metastores that one suite runs on, and where a test finds an empty one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: By the name of the kind, the version of Hive.
REAL = {"hive313": "3.1.3", "hive401": "4.0.1"}


@dataclass(frozen=True, slots=True)
class Address:
    """What `connect_metastore` takes; of a real metastore the server has the options."""

    uri: str
    options: Mapping[str, Any] = field(default_factory=dict)


def embedded_timeout(seconds: float) -> dict[str, Any]:
    """Options of an embedded metastore whose transactions live so long without a heartbeat."""
    return {"txn_timeout_seconds": seconds, "housekeeping_interval_seconds": 1.0}


def server_timeout(version: str, seconds: float) -> dict[str, str]:
    """Settings of a real one for the same."""
    if version == "3.1.3":
        return {
            "metastore.txn.timeout": f"{seconds:.0f}s",
            "metastore.timedout.txn.reaper.interval": "1s",
            # Hive 3 starts its other tasks only beside an initiator of compactions.
            "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService",
        }
    return {
        "metastore.txn.timeout": f"{seconds:.0f}s",
        "metastore.acid.housekeeper.start": "1s",
        "metastore.acid.housekeeper.interval": "1s",
    }
