"""Real Hive made ready to run: jars fetched, the judge compiled. Once a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.services.fetch import fetch, java
from tests.services.javac import additions, class_path, compiled, java_files

VERSIONS = ("3.1.3", "4.0.1")

_SOURCES = Path(__file__).parent / "java"

#: A judge is young all its life: the second compiler would cost more time than it saves.
YOUNG_JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Hive and Hadoop reach into Java's own classes, which Java 8 let them do.
_OPENED = (
    *("java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.nio", "java.nio.charset"),
    *("java.text", "java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    *("java.util.regex", "java.util.stream", "jdk.internal.misc", "jdk.internal.ref", "sun.nio.ch"),
)


@dataclass(frozen=True, slots=True)
class Runner:
    """One version of Hive, ready to start; all of it lies in the cache."""

    version: str
    class_path: str

    def command(
        self, home: Path, settings: Mapping[str, str], *, timezone: str, jvm: Sequence[str] = YOUNG_JVM
    ) -> list[str]:
        """The command line of a judge that keeps its scratch files in `home`; `jvm` are options of Java's."""
        arguments = [str(home), *(f"{key}={value}" for key, value in settings.items())]
        return self.java_command("Judge", arguments, jvm=[*jvm, f"-Duser.timezone={timezone}"])

    def java_command(self, main: str, arguments: Sequence[str], *, jvm: Sequence[str] = YOUNG_JVM) -> list[str]:
        """The command line of one of the judge's classes."""
        opened = [option for name in _OPENED for option in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        return [
            *(str(java()), *jvm, *opened, "-Dfile.encoding=UTF-8"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-Dspring.jdbc.getParameterType.ignore=true",  # PostgreSQL ends a transaction that asks for it
            "-Djava.system.class.loader=hiveingest.judge.SystemLoader",
            *("-cp", self.class_path, f"hiveingest.judge.{main}", *arguments),
        ]


def runner(version: str, more_classes: Sequence[Path] = ()) -> Runner:
    """The runner of Hive `version`, fetched and built if this machine has not got it.

    `more_classes` come before Hive's own in the class path. Raises `PartUnavailable`.
    """
    jars = fetch(f"hive-{version}")
    sources = [path for part in ("common", f"hive-{version}") for path in java_files(_SOURCES / part)]
    classes = compiled(f"judge-{version}", sources, jars)
    paths = [
        *map(str, (*more_classes, additions(version), classes)),
        *(class_path(jars), class_path(fetch("metastore"))),
    ]
    return Runner(version, ":".join(paths))
