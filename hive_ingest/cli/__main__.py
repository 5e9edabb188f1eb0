"""`python -m hive_ingest.cli` is `hive-ingest`."""

from hive_ingest.cli import main

main()
