"""`hive-ingest config show`: each setting, its value, and where the value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from hive_ingest.cli.failures import without_passwords
from hive_ingest.cli.option_names import Command
from hive_ingest.cli.options import OptionalMetastoreOption, Output, OutputOption, WarehouseOption

app = typer.Typer(help="Show the configuration.", no_args_is_help=True, rich_markup_mode=None)

#: Environment variables that are no settings of a connection.
_VARIABLES = (
    *("HIVE_INGEST_CONFIG", "HIVE_CONF_DIR", "HADOOP_CONF_DIR", "HADOOP_USER_NAME"),
    *("HIVE_INGEST_LOG_FORMAT", "HIVE_INGEST_LOG_LEVEL"),
)


@app.callback()
def root() -> None:
    """Without it, typer makes a single command the whole group."""


@app.command("show", cls=Command, short_help="List settings and their sources.")
def show(
    context: typer.Context,
    metastore: OptionalMetastoreOption = None,
    warehouse: WarehouseOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what commands use: the metastore with its options, and the settings of connections. Passwords are masked.

    A value comes from an option, the environment, the TOML file that HIVE_INGEST_CONFIG names, hive-site.xml in
    HIVE_CONF_DIR, or is the default.
    """
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.config import StreamingSettings
    from hive_ingest.metastore_client import explain_options

    rows: list[tuple[str, object, str]] = []
    for name, value in (("metastore", metastore), ("warehouse", warehouse)):
        shown = without_passwords(value) if value is not None else None
        rows.append((name, shown, _source_of(context, name) if value is not None else "not set"))
    for name, value in _variables(os.environ):
        rows.append((name, value, "the environment"))
    # Under the names of their variables without `HIVE_INGEST_`.
    options = {f"metastore_{name}": found for name, found in explain_options(metastore or "").items()}
    settings = options | StreamingSettings.explain()
    rows += [(name, value, _place(name, source, os.environ)) for name, (value, source) in settings.items()]
    write_rows(("name", "value", "source"), rows, output)


def _source_of(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    is_option = source is not None and source.name == "COMMANDLINE"
    return f"--{name}" if is_option else f"HIVE_INGEST_{name.upper()} in the environment"


def _variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in _VARIABLES:
        if name in environ:
            yield name, without_passwords(environ[name])


def _place(name: str, source: str, environ: Mapping[str, str]) -> str:
    if source == "the environment":
        return f"HIVE_INGEST_{name.upper()} in the environment"
    if source == "the TOML file":
        return environ["HIVE_INGEST_CONFIG"]
    if source == "hive-site.xml":
        return str(Path(environ["HIVE_CONF_DIR"]) / "hive-site.xml")
    return source
