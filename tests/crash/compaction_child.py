"""One round of a compactor that can be killed: `python compaction_child.py <metastore uri> <warehouse>`.

The fault to die of is in the environment.
"""

from __future__ import annotations

import sys

from hive_ingest.compaction import CleanerSettings, Compactor, CompactorSettings
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.testing import arm_from_environment


def main(uri: str, warehouse: str) -> None:
    arm_from_environment()
    settings = CompactorSettings(cleaner=CleanerSettings(aborted_grace_seconds=0))
    with connect_metastore(uri, warehouse=warehouse) as client:
        Compactor(client, settings=settings).run_once()


if __name__ == "__main__":
    main(*sys.argv[1:])
