"""The code of a page of the documentation, run as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def python_blocks(page: str) -> list[str]:
    """The blocks of Python in a page, whose path begins at the root of the repository."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def shell_blocks(page: str) -> list[str]:
    """The blocks of bash in a page."""
    return re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def output_of_shell(blocks: list[str], folder: Path) -> str:
    """Run the blocks one after the other in `folder`, in one shell that ends at the first command that fails.

    Returns:
        What they printed.

    Raises:
        AssertionError: A command failed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HIVE_INGEST_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def output_of(blocks: list[str], folder: Path) -> str:
    """Run the blocks one after the other, in a process that starts in `folder`.

    Returns:
        What they printed.

    Raises:
        AssertionError: The process failed, or warned of something.
    """
    script = folder / "page.py"
    script.write_text("\n".join(blocks), "utf-8")
    warnings = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")  # a fork beside threads, Python 3.12
    command = [sys.executable, *warnings, str(script)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
