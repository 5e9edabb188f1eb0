"""Java sources of the tests, compiled once a machine."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.services.cache import cache_root, once
from tests.services.fetch import fetch, java

_HERE = Path(__file__).parent


def compiled(name: str, sources: Sequence[Path], jars: Path) -> Path:
    """The folder of classes made of `sources` against the folder `jars`. Raises `PartUnavailable`."""
    target = cache_root() / "classes" / f"{name}-{_key(sources, jars)}"
    return once(target, lambda folder: _compile(sources, jars, folder))


def additions(version: str) -> Path:
    """Classes that come before the jars of Hive `version`: stand-ins for what Java 17 would break, and listeners."""
    return compiled(f"additions-{version}", java_files(_HERE / "java" / f"hive-{version}"), fetch(f"hive-{version}"))


def java_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.java"))


def class_path(jars: Path) -> str:
    return ":".join(map(str, sorted(jars.glob("*.jar"))))


def _compile(sources: Sequence[Path], jars: Path, classes: Path) -> None:
    compiler = next(fetch("compiler").glob("ecj-*.jar"))
    command = [
        *(str(java()), "-jar", str(compiler), "-17", "-nowarn", "-proc:none", "-encoding", "UTF-8"),
        *("-cp", class_path(jars), "-d", str(classes), *map(str, sources)),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"cannot compile {classes.name}:\n{run.stdout[-4000:]}{run.stderr[-4000:]}")


def _key(sources: Sequence[Path], jars: Path) -> str:
    digest = hashlib.sha256(jars.name.encode())
    for path in [Path(__file__), *sources]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
