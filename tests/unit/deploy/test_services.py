"""The units of systemd and the image: their command lines are understood by the command."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from hive_ingest.cli.app import make_app
from tests.unit.deploy.conftest import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def sections(unit: Path) -> dict[str, dict[str, list[str]]]:
    """Values by section and key, as systemd reads them: a key may come several times."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in unit.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            current = found.setdefault(heading[1], {})
        else:
            key, given, value = line.partition("=")
            assert given, line
            current.setdefault(key, []).append(value)
    return found


def assert_understood(arguments: list[str]) -> None:
    """The command takes these arguments. Nothing is run."""
    command: Any = typer.main.get_command(make_app(lambda: None))
    context = command.context_class(command, info_name="hive-ingest")
    while hasattr(command, "commands"):
        _, arguments, _ = command.make_parser(context).parse_args(list(arguments))
        command = command.commands[arguments[0]]
        context = command.context_class(command, info_name=arguments.pop(0), parent=context)
    command.parse_args(context, arguments)


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `EnvironmentFile` does."""
    monkeypatch.setenv("HIVE_INGEST_METASTORE", "sqlite:///x.db")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_line_that_is_understood(unit: Path) -> None:
    service = sections(unit)["Service"]
    [line] = service["ExecStart"]
    program, *arguments = shlex.split(line)
    assert program == "/opt/hive-ingest/bin/hive-ingest"
    assert_understood(arguments)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_ends_gracefully_and_restarts_after_failures_without_privileges(unit: Path) -> None:
    found = sections(unit)
    assert set(found) == {"Unit", "Service", "Install"}
    service = {key: values[-1] for key, values in found["Service"].items()}
    assert service["KillSignal"] == "SIGTERM"
    assert int(service["TimeoutStopSec"]) >= 30
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert service["User"] != "root"
    assert service["NoNewPrivileges"] == "yes"


def test_the_ports_of_the_units_differ() -> None:
    lines = [sections(unit)["Service"]["ExecStart"][0] for unit in UNITS]
    ports = [re.findall(r"--metrics-port (\d+)", line) for line in lines]
    assert len({port for [port] in ports}) == len(UNITS)


# -- the image ---------------------------------------------------------------------------------------

_INSTRUCTIONS = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"} | {
    "ENTRYPOINT",
    "CMD",
}


@pytest.fixture
def instructions(deploy: Path) -> list[tuple[str, str]]:
    text = (deploy / "docker" / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r" *\\\n *", " ", "\n".join(lines)).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined)]


def of(instructions: list[tuple[str, str]], word: str) -> list[str]:
    return [rest for each, rest in instructions if each == word]


def test_the_image_runs_the_command_as_an_ordinary_user(instructions: list[tuple[str, str]]) -> None:
    assert {word for word, _ in instructions} <= _INSTRUCTIONS
    [entry], [command] = of(instructions, "ENTRYPOINT"), of(instructions, "CMD")
    assert (json.loads(entry), json.loads(command)) == (["hive-ingest"], ["--help"])
    assert of(instructions, "USER") == ["hive-ingest"]
    assert of(instructions, "STOPSIGNAL") == ["SIGTERM"]


def test_the_image_is_built_from_files_and_extras_that_exist(instructions: list[tuple[str, str]]) -> None:
    for copy in of(instructions, "COPY"):
        if not copy.startswith("--from="):
            *sources, _ = copy.split()
            assert all((ROOT / source).exists() for source in sources), copy
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    [extras] = re.findall(r'"\.\[([\w,]+)\]"', "\n".join(of(instructions, "RUN")))
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_the_image_checks_the_port_on_which_it_serves(instructions: list[tuple[str, str]]) -> None:
    [port] = of(instructions, "EXPOSE")
    [environment] = of(instructions, "ENV")
    values = dict(each.split("=", 1) for each in shlex.split(environment))
    [check] = of(instructions, "HEALTHCHECK")
    assert values["HIVE_INGEST_METRICS_PORT"] == port
    assert f"http://127.0.0.1:{port}/health" in json.loads(check[check.index("[") :])[2]
    assert_variables_exist({name for name in values if name.startswith("HIVE_INGEST_")})


def assert_variables_exist(names: set[str]) -> None:
    group: Any = typer.main.get_command(make_app(lambda: None))
    parameters = [*group.params, *(each for command in group.commands.values() for each in command.params)]
    known = {variable for each in parameters for variable in _variables(each)}
    assert names <= known


def _variables(parameter: Any) -> list[str]:
    found = parameter.envvar
    return [found] if isinstance(found, str) else [*(found or ())]


# -- the manual --------------------------------------------------------------------------------------


def test_the_commands_of_the_manual_are_understood() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text("utf-8")
    lines = re.findall(r"^    (hive-ingest .*)$", manual, re.MULTILINE)
    assert lines
    for line in lines:
        _, *arguments = shlex.split(line, comments=True)
        assert_understood(arguments)


def test_the_example_of_the_manual_runs() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text("utf-8")
    [code] = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
    assert "metrics.serve(9400)" in code
    code = code.replace("serve(9400)", "serve(0)") + "print(metrics.health().to_json()['status'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "ok\n"
