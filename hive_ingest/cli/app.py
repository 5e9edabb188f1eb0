"""The command tree, and how a command ends."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, NoReturn, TextIO

import typer

from hive_ingest.cli import (
    abort,
    check,
    compaction,
    config,
    create_table,
    ingest,
    kafka,
    read,
    repair,
    show,
    sinks,
    tables,
)
from hive_ingest.cli.logs import LogFormat, LogLevel, be_quiet, configure, report, say
from hive_ingest.cli.option_names import Command

#: Exit code of a command whose output nobody reads, that of a shell for SIGPIPE.
_NO_READER = 128 + signal.SIGPIPE
_ABOUT = "Stream records into Apache Hive's transactional tables, exactly once."


def run() -> None:
    """Run the command. A traceback is shown only with `--debug` or HIVE_INGEST_DEBUG=1."""
    _replace_closed_streams()
    asked = [os.environ.get("HIVE_INGEST_DEBUG", "") not in ("", "0")]
    try:
        with _exit_on_signals(), _exit_without_reader(), _say_if_interrupted():
            make_app(lambda: asked.append(True))()
    except Exception as error:  # noqa: BLE001 (the outermost handler: every error is reported, and the exit code is 1)
        sys.exit(report(error, with_traceback=any(asked)))


@contextmanager
def _say_if_interrupted() -> Iterator[None]:
    """Typer exits silently at Ctrl-C. A command that says more itself raises SystemExit."""
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, typer.Exit) and isinstance(error.__context__.__cause__, KeyboardInterrupt):
            say("interrupted: what was committed is kept")
        raise


@contextmanager
def _exit_without_reader() -> Iterator[None]:
    """End as other tools do when whoever reads the output has closed it, as `head` does: silently.

    What is still buffered is written here: Python would write it after everything else, and report that it failed.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        cause = error.__context__ if isinstance(error, SystemExit) else error  # typer exits at a broken pipe
        without = [stream for stream in (sys.stdout, sys.stderr) if _has_no_reader(stream)]
        if not without or not isinstance(cause, BrokenPipeError):
            raise
        raise SystemExit(_NO_READER) from error


def _has_no_reader(stream: TextIO) -> bool:
    """Whether the stream is a pipe that is closed at its other end. What is written to it then goes nowhere."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return False
    state = select.poll()
    state.register(descriptor, 0)
    if not any(events & select.POLLERR for _, events in state.poll(0)):
        return False
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), descriptor)
    return True


def _replace_closed_streams() -> None:
    """Where a caller has closed stdout or stderr (`>&-`), Python has None, and what is written goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (until the process ends)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP become SystemExit, so that an open transaction is aborted on the way out.

    Python's default ends the process at once, and the transaction would hold its locks until its timeout. A second
    signal does that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    changed = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores SIGHUP
    for number in changed:
        signal.signal(number, _exit_on_signal)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def _exit_on_signal(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    say(f"ended by {signal.Signals(number).name}: what was committed is kept")
    raise SystemExit(128 + number)


def make_app(on_debug: Callable[[], None]) -> typer.Typer:
    """The whole command tree. `on_debug` is called for `--debug`."""
    app = typer.Typer(help=_ABOUT, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

    @app.callback()
    def root(
        debug: Annotated[
            bool, typer.Option("--debug", help="Show a traceback with errors (or HIVE_INGEST_DEBUG=1).")
        ] = False,
        log_format: Annotated[
            LogFormat,
            typer.Option(
                "--log-format",
                envvar="HIVE_INGEST_LOG_FORMAT",
                help="Of stderr: text, or json for a log collector: one object per line, errors included.",
            ),
        ] = LogFormat.TEXT,
        log_level: Annotated[
            LogLevel | None,
            typer.Option(
                "--log-level",
                envvar="HIVE_INGEST_LOG_LEVEL",
                show_default=False,
                help="Which messages of the library are written. Default: warning; with JSON, info.",
            ),
        ] = None,
        quiet: Annotated[
            bool,
            typer.Option(
                "--quiet", "-q", help="Print only what was asked for, warnings and errors: no progress, no summary."
            ),
        ] = False,
        version: Annotated[
            bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
        ] = False,
    ) -> None:
        if debug:
            on_debug()
        configure(log_format, log_level)
        be_quiet(quiet)

    def add(name: str, function: Callable[..., None], summary: str) -> None:
        app.command(name, cls=Command, short_help=summary)(function)

    # A terminal of 80 columns has room for summaries of 58 characters.
    add("create-table", create_table.create_table, "Create a transactional ORC table.")
    add("describe", tables.describe, "Show columns, layout, properties, size and rows of a table.")
    add("drop-table", tables.drop_table, "Drop a table with its files.")
    add("drop-partition", tables.drop_partition, "Drop partitions with their files.")
    app.add_typer(tables.alter_app, name="alter-table")
    add("ingest", ingest.ingest, "Write files into a table, exactly once.")
    add("kafka", kafka.kafka, "Write Kafka topics into tables, exactly once.")
    add("read", read.read, "Print the rows of a table.")
    app.add_typer(show.app, name="show", short_help="Show tables, transactions, locks, compactions and more.")
    app.add_typer(sinks.app, name="sinks", short_help="Show and set the positions of sinks.")
    add("check", check.check, "Check all files of a table.")
    add("inspect", check.inspect, "Show what the ends of ORC files say.")
    add("compact", compaction.compact, "Request a compaction of a table or partitions.")
    add("compactor", compaction.compactor, "Compact and clean all tables as they need it.")
    add("purge", compaction.purge, "Remove deleted, overwritten and aborted rows from the disk.")
    add("abort", abort.abort, "Abort open transactions and release their locks.")
    add("repair", repair.repair, "Repair tables after a metastore was restored from a copy.")
    app.add_typer(config.app, name="config")
    return app


def _show_version(asked: bool) -> None:
    if asked:
        from hive_ingest import __version__

        typer.echo(f"hive-ingest {__version__}")
        raise typer.Exit
