"""The gate fails without evidence: no tests, skipped tests, a process that crashed."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate", Path(__file__).parents[2] / "scripts/_gate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gate", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(gate: ModuleType, tmp_path: Path):
    """Runs the gate's own function on a stage with these modules of tests, a run of pytest for each."""

    def on(*modules: str, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        files = []
        for number, source in enumerate(modules):
            files.append(tmp_path / f"test_{number}.py")
            files[-1].write_text(source)
        stage = gate.Stage("sample", runs=tuple((str(file), "-p", "no:cacheprovider") for file in files))
        environment = os.environ | {"PYTEST_ADDOPTS": f"--rootdir={tmp_path}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        passed, _, reason = gate._run_tests(stage, list(arguments), environment, tmp_path, gate.Output(is_shared=True))
        return passed, reason

    return on


GOOD, BAD = "def test_good(): pass\n", "def test_bad(): assert False\n"
SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_skipped(): pass\n"


def test_runs_that_pass_side_by_side_are_counted_together(run) -> None:
    assert run(GOOD, GOOD) == (2, "")


@pytest.mark.parametrize(
    ("other", "why"),
    [(BAD, "1 of 1 tests"), (SKIPPED, "1 tests were skipped"), ("", "no tests were found")],
    ids=["failed", "skipped", "empty"],
)
def test_one_run_that_shows_nothing_or_fails_fails_the_stage(run, other: str, why: str) -> None:
    passed, reason = run(GOOD, other)
    assert passed == 1
    assert why in reason


def test_a_selection_of_tests_may_leave_a_run_empty_but_not_every_run(run) -> None:
    other = "def test_other(): pass\n"
    assert run(GOOD, other, arguments=("-k", "good")) == (1, "")
    assert run(GOOD, other, arguments=("-k", "nowhere")) == (0, "failed: no tests were found")


def test_stages_wait_for_earlier_ones_unless_they_run_beside_them(gate: ModuleType) -> None:
    one, two, three = gate.Stage("one"), gate.Stage("two", beside=True), gate.Stage("three")
    assert gate._side_by_side([one, two, three]) == [[one, two], [three]]
    assert gate._side_by_side([two, three]) == [[two], [three]]


def test_every_test_is_in_the_gate_or_in_another_stage(gate: ModuleType) -> None:
    """No folder of tests is forgotten when one is added."""
    named = {part for stage in gate.STAGES for run in stage.runs for part in run}
    folders = {path.name for path in (Path(__file__).parents[1]).iterdir() if list(path.rglob("test_*.py"))}
    assert {name for name in folders if not any(part.startswith(f"tests/{name}") for part in named)} == set()
