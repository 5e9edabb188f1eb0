"""Options that several commands share, and the client that they use."""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hive_ingest.metastore_client import MetastoreClient

TableArgument = Annotated[str, typer.Argument(metavar="DB.TABLE", help="The table.", show_default=False)]
OptionalTableArgument = Annotated[
    str | None, typer.Argument(metavar="DB.TABLE", help="Only this table.", show_default=False)
]
MetastoreOption = Annotated[
    str,
    typer.Option(
        "--metastore",
        metavar="URI",
        envvar="HIVE_INGEST_METASTORE",
        show_default=False,
        help="URI of the metastore, such as sqlite:///demo/metastore.db.",
    ),
]
OptionalMetastoreOption = Annotated[
    str | None,
    typer.Option(
        "--metastore", metavar="URI", envvar="HIVE_INGEST_METASTORE", show_default=False, help="URI of the metastore."
    ),
]
WarehouseOption = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        metavar="PATH",
        envvar="HIVE_INGEST_WAREHOUSE",
        show_default=False,
        help="Folder of the databases. Default: the metastore's; for a new SQLite one, `warehouse` beside it.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]


class Output(enum.StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


OutputOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="table for the terminal; json (one object per line) or csv for programs."),
]


@contextmanager
def connected(metastore: str, warehouse: str | None, *, create: bool = False) -> Iterator[MetastoreClient]:
    """A client for one command, which reports waits for locks on stderr.

    An embedded metastore is created only with `create`.
    """
    from hive_ingest.metastore_client import connect_metastore

    with printed_waits(), connect_metastore(metastore, warehouse=warehouse, create=create) as client:
        yield client


@contextmanager
def printed_waits() -> Iterator[None]:
    """Print what the library logs about waits for locks to stderr."""
    from hive_ingest.cli.logs import is_configured
    from hive_ingest.metastore_client import WAIT_LOGGER

    logger, handler = logging.getLogger(WAIT_LOGGER), _PrintToStderr()
    level, is_logged = logger.level, is_configured()
    if not is_logged:
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _PrintToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Through the progress bar, which redirects stderr while it is shown."""
        from hive_ingest.cli.failures import one_line

        typer.echo(one_line(record.getMessage()), err=True)


def pairs(texts: Sequence[str], divider: str, option: str) -> dict[str, str]:
    """`["id:int", …]` as `{"id": "int", …}`. Raises BadParameter, a usage error."""
    found: dict[str, str] = {}
    for text in texts:
        name, given, value = text.partition(divider)
        if not (name and given) or (divider == ":" and not value):
            raise typer.BadParameter(
                f"{text!r}: write NAME{divider}{'TYPE' if divider == ':' else 'VALUE'}", param_hint=option
            )
        if name in found:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint=option)
        found[name] = value
    return found
