"""The command line, `hive-ingest`: create tables, ingest files, read, and inspect what the metastore holds."""

import sys


def main() -> None:
    """Run the command of `sys.argv`. Exit codes: 0 success, 1 error, 2 usage error, 130 interrupted."""
    try:
        from hive_ingest.cli.app import run

        run()
    except KeyboardInterrupt:  # while modules are imported; `run` handles all others
        print("interrupted", file=sys.stderr)
        sys.exit(130)
