"""Where the endpoint, the region and the credentials of a bucket come from."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.storage import Location
from hive_ingest.storage.s3.client import S3Client
from hive_ingest.storage.s3.options import S3Options
from tests.services.s3 import S3Service
from tests.storage.objects import bucket_of, key_of, put

_KEYS = {"fs.s3a.access.key": "of-site", "fs.s3a.secret.key": "secret"}


class _Credentials(BaseHTTPRequestHandler):
    """As the agent of a pod or of a container gives those of its role."""

    def do_GET(self) -> None:
        body = {
            "AccessKeyId": "of-container",
            "SecretAccessKey": "secret",
            "Token": "t",
            "Expiration": "2099-01-01T00:00:00Z",
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def container_credentials() -> Iterator[str]:
    """The URL of an agent."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Credentials) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def write_site(folder: Path, properties: Mapping[str, str]) -> None:
    elements = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    (folder / "core-site.xml").write_text(f"<configuration>{''.join(elements)}</configuration>")


def headers(file: Location) -> str:
    """Of a request with the options that are set."""
    seen: list[str] = []

    def look(s3: Any) -> None:
        s3.meta.events.register("before-send.s3", lambda request, **_: seen.append(f"{request.url} {request.headers}"))
        s3.head_object(Bucket=bucket_of(file), Key=key_of(file))

    S3Client(bucket_of(file), lambda: S3Options.of_bucket(bucket_of(file))).call("look at", file.path, look)
    return seen[0]


@pytest.mark.parametrize(
    ("site", "environment", "credential"),
    [
        (_KEYS, {}, "of-site/"),
        (_KEYS, {"AWS_ACCESS_KEY_ID": "of-environment", "AWS_SECRET_ACCESS_KEY": "secret"}, "of-site/"),
        (_KEYS | {"fs.s3a.session.token": "t-of-site"}, {}, "of-site/"),
        (_KEYS | {"fs.s3a.assumed.role.arn": "arn:aws:iam::123456789012:role/web"}, {}, "ASIA"),
        ({}, {"AWS_ACCESS_KEY_ID": "of-environment", "AWS_SECRET_ACCESS_KEY": "secret"}, "of-environment/"),
        ({}, {"AWS_PROFILE": "web"}, "of-profile/"),
        ({}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "CONTAINER"}, "of-container/"),
    ],
    ids=["keys", "keys before variables", "session", "role", "variables", "profile", "role of the pod"],
)
def test_credentials_come_from_core_site_and_from_where_boto3_looks(
    s3: S3Service,
    s3_root: Location,
    container_credentials: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    site: Mapping[str, str],
    environment: Mapping[str, str],
    credential: str,
) -> None:
    put(s3_root / "a")
    (tmp_path / "credentials").write_text("[web]\naws_access_key_id = of-profile\naws_secret_access_key = secret\n")
    write_site(tmp_path, {"fs.s3a.endpoint": s3.url, "fs.s3a.endpoint.region": "us-west-2", **site})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.url)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("CONTAINER", container_credentials))
    sent = headers(s3_root / "a")
    assert f"Credential={credential}" in sent
    assert "/us-west-2/s3/aws4_request" in sent
    assert ("t-of-site" in sent) == ("fs.s3a.session.token" in site)
    assert ("X-Amz-Security-Token" in sent) == (
        credential in ("ASIA", "of-container/") or "fs.s3a.session.token" in site
    )


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_endpoint_and_region_may_come_from_variables(
    s3: S3Service, s3_root: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    put(s3_root / "a")
    write_site(tmp_path, _KEYS | {"fs.s3a.path.style.access": "true"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
    monkeypatch.setenv(variable, "eu-central-1")
    sent = headers(s3_root / "a")
    assert sent.startswith(s3.url)
    assert "/eu-central-1/s3/" in sent
