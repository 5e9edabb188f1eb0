"""The command line, `hive-ingest`: create a table, stream files into it, read it, look behind it."""


def main() -> None:
    """Run the command of `sys.argv`. Exit codes: 0 done, 1 refused or failed, 2 a wrong call, 130 interrupted."""
    from hive_ingest.cli.app import run

    run()
