"""The wheel: what is in it, and that it works where nothing but its own dependencies is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of a command that must succeed."""
    # PYTHONPATH would let the work tree stand in for what is not installed.
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release is: from the source distribution, so that this one is complete too."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that holds the wheel and its core dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
    return python


def test_the_wheel_holds_the_package_and_its_types_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert "hive_ingest/py.typed" in names
    assert {name.split("/")[0].removesuffix(".dist-info") for name in names} == {
        "hive_ingest",
        wheel.name.removesuffix("-py3-none-any.whl"),
    }
    assert not [name for name in names if "test_" in name or "/tests/" in name or name.endswith("conftest.py")]


def test_every_module_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    tracked = run("git", "ls-files", "hive_ingest", cwd=ROOT).split()

    assert set(tracked) <= set(zipfile.ZipFile(wheel).namelist())


def test_the_license_travels_with_the_wheel(wheel: Path) -> None:
    assert any(name.endswith("/licenses/LICENSE") for name in zipfile.ZipFile(wheel).namelist())


def test_the_installed_package_streams_and_reads(installed: Path, tmp_path: Path) -> None:
    program = """
import pyarrow as pa
import hive_ingest as hi
with hi.connect_metastore("sqlite:///metastore.db", warehouse="warehouse", create=True) as ms:
    ms.create_database("web")
    ms.create_table("web.alerts", columns={"id": "int"})
    hi.append(ms, "web.alerts", pa.table({"id": pa.array([1, 2], pa.int32())}))
    print(hi.read_table(ms, "web.alerts").num_rows, hi.__file__)
"""
    rows, file = run(installed, "-c", program, cwd=tmp_path).split()

    assert rows == "2"
    assert not Path(file).is_relative_to(ROOT)


def test_the_installed_command_shows_its_help(installed: Path, tmp_path: Path) -> None:
    help_text = run(installed.with_name("hive-ingest"), "--help", cwd=tmp_path, TERM="dumb")

    assert "ingest" in help_text


def test_importing_the_package_loads_no_optional_and_no_heavy_dependency() -> None:
    program = "import json, sys, hive_ingest; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = set(json.loads(run(sys.executable, "-c", program, cwd=ROOT)))

    assert "hive_ingest" in loaded
    assert not loaded & {"pyspark", "kafka", "sqlalchemy", "psycopg", "typer", "rich", "prometheus_client"}


def test_the_types_hold_for_the_lowest_python() -> None:
    lowest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert lowest is not None

    output = run(sys.executable, "-m", "mypy", "--python-version", lowest[1], "--strict", cwd=ROOT)

    assert "Success" in output


def test_a_user_of_the_wheel_gets_its_types(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import hive_ingest as hi\nreveal_type(hi.connect_metastore)\nhi.StreamingConnection.connect(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", str(installed), "--cache-dir=.mypy", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "import-untyped" not in done.stdout
    assert "MetastoreClient" in done.stdout
    assert "Missing named argument" in done.stdout
