"""The summaries of commands are whole sentences in a terminal of 80 columns."""

from __future__ import annotations

import pytest
import typer
from typer.core import TyperGroup

from hive_ingest.cli.app import make_app


def groups() -> dict[str, TyperGroup]:
    root = typer.main.get_command(make_app(lambda: None))
    assert isinstance(root, TyperGroup)
    nested = {name: command for name, command in root.commands.items() if isinstance(command, TyperGroup)}
    return {"hive-ingest": root, **nested}


@pytest.mark.parametrize("name", groups())
def test_no_summary_of_a_command_is_cut_off(name: str) -> None:
    group = groups()[name]
    text = group.get_help(typer.Context(group, info_name=name, terminal_width=80))
    listed = text.partition("Commands:\n")[2].splitlines()
    assert len(listed) == len(group.commands)
    assert not [line for line in listed if line.endswith("...")]
