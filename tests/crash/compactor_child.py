"""A worker or a cleaner that can be killed: one round.

Run as `python compactor_child.py <metastore uri> <its options as JSON> <warehouse> worker|cleaner`; the fault to die of
is in the environment.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from hive_ingest.compaction import Cleaner, CleanerSettings, JobSettings, MergeSettings, Worker
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.testing import arm_from_environment


def main(uri: str, options: dict[str, Any], warehouse: str, role: str) -> None:
    with connect_metastore(uri, warehouse=warehouse, **options) as client:
        arm_from_environment()
        if role == "worker":
            Worker(client, JobSettings(merge=MergeSettings(fsync=False))).run_once()
        else:
            Cleaner(client, CleanerSettings(aborted_grace_seconds=0)).run_once()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4])
