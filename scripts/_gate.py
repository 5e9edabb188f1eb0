"""The stages of `scripts/test`, one after another, each to its end also when one before it failed.

Every stage runs with a PATH that leads to Python, git, bash and coreutils alone and without JAVA_HOME: what it
needs beyond these it has to bring, or the gate fails on every machine and not only on a bare one. (Bash is what
`scripts/test` itself is written in, and Spark's own launcher.)
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

_ROOT = Path(__file__).resolve().parent.parent
_BIN = Path(sys.executable).parent
_NO_TESTS = 5  # pytest's exit status when it collected nothing

_COREUTILS = """
    [ b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date dd df
    dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install join link ln
    logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv
    printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf
    sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname
    unexpand uniq unlink uptime users vdir wc who whoami yes
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """Commands that run until one fails, then tests, if it has any."""

    name: str
    commands: tuple[tuple[str, ...], ...] = ()
    tests: tuple[str, ...] = ()
    gates: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """`failed` counts a command and a broken run of pytest as one each; `reason` is empty when all is well."""

    stage: str
    passed: int
    failed: int
    seconds: float
    reason: str


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


# Many tests wait: for the device to sync, for a lock, for a JVM, for a time-out.
_TWO_AT_A_TIME = ("-n", "2")

#: A kill while a lock is waited for, and on either side of the commit; tests/crash has all points.
_CRASHES_ON_REAL_METASTORES = (
    *(
        f"tests/crash/test_kill.py::test_killed_at_any_step_and_restarted_every_row_is_there_once[{kind}-{point}]"
        for point in ("lock_waiting", "after_publish", "commit_before_answer")
        for kind in ("hive313", "hive401")
    ),
    "tests/crash/test_kill.py::test_a_restart_does_not_wait_for_the_dead_owners_time_out",
    "tests/crash/test_kill.py::test_a_writer_stopped_between_two_renames_past_its_time_out_publishes_nothing",
)

STAGES = (
    Stage("lint", (_python("-m", "ruff", "check", "."),)),
    Stage("format", (_python("-m", "ruff", "format", "--check", "."),)),
    Stage("types", (_python("-m", "mypy"),)),
    Stage("imports", ((str(_BIN / "lint-imports"), "--no-cache"),)),
    Stage("unit", tests=("tests/unit", "tests/services", "tests/support")),
    Stage("acceptance", tests=(*_TWO_AT_A_TIME, "tests/acceptance", "tests/crash", "tests/property")),
    Stage("packaging", tests=("tests/packaging",)),
    Stage(
        "spark",
        (_python("-m", "tests.services.spark_versions"), _python("-m", "tests.spark.class_archive")),
        # A module stays in one process: what its tests share is made once.
        tests=(*_TWO_AT_A_TIME, "--dist=loadfile", "tests/spark", "--ignore=tests/spark/test_harness.py"),
    ),
    Stage(
        "kafka",
        (_python("-m", "tests.services.fetch", "kafka", "spark-kafka"), _python("-m", "tests.services.spark_versions")),
        tests=("tests/kafka",),
    ),
    Stage(
        "interop",
        (_python("-m", "tests.services.fetch"),),
        # One process has Hive 3.1.3 and its metastore, the other 4.0.1.
        tests=(*_TWO_AT_A_TIME, "--dist=loadgroup", "tests/interop"),
    ),
    # Real metastores: their own room, and of the suites that take any metastore what fits into six minutes.
    Stage(
        "thrift",
        (
            _python("-m", "tests.services.fetch", "compiler", "hive-3.1.3", "hive-4.0.1", "metastore"),
            _python("-m", "tests.spark.class_archive"),
        ),
        # A process starts its own metastores, once for all its modules. The longest module comes first.
        tests=(
            *(*_TWO_AT_A_TIME, "--dist=loadfile", "--no-loadscope-reorder"),
            "tests/spark/test_killed_driver.py",
            "tests/thrift",
            *_CRASHES_ON_REAL_METASTORES,
            *(f"tests/acceptance/metastore/test_{name}.py" for name in ("transactions", "write_ids")),
            *(f"tests/acceptance/connection/test_{name}.py" for name in ("outcomes", "progress")),
            "--metastores=real",
        ),
    ),
    Stage(
        "metastores",
        (
            _python("-m", "tests.services.fetch"),
            _python("-m", "tests.services.spark_versions"),
            _python("-m", "tests.spark.class_archive"),
        ),
        tests=(
            *(*_TWO_AT_A_TIME, "--dist=loadfile"),
            *("tests/unit/reader", "tests/acceptance", "tests/crash", "tests/spark", "tests/kafka"),
            "--metastores=real",
        ),
        gates=False,
    ),
    # What the tests of Spark stand on: to be run when that is changed.
    Stage("harness", tests=("tests/spark/test_harness.py",), gates=False),
    Stage("soak", tests=("tests/soak",), gates=False),
)


def main(arguments: Sequence[str]) -> int:
    """Run the stages named, or all that gate; 0 when everything passed."""
    stages, pytest_arguments = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="hive-ingest-gate-") as scratch:
        environment = _bare_environment(Path(scratch) / "bin")
        results = [_run(stage, pytest_arguments, environment, Path(scratch)) for stage in stages]
    _summarise(results)
    return int(any(result.reason for result in results))


def _parse(arguments: Sequence[str]) -> tuple[list[Stage], list[str]]:
    own, _, rest = _partition(list(arguments), "--")
    parser = argparse.ArgumentParser(prog="scripts/test", epilog="what follows -- goes to pytest")
    names = [stage.name for stage in STAGES]
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{', '.join(names)}; default: all that gate")
    chosen = parser.parse_args(own).stages
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"there is no stage {unknown[0]}; there are {', '.join(names)}")
    return [stage for stage in STAGES if (stage.name in chosen if chosen else stage.gates)], rest


def _partition(items: list[str], separator: str) -> tuple[list[str], list[str], list[str]]:
    at = items.index(separator) if separator in items else len(items)
    return items[:at], items[at : at + 1], items[at + 1 :]


def _run(stage: Stage, pytest_arguments: list[str], environment: dict[str, str], scratch: Path) -> Result:
    print(f"\n==== {stage.name}", flush=True)
    started = time.monotonic()
    passed, failed, reason = _run_commands(stage, environment)
    if not reason and stage.tests:
        tests_passed, failed, reason = _run_tests(stage, pytest_arguments, environment, scratch)
        passed += tests_passed
    seconds = time.monotonic() - started
    print(f"==== {stage.name}: {reason or 'passed'} ({seconds:.0f} s)", flush=True)
    return Result(stage.name, passed, failed, seconds, reason)


def _run_commands(stage: Stage, environment: dict[str, str]) -> tuple[int, int, str]:
    for done, command in enumerate(stage.commands):
        if subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode:
            return done, 1, f"failed: {shlex.join(command[1:] or command)}"
    return len(stage.commands), 0, ""


def _run_tests(
    stage: Stage, pytest_arguments: list[str], environment: dict[str, str], scratch: Path
) -> tuple[int, int, str]:
    report = scratch / f"{stage.name}.xml"
    command = _python("-m", "pytest", "-q", f"--junit-xml={report}", *stage.tests, *pytest_arguments)
    status = subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode
    passed, failed, skipped = _count(report)
    if status == _NO_TESTS:
        return passed, failed + 1, "failed: no tests were found"
    if skipped:
        return passed, failed + skipped, f"failed: {skipped} tests were skipped, which shows nothing"
    if status:
        return passed, max(failed, 1), f"failed: {failed} of {passed + failed} tests, pytest ended with {status}"
    return passed, failed, ""


def _count(report: Path) -> tuple[int, int, int]:
    """Tests that passed, failed or broke, and were skipped."""
    if not report.exists():
        return 0, 0, 0
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    tests, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return tests - failures - errors - skipped, failures + errors, skipped


def _bare_environment(folder: Path) -> dict[str, str]:
    folder.mkdir()
    for name in ("python", "python3"):
        # No link: Python would not see that its own file lies in a virtual environment.
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        (folder / name).chmod(0o755)
    for name in ["git", "bash", *_COREUTILS.split()]:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    return {**environment, "PATH": str(folder)}


def _summarise(results: Sequence[Result]) -> None:
    print("\n==== summary")
    for result in results:
        print(f"{result.stage:12} {result.seconds:6.0f} s  {result.reason or 'passed'}")
    print(f"{sum(result.passed for result in results)} passed, {sum(result.failed for result in results)} failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
