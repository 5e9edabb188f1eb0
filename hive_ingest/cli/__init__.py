"""The command line, `hive-ingest`: create tables, ingest files, read, and inspect what the metastore holds."""


def main() -> None:
    """Run the command of `sys.argv`. Exit codes: 0 success, 1 error, 2 usage error, 130 interrupted."""
    from hive_ingest.cli.app import run

    run()
