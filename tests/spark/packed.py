"""An environment for executors, packed as docs/deploy.md says."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.spark.installation import ROOT


@dataclass(frozen=True)
class Packed:
    """A virtual environment with this package, and the archive of it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    @property
    def archive(self) -> Path:
        return self.folder / "env.tar.gz"


def pack_environment(folder: Path, *more: str) -> Packed:
    """With the extras of a job on HDFS whose metastore is on PostgreSQL, and the packages `more`."""
    packed = Packed(folder)
    programs = packed.python.parent
    _run(folder, sys.executable, "-m", "venv", "env")
    _run(folder, programs / "pip", "install", f"{ROOT}[hdfs,postgres]", "pandas>=2.2,<3", "venv-pack", *more)
    _run(folder, programs / "venv-pack", "-o", packed.archive)
    return packed


def _run(folder: Path, *command: object) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "VIRTUAL_ENV": str(folder / "env")},  # it is activated
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout.decode(errors='replace')}"
