"""The command line, `hive-ingest`: create tables, ingest files, read, and inspect what the metastore holds."""


def main() -> None:
    """Run the command of `sys.argv`. Exit codes: 0 done, 1 refused or failed, 2 a wrong call, 130 interrupted."""
    from hive_ingest.cli.app import run

    run()
