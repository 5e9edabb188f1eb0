"""Where services come from, and that a password for it goes nowhere else."""

from __future__ import annotations

import base64
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.services.maven import CENTRAL, Repository, repository
from tests.services.relay import relay

SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
  <servers><server><id>m</id><username>me</username><password>${{env.SECRET}}</password></server></servers>
  <mirrors>
    <mirror><id>other</id><mirrorOf>somewhere</mirrorOf><url>http://other.example</url></mirror>
    <mirror><id>m</id><mirrorOf>{mirror_of}</mirrorOf><url>http://mirror.example/maven/</url></mirror>
  </mirrors>
</settings>
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HIVE_INGEST_MAVEN_URL", raising=False)
    monkeypatch.setattr("tests.services.maven.time.sleep", lambda seconds: None)  # between attempts
    return tmp_path


def write_settings(home: Path, mirror_of: str) -> None:
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(SETTINGS.format(mirror_of=mirror_of))


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_without_any_setting_jars_come_from_where_ivy_looks() -> None:
    assert repository() == Repository(CENTRAL)


@pytest.mark.parametrize("mirror_of", ["central", "*", "external:*", "x,central"])
def test_the_users_maven_mirror_of_central_is_used(home: Path, monkeypatch: pytest.MonkeyPatch, mirror_of: str) -> None:
    write_settings(home, mirror_of)
    monkeypatch.setenv("SECRET", "s")

    assert repository() == Repository("http://mirror.example/maven", basic("me", "s"))


@pytest.mark.parametrize("mirror_of", ["jcenter", "*,!central"])
def test_a_mirror_of_something_else_is_not_used(home: Path, mirror_of: str) -> None:
    write_settings(home, mirror_of)

    assert repository() == Repository(CENTRAL)


def test_the_environment_takes_precedence_over_the_maven_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(home, "central")
    monkeypatch.setenv("HIVE_INGEST_MAVEN_URL", "https://us%40er:p%2Fw@host.example:8443/repo/")

    assert repository() == Repository("https://host.example:8443/repo", basic("us@er", "p/w"))


def test_a_password_is_in_no_text_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_INGEST_MAVEN_URL", "http://user:secret@127.0.0.1:9/repo")

    assert "secret" not in f"{repository()} {repository()!r}"
    assert basic("user", "secret") not in f"{repository()!r}"


class Origin(BaseHTTPRequestHandler):
    """Knows one file, asks for a password, and is out of order at the first request of each session."""

    failures_left = 1

    def do_GET(self) -> None:
        if self.headers["Authorization"] != basic("me", "s"):
            self.send_error(401)
        elif self.path != "/maven/known.jar":
            self.send_error(404)
        elif type(self).failures_left:
            type(self).failures_left -= 1
            self.send_error(503)
        else:
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"jar!")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def origin() -> Iterator[Repository]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Origin) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield Repository(f"http://127.0.0.1:{server.server_port}/maven", basic("me", "s"))
        server.shutdown()
        thread.join()


def test_java_downloads_existing_files_through_the_relay(origin: Repository) -> None:
    with relay(origin) as address, urllib.request.urlopen(f"{address}/known.jar") as answer:
        assert answer.read() == b"jar!"


def test_java_gets_404_through_the_relay_for_missing_files(origin: Repository) -> None:
    with relay(origin) as address, pytest.raises(urllib.error.HTTPError, match="404") as missing:
        urllib.request.urlopen(f"{address}/unknown.jar")
    missing.value.close()
