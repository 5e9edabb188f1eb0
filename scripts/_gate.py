"""The stages of `scripts/test`; each runs to its end even if another one failed.

Stages that mostly wait run beside each other, and so do the runs of pytest within a stage; each line of their output
begins with the name of its stage then. What the gate leaves to the stages that do not gate, and why:

    what                                                 runs in      because
    tests/spark/test_restarts.py                         soak         every step is killed in test_killed_driver; soak
                                                                      has fifty restarts
    tests/spark/test_killed_driver.py on PostgreSQL      metastores   spark has it on SQLite, thrift on both of Hive's
    tests/crash: errors at any step on PostgreSQL        metastores   kills at any step have it in acceptance
    Hive's own cases of worker, initiator and cleaner    metastores   acceptance has them on SQLite, and some on
    on PostgreSQL                                                     PostgreSQL; their SQL is all run there
    tests/interop/test_versus_java.py                    harness      it tests a benchmark
    tests/kafka/test_services.py                         harness      it tests the broker that tests/kafka stands on
    tests/kafka/test_kill.py: most of the steps          metastores   kafka kills at random steps too
    the suites with their warehouse on S3 and Azure      warehouses   storage has the stores' own tests and a sample on
    Storage, and most of them with it on HDFS                         HDFS
    tests/interop/test_on_s3.py                          warehouses   interop has the same on HDFS
    tests/spark/test_yarn.py                             warehouses   it packs an environment, and takes minutes;
                                                                      spark has a standalone cluster
    property tests with examples drawn at random         soak         the gate draws the same examples each time, so
                                                                      that a failure comes from a change

Every stage runs with a PATH that leads to Python, git, bash and coreutils alone and without JAVA_HOME: what it
needs beyond these it has to bring, or the gate fails on every machine and not only on a bare one. (Bash is what
`scripts/test` itself is written in, and Spark's own launcher.)
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

_ROOT = Path(__file__).resolve().parent.parent
_BIN = Path(sys.executable).parent
_NOT_FROM_OUTSIDE = ("JAVA_HOME", "PYTHONDONTWRITEBYTECODE")
_NO_TESTS = 5  # pytest's exit status when it collected nothing
_NOTHING = (0, 1, "failed: no tests were found")
_MEMORY = Path("/dev/shm")
_GSSAPI = "libgssapi_krb5.so.2"
_ROOM_BYTES = 6 << 30  # tests of Spark leave a quarter of a gigabyte, those of memory take more

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
    """Commands that run until one fails, then tests, if it has any.

    Attributes:
        runs: The arguments of runs of pytest, which go side by side.
        beside: It starts together with the stage before it.
        on_disk: Its tests work on a real disk, not in memory.
    """

    name: str
    commands: tuple[tuple[str, ...], ...] = ()
    runs: tuple[tuple[str, ...], ...] = ()
    gates: bool = True
    beside: bool = False
    on_disk: bool = False


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


# Many tests wait: for a lock, for a JVM, for a timeout.
_TWO_AT_A_TIME = ("-n", "2")
_THREE_AT_A_TIME = ("-n", "3")

_IN_OTHER_STAGES = tuple(f"--ignore=tests/interop/test_{name}.py" for name in ("versus_java", "on_s3"))

#: A kill while a lock is waited for, and on either side of the commit; tests/crash has all points.
_CRASHES_ON_REAL_METASTORES = (
    *(
        f"tests/crash/test_kill.py::test_killed_at_any_step_and_restarted_every_row_is_there_once[{kind}-{point}]"
        for point in ("lock_waiting", "after_publish", "commit_before_answer")
        for kind in ("hive313", "hive401")
    ),
    "tests/crash/test_kill.py::test_a_restart_does_not_wait_for_the_dead_owners_timeout",
    "tests/crash/test_kill.py::test_a_writer_stopped_between_two_renames_past_its_timeout_publishes_nothing",
)


#: A few of the steps; tests/kafka/test_kill.py has all.
_KILLS_OF_KAFKA = tuple(
    f"tests/kafka/test_kill.py::test_killed_at_any_step_and_restarted_every_message_is_there_once[sqlite-{point}]"
    for point in ("after_seek", "after_messages_written", "after_publish", "after_commit_txn", "after_offset_commit")
)


#: Of the suites that take any warehouse; the stage warehouses has all.
_SUITES_ON_HDFS = (
    *(
        f"tests/crash/test_kill.py::test_killed_at_any_step_and_restarted_every_row_is_there_once[sqlite-{point}]"
        for point in ("between_renames", "after_publish")
    ),
    "tests/acceptance/connection/test_overwrite.py",
    "tests/acceptance/compaction/test_compact.py",
    "tests/kafka/test_ingest.py::test_each_message_is_a_row_once_over_restarts",
    *_KILLS_OF_KAFKA[2:4],
)


#: The server of Connect in pyspark 3.5.0 cannot be started with NumPy 2.
_CONNECT_OF_TODAY = "tests/spark/test_types.py::test_a_spark_connect_dataframe_is_converted_too"
#: A sample; what depends on a version's interior has tests of its own.
_ON_THE_LOWEST_SPARK = tuple(
    f"tests/spark/test_{name}.py" for name in ("batches", "merge_job", "types", "write_dataframe")
)


def _modules(folder: str, *, first: Sequence[str], without: Sequence[str]) -> list[str]:
    """The modules of tests in `folder`, in the order in which processes shall take them."""
    found = sorted(path.stem.removeprefix("test_") for path in (_ROOT / folder).glob("test_*.py"))
    rest = [name for name in found if name not in (*first, *without)]
    return [f"{folder}/test_{name}.py" for name in (*first, *rest)]


def _for_each_hive(*arguments: str) -> tuple[tuple[str, ...], ...]:
    """A run for each version: a process that has both starts, and keeps in memory, every server twice."""
    return tuple((*arguments, f"--hive={version}") for version in ("3.1.3", "4.0.1"))


_ON_ANY_WAREHOUSE = (
    *(f"tests/acceptance/{name}" for name in ("api", "compaction", "connection", "reader", "streaming")),
    *("tests/crash", "tests/spark", "tests/kafka"),
)


STAGES = (
    Stage("lint", (_python("-m", "ruff", "check", "."),)),
    Stage("format", (_python("-m", "ruff", "format", "--check", "."),), beside=True),
    Stage("types", (_python("-m", "mypy"),), beside=True),
    Stage("imports", ((str(_BIN / "lint-imports"), "--no-cache"),), beside=True),
    Stage(
        "unit", runs=((*_TWO_AT_A_TIME, "tests/unit", "tests/services", "tests/support"),), beside=True, on_disk=True
    ),
    Stage("acceptance", runs=((*_THREE_AT_A_TIME, "tests/acceptance", "tests/crash", "tests/property"),)),
    Stage("packaging", runs=(("tests/packaging",),), beside=True),
    Stage(
        "storage",
        (
            _python("-m", "tests.services.fetch", "compiler", "hdfs", "kafka"),
            _python("-m", "tests.services.node"),
        ),
        runs=(("tests/storage",), (*_SUITES_ON_HDFS, "--warehouse=hdfs")),
        beside=True,
    ),
    Stage(
        "kerberos",
        (
            _python("-m", "tests.services.fetch", "compiler", "hdfs", "hive-3.1.3", "hive-4.0.1", "kdc", "metastore"),
            _python("-m", "tests.spark.class_archive"),
        ),
        runs=(("tests/kerberos",),),
        beside=True,
    ),
    Stage(
        "kafka",
        (
            _python("-m", "tests.services.fetch", "kafka", "spark-kafka", "schema-registry"),
            _python("-m", "tests.services.spark_versions"),
        ),
        runs=(
            (
                *_TWO_AT_A_TIME,
                *_modules("tests/kafka", first=("trouble", "rebalances"), without=("services", "kill")),
                *_KILLS_OF_KAFKA,
            ),
        ),
        beside=True,
    ),
    Stage(
        "spark",
        (
            _python("-m", "tests.services.fetch", "compiler", "hdfs", "hive-4.0.1", "metastore"),
            _python("-m", "tests.services.spark_versions"),
            _python("-m", "tests.spark.class_archive"),
        ),
        # A module stays in one process: what its tests share is made once. The longest modules come first.
        runs=(
            (
                *(*_TWO_AT_A_TIME, "--dist=loadfile", "--no-loadscope-reorder"),
                *_modules(
                    "tests/spark",
                    first=("data_source_stream", "quickstart", "killed_tasks", "two_drivers", "killed_driver"),
                    without=("harness", "restarts", "yarn"),
                ),
            ),
            (*_ON_THE_LOWEST_SPARK, "--spark=lowest", f"--deselect={_CONNECT_OF_TODAY}"),
        ),
    ),
    Stage("interop", (_python("-m", "tests.services.fetch"),), runs=_for_each_hive("tests/interop", *_IN_OTHER_STAGES)),
    # Real metastores: tests of their own, and of the suites that take any metastore what fits into the time.
    Stage(
        "thrift",
        (
            _python("-m", "tests.services.fetch", "compiler", "hive-3.1.3", "hive-4.0.1", "metastore"),
            _python("-m", "tests.spark.class_archive"),
        ),
        runs=_for_each_hive(
            *("tests/spark/test_killed_driver.py", "tests/thrift", *_CRASHES_ON_REAL_METASTORES),
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
        runs=(
            (
                *(*_TWO_AT_A_TIME, "--dist=loadfile"),
                *("tests/unit/reader", "tests/acceptance", "tests/crash", "tests/property"),
                *("tests/spark", "tests/kafka"),
                "--metastores=all",
            ),
        ),
        gates=False,
        on_disk=True,
    ),
    Stage(
        "warehouses",
        (
            _python("-m", "tests.services.fetch"),
            _python("-m", "tests.services.spark_versions"),
            _python("-m", "tests.services.node"),
            _python("-m", "tests.spark.class_archive"),
        ),
        runs=(
            *(
                (*_TWO_AT_A_TIME, "--dist=loadfile", *_ON_ANY_WAREHOUSE, f"--warehouse={store}")
                for store in ("hdfs", "s3", "azure")
            ),
            ("tests/interop/test_on_s3.py",),
            ("tests/spark/test_yarn.py",),
        ),
        gates=False,
        on_disk=True,
    ),
    # What other tests stand on: to be run when that is changed.
    Stage(
        "harness",
        (_python("-m", "tests.services.fetch"), _python("-m", "tests.services.spark_versions")),
        runs=(("tests/spark/test_harness.py", "tests/kafka/test_services.py", "tests/interop/test_versus_java.py"),),
        gates=False,
    ),
    Stage(
        "soak",
        runs=(
            ("tests/soak", "tests/spark/test_restarts.py"),
            ("tests/property", "tests/unit", "--hypothesis-profile=random"),
        ),
        gates=False,
        on_disk=True,
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Run the stages named, or all that gate; 0 when everything passed."""
    stages, pytest_arguments = _parse(arguments)
    results: list[Result] = []
    _free_memory()
    with tempfile.TemporaryDirectory(prefix="hive-ingest-gate-") as scratch:
        environment = _bare_environment(Path(scratch) / "bin")
        for together in _side_by_side(stages):
            output = Output(is_shared=len(together) > 1)
            with ThreadPoolExecutor(len(together)) as pool:
                running = [
                    pool.submit(_run, stage, pytest_arguments, environment, Path(scratch), output) for stage in together
                ]
                results += [each.result() for each in running]
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


def _side_by_side(stages: Iterable[Stage]) -> list[list[Stage]]:
    groups: list[list[Stage]] = []
    for stage in stages:
        if stage.beside and groups:
            groups[-1].append(stage)
        else:
            groups.append([stage])
    return groups


class Output:
    """Standard output, whole lines at a time; with the writer's name where several write."""

    def __init__(self, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self._lock = threading.Lock()

    def write(self, name: str, text: str) -> None:
        """Write one line."""
        with self._lock:
            print(f"{name:10} | {text}" if self.is_shared and "==== " not in text[:6] else text, flush=True)

    def run(self, name: str, command: Sequence[str], environment: dict[str, str]) -> int:
        """Run `command` to its end with its output shown here; its exit status."""
        if not self.is_shared:
            return subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode
        with subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.write(name, line.rstrip("\n"))
        return process.returncode


def _run(
    stage: Stage, pytest_arguments: list[str], environment: dict[str, str], scratch: Path, output: Output
) -> Result:
    output.write(stage.name, f"\n==== {stage.name}")
    started = time.monotonic()
    passed, failed, reason = _run_commands(stage, environment, output)
    if not reason and stage.runs:
        tests_passed, failed, reason = _run_tests(stage, pytest_arguments, environment, scratch, output)
        passed += tests_passed
    seconds = time.monotonic() - started
    output.write(stage.name, f"==== {stage.name}: {reason or 'passed'} ({seconds:.0f} s)")
    return Result(stage.name, passed, failed, seconds, reason)


def _run_commands(stage: Stage, environment: dict[str, str], output: Output) -> tuple[int, int, str]:
    for done, command in enumerate(stage.commands):
        if output.run(stage.name, command, environment):
            return done, 1, f"failed: {shlex.join(command[1:] or command)}"
    return len(stage.commands), 0, ""


def _run_tests(
    stage: Stage, pytest_arguments: list[str], environment: dict[str, str], scratch: Path, output: Output
) -> tuple[int, int, str]:
    if len(stage.runs) > 1:
        output = Output(is_shared=True)

    def run(number: int) -> tuple[int, int, str]:
        name = f"{stage.name} {number + 1}" if len(stage.runs) > 1 else stage.name
        with _folder_for_tests(scratch, on_disk=stage.on_disk) as folder:
            report = folder / "report.xml"
            where = ("--basetemp", str(folder / "tests"), f"--junit-xml={report}")
            command = _python("-m", "pytest", "-q", *where, *stage.runs[number], *pytest_arguments)
            return _judge(report, output.run(name, command, environment))

    with ThreadPoolExecutor(len(stage.runs)) as pool:
        found = list(pool.map(run, range(len(stage.runs))))
    if pytest_arguments:  # they may leave tests in some of the runs only
        found = [each for each in found if each != _NOTHING] or [_NOTHING]
    reasons = [reason for _, _, reason in found if reason]
    return sum(passed for passed, _, _ in found), sum(failed for _, failed, _ in found), "; ".join(reasons)


def _judge(report: Path, status: int) -> tuple[int, int, str]:
    """Tests that passed, tests that failed, and the reason why the stage does."""
    if status == _NO_TESTS:
        return _NOTHING
    passed, failed, skipped = _count(report)
    if skipped:
        return passed, failed + skipped, f"failed: {skipped} tests were skipped, which shows nothing"
    if status:
        return passed, max(failed, 1), f"failed: {failed} of {passed + failed} tests, pytest ended with {status}"
    return passed, failed, ""


@contextlib.contextmanager
def _folder_for_tests(scratch: Path, *, on_disk: bool) -> Iterator[Path]:
    """A folder in memory, where waiting for the device to sync takes no time; on disk where there is no room."""
    parent = scratch if on_disk or not _has_room(_MEMORY) else _MEMORY
    prefix = f"hive-ingest-gate-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _free_memory() -> None:
    """Remove the folders in memory of gates that were killed."""
    for folder in _MEMORY.glob("hive-ingest-gate-*-*"):
        if not Path("/proc", folder.name.split("-")[3]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _has_room(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= _ROOM_BYTES and not found.f_flag & os.ST_NOEXEC


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
    environment = {key: value for key, value in os.environ.items() if key not in _NOT_FROM_OUTSIDE}
    if libraries := _kerberos_libraries(folder.with_name("kerberos")):
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (*libraries, os.environ.get("LD_LIBRARY_PATH"))))
    # Tests start hundreds of processes; compiling the modules again takes each of them more than a second.
    return {**environment, "PATH": str(folder), "PYTHONPYCACHEPREFIX": str(folder.with_name("pycache"))}


def _kerberos_libraries(folder: Path) -> list[str]:
    """Folders that hold Kerberos's library where the system has none: psycopg's wheel brings one, by another name."""
    with contextlib.suppress(OSError):
        ctypes.CDLL(_GSSAPI)
        return []
    for found in Path(sysconfig.get_path("platlib")).glob("psycopg_binary.libs/libgssapi_krb5-*.so.2*"):
        folder.mkdir()
        (folder / _GSSAPI).symlink_to(found)
        return [str(folder), str(found.parent)]
    return []


def _summarise(results: Sequence[Result]) -> None:
    print("\n==== summary")
    for result in results:
        print(f"{result.stage:12} {result.seconds:6.0f} s  {result.reason or 'passed'}")
    print(f"{sum(result.passed for result in results)} passed, {sum(result.failed for result in results)} failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
