"""Sets of jars: pinned, and refused when they are not what was pinned."""

from __future__ import annotations

import hashlib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.services import fetch

HERE = Path(__file__).parent


def place(monkeypatch: pytest.MonkeyPatch, cache: Path, files: dict[str, bytes], locked: dict[str, bytes]) -> None:
    """A set "small" whose files are in the cache already."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    lock = cache / "small.sha256"
    lock.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in locked.items()))
    monkeypatch.setattr(fetch, "_lock_file", lambda name: cache / f"{name}.sha256")
    folder = cache / "hive-ingest" / "parts" / f"small-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def test_a_cached_set_is_used_without_network_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(monkeypatch, tmp_path, {"a.jar": b"a"}, {"a.jar": b"a"})
    monkeypatch.setenv("HIVE_INGEST_MAVEN_URL", "http://127.0.0.1:9")

    assert [path.name for path in fetch.fetch("small").iterdir()] == ["a.jar"]


@pytest.mark.parametrize("files", [{"a.jar": b"changed"}, {}, {"a.jar": b"a", "b.jar": b"b"}])
def test_a_file_that_is_changed_missing_or_strange_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    place(monkeypatch, tmp_path, files, {"a.jar": b"a"})

    with pytest.raises(fetch.PartUnavailable, match=r"set small are missing, strange or changed, [ab]\.jar .* remove"):
        fetch.fetch("small")


def test_an_unreachable_repository_is_reported_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HIVE_INGEST_MAVEN_URL", "http://127.0.0.1:9/nowhere")
    monkeypatch.setattr("tests.services.maven.time.sleep", lambda seconds: None)

    with pytest.raises(fetch.PartUnavailable, match="HIVE_INGEST_MAVEN_URL"):
        fetch.fetch("compiler")
    assert not list(tmp_path.rglob("*.jar"))


@pytest.mark.parametrize("name", fetch.SETS)
def test_every_set_pins_a_version_and_a_checksum_of_each_file(name: str) -> None:
    dependencies = ET.parse(HERE / "ivy" / f"{name}.xml").getroot().findall("dependencies/dependency")
    locked = [line.split() for line in (HERE / "locks" / f"{name}.sha256").read_text().splitlines()]

    assert all(dependency.get("rev", "").strip("+") for dependency in dependencies)
    assert all(len(checksum) == 64 for checksum, _ in locked)
    assert {file for _, file in locked} >= {f"{d.get('name')}-{d.get('rev')}.jar" for d in dependencies if not len(d)}
    assert len(locked) == len(dependencies)
