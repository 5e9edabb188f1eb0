"""Real Hive made ready to run: jars fetched, the judge compiled, an empty metastore laid out. Once a machine."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.parts.cache import cache_root, once
from tests.parts.fetch import fetch, java

VERSIONS = ("3.1.3", "4.0.1")

_SOURCES = Path(__file__).parent / "java"
_SCHEMA_SCRIPTS = {"3.1.3": "hive-schema-3.1.0.derby.sql", "4.0.1": "hive-schema-4.0.0.derby.sql"}

# Hive and Hadoop reach into Java's own classes, which Java 8 let them do.
_OPENED = (
    *("java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.nio", "java.nio.charset"),
    *("java.text", "java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    *("java.util.regex", "java.util.stream", "jdk.internal.misc", "jdk.internal.ref", "sun.nio.ch"),
)


@dataclass(frozen=True, slots=True)
class Runner:
    """One version of Hive, ready to start; both folders lie in the cache."""

    version: str
    jars: Path
    folder: Path

    def prepare_home(self, home: Path) -> None:
        """Lay an empty metastore into `home`."""
        shutil.copytree(self.folder / "home", home, dirs_exist_ok=True)

    def command(self, home: Path, *, timezone: str) -> list[str]:
        """The command line of a judge that lives in `home`."""
        return _command(self.jars, self.folder, [str(home)], timezone=timezone)


def runner(version: str) -> Runner:
    """The runner of Hive `version`, fetched and built if this machine has not got it. Raises `PartUnavailable`."""
    jars = fetch(f"hive-{version}")
    sources = _java_files(version)
    target = cache_root() / "judge" / f"{version}-{_key(jars, sources)}"
    return Runner(version, jars, once(target, lambda folder: _build(version, jars, sources, folder)))


def _build(version: str, jars: Path, sources: list[Path], folder: Path) -> None:
    _compile(sources, jars, folder / "classes")
    _lay_out_metastore(version, jars, folder)


def _compile(sources: list[Path], jars: Path, classes: Path) -> None:
    compiler = next(fetch("compiler").glob("ecj-*.jar"))
    command = [
        *(str(java()), "-jar", str(compiler), "-17", "-nowarn", "-proc:none", "-encoding", "UTF-8"),
        *("-cp", _class_path(jars), "-d", str(classes), *map(str, sources)),
    ]
    _run(command, "compile the judge")


def _lay_out_metastore(version: str, jars: Path, folder: Path) -> None:
    script = folder / "schema.sql"
    script.write_bytes(_schema_script(next(jars.glob("*-bin.tar.gz")), _SCHEMA_SCRIPTS[version]))
    home = folder / "home"
    home.mkdir()
    _run(_command(jars, folder, [str(home), "init", str(script)]), f"make the metastore of Hive {version}")


def _schema_script(distribution: Path, name: str) -> bytes:
    with tarfile.open(distribution) as archive:
        for member in archive:
            if member.name.endswith(f"/scripts/metastore/upgrade/derby/{name}"):
                file = archive.extractfile(member)
                assert file is not None
                return file.read()
    raise FileNotFoundError(f"{distribution} holds no {name}")


def _class_path(jars: Path) -> str:
    return ":".join(map(str, sorted(jars.glob("*.jar"))))


def _command(jars: Path, folder: Path, arguments: list[str], *, timezone: str = "UTC") -> list[str]:
    opened = [option for name in _OPENED for option in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    return [
        # A judge is young all its life: the second compiler would cost more time than it saves.
        *(str(java()), "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened),
        "-Dderby.system.durability=test",
        *("-Dfile.encoding=UTF-8", f"-Duser.timezone={timezone}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
        "-Djava.system.class.loader=hiveingest.judge.SystemLoader",
        # The judge's own classes come first: one of them stands before a class of Hive's.
        *("-cp", f"{folder / 'classes'}:{_class_path(jars)}", "hiveingest.judge.Judge", *arguments),
    ]


def _run(command: list[str], purpose: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"cannot {purpose}:\n{run.stdout[-4000:]}{run.stderr[-4000:]}")


def _java_files(version: str) -> list[Path]:
    return sorted(path for part in ("common", f"hive-{version}") for path in (_SOURCES / part).rglob("*.java"))


def _key(jars: Path, sources: list[Path]) -> str:
    digest = hashlib.sha256(jars.name.encode())
    for path in [Path(__file__), *sources]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
