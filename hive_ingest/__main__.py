"""`python -m hive_ingest` is `hive-ingest`."""

from hive_ingest.cli import main

if __name__ == "__main__":
    main()
