"""An S3 service for tests, in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boto3

from tests.services.ports import free_port
from tests.services.s3_faults import CONTROL, S3Fault
from tests.services.server import Server, answers_http

_ACCESS_KEY, _SECRET_KEY, _REGION = "testing", "testing", "us-east-1"

_CORE_SITE = """\
<configuration>
  <property><name>fs.s3a.endpoint</name><value>{url}</value></property>
  <property><name>fs.s3a.endpoint.region</name><value>{region}</value></property>
  <property><name>fs.s3a.path.style.access</name><value>true</value></property>
  <property><name>fs.s3a.access.key</name><value>{access_key}</value></property>
  <property><name>fs.s3a.secret.key</name><value>{secret_key}</value></property>
</configuration>
"""


class S3Failed(Exception):
    """The service did not start; the message ends with its log."""


class S3Service(Server):
    """A running service. `folder` has its log, and the `core-site.xml` that leads clients to it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.url = ""
        self._buckets = itertools.count(1)

    def start(self) -> None:
        """Start it and wait until it answers. Raises S3Failed."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        (self.folder / "core-site.xml").write_text(
            _CORE_SITE.format(url=self.url, region=_REGION, access_key=_ACCESS_KEY, secret_key=_SECRET_KEY)
        )
        self._launch([sys.executable, "-m", "tests.services.s3_server", str(port)], self._log, self.folder)
        self.wait()

    @property
    def environment(self) -> dict[str, str]:
        """Of processes that use it."""
        return {"HADOOP_CONF_DIR": str(self.folder)}

    def new_bucket(self) -> str:
        """Make a bucket of a new name."""
        name = f"bucket-{os.getpid()}-{next(self._buckets)}"
        self.client().create_bucket(Bucket=name)
        return name

    def client(self) -> Any:
        """A client of its own, for what a test looks at."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=_REGION,
            aws_access_key_id=_ACCESS_KEY,
            aws_secret_access_key=_SECRET_KEY,
        )

    def set_faults(self, *faults: S3Fault) -> None:
        """Replaces faults that have not happened, and counts requests from here."""
        data = json.dumps([asdict(fault) for fault in faults]).encode()
        with urllib.request.urlopen(f"{self.url}{CONTROL}", data=data, timeout=30):
            pass

    def requests(self) -> dict[str, int]:
        """How often each operation was requested since `set_faults`."""
        with urllib.request.urlopen(f"{self.url}{CONTROL}", timeout=30) as answer:
            counts: dict[str, int] = json.load(answer)
            return counts

    def keys(self, bucket: str) -> list[str]:
        """All keys of a bucket."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def uploads(self, bucket: str) -> list[str]:
        """The keys of the uploads in a bucket that are neither completed nor aborted."""
        return [each["Key"] for each in self.client().list_multipart_uploads(Bucket=bucket).get("Uploads", ())]

    def _answers(self) -> bool:
        return answers_http(f"{self.url}{CONTROL}")

    def _failure(self) -> Exception:
        return S3Failed(f"S3 did not start; its log ends:\n{self._log.read_text()[-4000:]}")

    @property
    def _log(self) -> Path:
        return self.folder / "s3.log"


@contextlib.contextmanager
def running_s3(folder: Path) -> Iterator[S3Service]:
    """A new and empty service with its log in `folder`. Raises S3Failed."""
    service = S3Service(folder)
    service.start()
    try:
        yield service
    finally:
        service.stop()
