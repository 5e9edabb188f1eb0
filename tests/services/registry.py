"""A real schema registry for tests: Apicurio, with Confluent's interface, on this machine alone."""

from __future__ import annotations

import contextlib
import json
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.services.cache import once
from tests.services.fetch import fetch, java
from tests.services.ports import free_port
from tests.services.server import Server, answers_http

_ROOT = Path(__file__).parents[2]
_OPTIONS = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1")


class RegistryFailed(Exception):
    """The registry did not start; the message ends with its log."""


class Registry(Server):
    """A running registry, which forgets its schemas when it is stopped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._port = free_port()

    @property
    def url(self) -> str:
        """The base URL of Confluent's interface."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start it and wait until it answers. Raises RegistryFailed."""
        command = [str(java()), *_OPTIONS, f"-Dquarkus.http.port={self._port}", "-jar", str(_application())]
        self._launch(command, self._log, self._folder)
        self.wait()

    def register(self, subject: str, schema: Any, references: Sequence[dict[str, Any]] = ()) -> int:
        """Register the next version of a subject. Returns the schema's id."""
        body = {"schema": json.dumps(schema), "references": list(references)}
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return int(json.load(response)["id"])

    def _answers(self) -> bool:
        return answers_http(f"{self.url}/subjects")

    def _failure(self) -> RegistryFailed:
        return RegistryFailed(f"the registry did not start; its log ends:\n{self._log.read_text()[-4000:]}")

    @property
    def _log(self) -> Path:
        return self._folder / "registry.log"


def _application() -> Path:
    """The jar to run. Its archive is unpacked once."""
    packed = fetch("schema-registry")

    def unpack(folder: Path) -> None:
        [archive] = packed.iterdir()
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")

    [jar] = once(packed.with_name(f"{packed.name}-unpacked"), unpack).glob("*-runner.jar")
    return jar


@contextlib.contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """A new and empty registry with its log in `folder`. Raises RegistryFailed, PartUnavailable."""
    registry = Registry(folder)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
