"""The commands put together, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from hive_ingest.cli import abort, create_table, ingest, read, repair, show, sinks
from hive_ingest.cli.failures import report

_ABOUT = "Stream records into Apache Hive's transactional tables, exactly once."


def run() -> None:
    """Never a traceback, unless it is asked for by `--debug` or HIVE_INGEST_DEBUG=1."""
    asked = [os.environ.get("HIVE_INGEST_DEBUG", "") not in ("", "0")]
    try:
        make_app(lambda: asked.append(True))()
    except Exception as error:  # noqa: BLE001 (the last stop of every error: it is told, and the exit code is 1)
        sys.exit(report(error, with_traceback=any(asked)))


def make_app(on_debug: Callable[[], None]) -> typer.Typer:
    """The whole command tree. `on_debug` is called for `--debug`."""
    app = typer.Typer(
        help=_ABOUT, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )

    @app.callback()
    def root(
        debug: Annotated[
            bool, typer.Option("--debug", help="Show a traceback with errors (or HIVE_INGEST_DEBUG=1).")
        ] = False,
        version: Annotated[
            bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
        ] = False,
    ) -> None:
        if debug:
            on_debug()

    app.command("create-table")(create_table.create_table)
    app.command("ingest")(ingest.ingest)
    app.command("read")(read.read)
    app.add_typer(show.app, name="show")
    app.add_typer(sinks.app, name="sinks")
    app.command("abort")(abort.abort)
    app.command("repair")(repair.repair)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        from hive_ingest import __version__

        typer.echo(f"hive-ingest {__version__}")
        raise typer.Exit
