"""A service of Google Cloud Storage for tests that read, in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tests.services.ports import free_port
from tests.services.server import Server, answers_http

_CORE_SITE = """\
<configuration>
  <property><name>fs.gs.storage.root.url</name><value>{url}</value></property>
  <property><name>fs.gs.auth.type</name><value>UNAUTHENTICATED</value></property>
</configuration>
"""


class GcsFailed(Exception):
    """The service did not start; the message ends with its log."""


class GcsService(Server):
    """A running service. `folder` has its log, and the `core-site.xml` that leads clients to it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.url = ""
        self._buckets = itertools.count(1)

    def start(self) -> None:
        """Start it and wait until it answers. Raises GcsFailed."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        (self.folder / "core-site.xml").write_text(_CORE_SITE.format(url=self.url))
        self._launch([sys.executable, "-m", "tests.services.gcs_server", str(port)], self._log, self.folder)
        self.wait()

    @property
    def environment(self) -> dict[str, str]:
        """Of processes that use it."""
        return {"HADOOP_CONF_DIR": str(self.folder)}

    def new_bucket(self) -> str:
        """Make a bucket of a new name."""
        name = f"bucket-{os.getpid()}-{next(self._buckets)}"
        self._post("/storage/v1/b?project=tests", json.dumps({"name": name}).encode(), "application/json")
        return name

    def upload(self, bucket: str, key: str, data: bytes) -> None:
        """Make an object. The emulator takes no empty ones."""
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        self._post(path, data, "application/octet-stream")

    def upload_all(self, bucket: str, key: str, folder: Path) -> None:
        """Make an object of each file below `folder`, and none of the folders."""
        for file in folder.rglob("*"):
            if file.is_file():
                self.upload(bucket, f"{key}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    def _post(self, path: str, data: bytes, content_type: str) -> None:
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": content_type})
        with urllib.request.urlopen(request, timeout=30):
            pass

    def _answers(self) -> bool:
        return answers_http(f"{self.url}/storage/v1/b?project=tests")

    def _failure(self) -> Exception:
        return GcsFailed(f"the emulator did not start; its log ends:\n{self._log.read_text()[-4000:]}")

    @property
    def _log(self) -> Path:
        return self.folder / "gcs.log"


@contextlib.contextmanager
def running_gcs(folder: Path) -> Iterator[GcsService]:
    """A new and empty service with its log in `folder`. Raises GcsFailed."""
    service = GcsService(folder)
    service.start()
    try:
        yield service
    finally:
        service.stop()
