"""Schemas from a registry over HTTP: what it knows, what it does not, and what it does not answer."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, SchemaRegistryUnavailable
from hive_ingest.record_writer import BadValue
from hive_ingest.streaming.kafka import SchemaRegistry


class Server:
    """Answers GET requests: `answers` maps a path to a status and a body."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.requests: list[tuple[str, str | None]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append((self.path, self.headers["Authorization"]))
                status, body = server.answers.get(self.path, (404, {"error_code": 40403, "message": "not found"}))
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def nobody(server: Server) -> str:
    """The URL of a port at which nobody listens."""
    other = Server()
    other.close()
    return other.url


SCHEMA = json.dumps({"type": "record", "name": "R", "fields": []})


def test_a_schema_is_looked_up_once(server: Server) -> None:
    server.answers["/schemas/ids/7"] = (200, {"schema": SCHEMA})
    registry = SchemaRegistry(f"{server.url}/")
    assert [registry.avro_schema(7) for _ in range(3)] == [(SCHEMA,)] * 3
    assert server.requests == [("/schemas/ids/7", None)]


def test_schemas_that_it_refers_to_come_first_and_once(server: Server) -> None:
    city, street = (
        {"subject": "geo/city", "version": 2, "name": "City"},
        {"subject": "street", "version": 1, "name": "S"},
    )
    server.answers["/schemas/ids/7"] = (200, {"schema": "main", "references": [street, city]})
    server.answers["/subjects/street/versions/1"] = (200, {"schema": "street", "references": [city]})
    server.answers["/subjects/geo%2Fcity/versions/2"] = (200, {"schema": "city"})
    assert SchemaRegistry(server.url).avro_schema(7) == ("city", "street", "main")


def test_an_unknown_id_makes_the_record_bad_and_is_looked_up_again_later(server: Server) -> None:
    now = [100.0]
    registry = SchemaRegistry(server.url, clock=lambda: now[0])
    for _ in range(3):
        with pytest.raises(BadValue, match="schema id 7 is unknown in the schema registry"):
            registry.avro_schema(7)
    assert len(server.requests) == 1
    server.answers["/schemas/ids/7"] = (200, {"schema": SCHEMA})
    now[0] += 31
    assert registry.avro_schema(7) == (SCHEMA,)


def test_a_schema_of_another_kind_makes_the_record_bad(server: Server) -> None:
    server.answers["/schemas/ids/7"] = (200, {"schema": "syntax …", "schemaType": "PROTOBUF"})
    with pytest.raises(BadValue, match="schema id 7 is PROTOBUF, not Avro"):
        SchemaRegistry(server.url).avro_schema(7)


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, {"error_code": 50001}, "HTTP 500"),
        (404, b"<html>nginx</html>", "HTTP 404"),
        (404, {"status": 404}, "HTTP 404"),
        (302, b"", "HTTP 302"),
        (200, b"<html>", "Expecting value"),
        (200, {"hello": 1}, "not that of a schema registry"),
        (200, [1], "not that of a schema registry"),
    ],
)
def test_an_answer_that_is_not_valid_is_an_error_and_not_cached(
    server: Server, status: int, body: Any, why: str
) -> None:
    server.answers["/schemas/ids/7"] = (status, body)
    registry = SchemaRegistry(server.url)
    with pytest.raises(SchemaRegistryUnavailable, match=f"schema id 7 could not be looked up .*127.0.0.1.*{why}"):
        registry.avro_schema(7)
    server.answers["/schemas/ids/7"] = (200, {"schema": SCHEMA})
    assert registry.avro_schema(7) == (SCHEMA,)


@pytest.mark.parametrize(
    "answer", [(200, {"schema": SCHEMA}), (404, {"error_code": 40403}), (403, {"error_code": 40301})]
)
def test_a_registry_that_answers_passes_the_check(server: Server, answer: tuple[int, Any]) -> None:
    """Whether or not it has the schema that is asked for, or lets this user read it."""
    server.answers["/schemas/ids/1"] = answer
    SchemaRegistry(server.url).check()


def test_a_url_that_is_not_that_of_a_registry_fails_the_check(server: Server, nobody: str) -> None:
    server.answers["/wrong/schemas/ids/1"] = (404, b"<html>nginx</html>")
    for url, why in ((f"{server.url}/wrong", "HTTP 404"), (nobody, "refused")):
        with pytest.raises(SchemaRegistryUnavailable, match=f"{url}: .*{why}.*Check the URL"):
            SchemaRegistry(url).check()
    server.answers["/schemas/ids/1"] = (401, {"error_code": 401})
    with pytest.raises(ConfigurationError, match="refused the credentials"):
        SchemaRegistry(server.url, username="u", password="p").check()


def test_servers_are_asked_in_turn(server: Server, nobody: str) -> None:
    server.answers["/schemas/ids/7"] = (200, {"schema": SCHEMA})
    assert SchemaRegistry([nobody, server.url]).avro_schema(7) == (SCHEMA,)
    with pytest.raises(SchemaRegistryUnavailable, match=f"{nobody}: .*refused"):
        SchemaRegistry(nobody).avro_schema(7)


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_an_error_of_their_own(server: Server, status: int) -> None:
    server.answers["/schemas/ids/7"] = (status, {"error_code": status})
    with pytest.raises(ConfigurationError, match=rf"refused the credentials \(HTTP {status}\): check username"):
        SchemaRegistry(server.url).avro_schema(7)


def test_credentials_are_sent_and_not_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "pä:ss")
    server.answers["/schemas/ids/7"] = (200, {"schema": SCHEMA})
    registry = SchemaRegistry(server.url, username="me", password="env:REGISTRY_PASSWORD")
    registry.avro_schema(7)
    assert server.requests[-1][1] == "Basic " + base64.b64encode("me:pä:ss".encode()).decode()
    assert repr(registry) == f"SchemaRegistry(['{server.url}'], username='me', password='env:REGISTRY_PASSWORD')"
    registry = SchemaRegistry(server.url, token="secret")
    registry.avro_schema(7)
    assert server.requests[-1][1] == "Bearer secret"
    assert "secret" not in repr(registry)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "registry:8081"}, "'registry:8081' is not the URL of a schema registry"),
        ({"url": "file:///etc/passwd"}, "is not the URL of a schema registry"),
        ({"url": []}, r"url=\[\] is empty"),
        ({"url": "http://me:secret@host"}, "at host contains a username: pass username="),
        ({"url": "http://host", "username": "me"}, "needs both username and password"),
        ({"url": "http://host", "username": "me", "password": "x", "token": "y"}, "not both"),
        ({"url": "https://host", "ca_file": "/missing.pem"}, "ca_file='/missing.pem' cannot be used"),
    ],
)
def test_options_that_are_not_valid_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        SchemaRegistry(**options)
    assert "secret" not in str(caught.value)
