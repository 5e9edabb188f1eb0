"""A run of `ingest_files` that can be killed: `python child.py <uri> <warehouse> <file>…`; see HIVE_INGEST_FAULT."""

from __future__ import annotations

import sys

from hive_ingest.metastore_client import connect_metastore
from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.streaming import ingest_files
from hive_ingest.testing import arm_from_environment


def main(uri: str, warehouse: str, *paths: str) -> None:
    with connect_metastore(uri, warehouse=warehouse, create=True) as client:
        ingest_files(client, "web.events", paths, sink="s", record_writer=StrictJsonWriter(), rows_per_transaction=10)


if __name__ == "__main__":
    arm_from_environment()
    main(*sys.argv[1:])
