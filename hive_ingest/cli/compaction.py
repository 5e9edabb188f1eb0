"""`hive-ingest compact`, `hive-ingest compactor` and `hive-ingest purge`."""

from __future__ import annotations

import enum
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hive_ingest.cli.logs import is_configured, say
from hive_ingest.cli.metrics_server import MetricsHostOption, MetricsPortOption, served_metrics
from hive_ingest.cli.options import (
    DryRunOption,
    MetastoreOption,
    TableArgument,
    WarehouseOption,
    connected,
    pairs,
)
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hive_ingest.compaction import CompactionOutcome, Compactor, Initiated, PurgeOutcome
    from hive_ingest.model import CompactionInfo, CompactionState

PartitionOption = Annotated[
    str | None,
    typer.Option(
        "--partition",
        metavar="K=V/…",
        show_default=False,
        help="One partition; with leading keys only, all below. Default: every partition.",
    ),
]


class Kind(enum.StrEnum):
    """Of a compaction."""

    MINOR = "minor"
    MAJOR = "major"


class Role(enum.StrEnum):
    """Of a compactor."""

    INITIATOR = "initiator"
    WORKER = "worker"
    CLEANER = "cleaner"


def compact(
    table: TableArgument,
    kind: Annotated[
        Kind, typer.Argument(metavar="KIND", help="minor: merge deltas. major: a new base, without deleted rows.")
    ],
    metastore: MetastoreOption,
    partition: PartitionOption = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NAME=VALUE", help="Stored with the request, such as tblprops.orc.compress=ZLIB."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it has ended; on an embedded metastore this process does it.")
    ] = False,
    warehouse: WarehouseOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Request a compaction of a table or of its partitions."""
    from hive_ingest import compaction

    with connected(metastore, warehouse) as client:
        wanted = pairs(properties or [], "=", "--property")
        if dry_run:
            found = compaction.requested_partitions(client, table, partition=partition, properties=wanted)
            for name in found:
                typer.echo(f"would request a {kind.value} compaction of {table}{f' {name}' if name else ''}")
            _note_no_partitions(table, found)
            return
        with _warned_once() as printed:
            outcomes = compaction.compact(
                client,
                table,
                partition=partition,
                kind=kind.value,
                properties=wanted,
                wait=wait,
            )
            printed.update(outcome.id for outcome in outcomes)
    for outcome in outcomes:
        typer.echo(_line(outcome))
    _note_no_partitions(table, outcomes)
    if not wait and any(outcome.state.text == "initiated" for outcome in outcomes):
        typer.echo("a worker carries this out: hive-ingest compactor, or this command with --wait", err=True)
    if any(outcome.is_problem for outcome in outcomes if wait):
        raise typer.Exit(1)


@contextmanager
def _warned_once() -> Iterator[set[object]]:
    """Hold back the warnings about single compactions, and write those that the command does not print itself.

    Yields:
        What is printed, by the ids of compactions or the names of candidates; the caller adds them.
    """
    printed: set[object] = set()
    if is_configured():  # a log is complete by itself
        yield printed
        return
    logger, handler = logging.getLogger("hive_ingest.compaction"), _HeldWarnings()
    logger.addHandler(handler)
    try:
        yield printed
    finally:
        logger.removeHandler(handler)
        for record in handler.held:
            if _subject(record) not in printed:
                handler.write(record)


class _HeldWarnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.held: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Write what is not about one compaction."""
        if _subject(record) is not None:
            self.held.append(record)
        else:
            self.write(record)

    def write(self, record: logging.LogRecord) -> None:
        """As Python does without any handler."""
        typer.echo(self.format(record), err=True)


def _subject(record: logging.LogRecord) -> object:
    return record.__dict__.get("compaction", record.__dict__.get("candidate"))


def _note_no_partitions(table: str, outcomes: Sequence[object]) -> None:
    if not outcomes:
        typer.echo(f"{table} has no partitions yet: there is nothing to do", err=True)


def _line(outcome: CompactionOutcome) -> str:
    place = _place(outcome)
    known = "" if outcome.accepted else f" ({_why_not_accepted(outcome)})"
    message = f": {outcome.message}" if outcome.message else ""
    return f"{place}: {outcome.type.name.lower()} compaction {outcome.id} {_predicate(outcome.state)}{known}{message}"


def _place(found: CompactionOutcome | CompactionInfo | Initiated | PurgeOutcome) -> str:
    """The name of a table, and of its partition if there is one."""
    return f"{found.table} {found.partition_name or ''}".rstrip()


def _why_not_accepted(outcome: CompactionOutcome) -> str:
    is_done = outcome.state.text == "ready for cleaning"
    return "nothing was written since" if is_done else "it was in the queue already"


def _predicate(state: CompactionState) -> str:
    """Such as `is initiated` and `failed`."""
    return {"failed": "failed", "refused": "was refused", "succeeded": "succeeded"}.get(state.text, f"is {state.text}")


def purge(
    table: TableArgument,
    metastore: MetastoreOption,
    partition: PartitionOption = None,
    wait_seconds: Annotated[
        float, typer.Option("--wait-seconds", metavar="N", min=0, help="How long to wait for readers and writers.")
    ] = 300.0,
    warehouse: WarehouseOption = None,
) -> None:
    """Remove deleted, overwritten and aborted rows from the disk; says what is left and why."""
    from hive_ingest import compaction

    with connected(metastore, warehouse) as client:
        outcomes = compaction.purge(client, table, partition=partition, timeout_seconds=wait_seconds)
    for outcome in outcomes:
        place = _place(outcome)
        reasons = "".join(f"\n  because {reason}" for reason in outcome.reasons)
        typer.echo(f"{place}: {'still there: ' + ', '.join(outcome.left) if outcome.left else 'purged'}{reasons}")
    _note_no_partitions(table, outcomes)
    if any(outcome.left for outcome in outcomes):
        raise typer.Exit(1)


def compactor(
    metastore: MetastoreOption,
    once: Annotated[bool, typer.Option("--once", help="One round of every role, then exit.")] = False,
    roles: Annotated[
        list[Role] | None,
        typer.Option("--roles", help="Repeat for several. Default: all that the metastore leaves to others."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Compactions at the same time.")] = 1,
    retention_seconds: Annotated[
        float,
        typer.Option("--retention-seconds", metavar="N", min=0, help="How long to keep replaced files."),
    ] = 0.0,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    warehouse: WarehouseOption = None,
) -> None:
    """Compact and clean tables as they need it, until Ctrl-C or SIGTERM. Several may run."""
    from hive_ingest import __version__
    from hive_ingest.compaction import CleanerSettings, Compactor, CompactorSettings

    settings = CompactorSettings(cleaner=CleanerSettings(retention_seconds=retention_seconds))
    names = [role.value for role in roles] if roles else None
    with connected(metastore, warehouse) as client:
        found = Compactor(client, roles=names, workers=workers, settings=settings, version=__version__)
        if once:
            _run_once(found)
            return
        with served_metrics(metrics_port, metrics_host, metastore=client):
            _run(found)


def _run_once(compactor: Compactor) -> None:
    with _warned_once() as printed:
        result = compactor.run_once()
        printed.update(work.info.id for work in result.worked)
        printed.update(cleaned.info.id for cleaned in result.cleaned)
        printed.update(_place(each) for each in result.initiated)
    for each in result.initiated:
        place = _place(each)
        if each.response is not None and each.response.accepted:
            typer.echo(f"requested {place}: {each.decision.reason}")
        elif each.is_suspended:
            typer.echo(f"{place} is not compacted: {each.decision.reason}")
        elif each.error is not None:
            typer.echo(f"whether {place} needs a compaction {each.decision.reason}")
    for work in result.worked:
        place = _place(work.info)
        typer.echo(
            f"compaction {work.info.id} of {place} {_predicate(work.state)}{': ' * bool(work.message)}{work.message}"
        )
    for cleaned in result.cleaned:
        place = _place(cleaned.info)
        if cleaned.state.text == "succeeded":
            number = f"{counted(len(cleaned.removed), 'folder')} removed"
            typer.echo(f"cleaned {place}: {number}{': ' * bool(cleaned.message)}{cleaned.message}")
        else:
            typer.echo(f"{place} was not cleaned: {cleaned.message}")
    if result.has_problems:
        raise typer.Exit(1)


def _run(compactor: Compactor) -> None:
    """A signal ends it after the round under way; a compaction under way goes back into the queue."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGINT) if is_main else ()
    before = {number: signal.signal(number, lambda *_: compactor.stop()) for number in numbers}
    say("compacting until Ctrl-C")
    try:
        compactor.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
