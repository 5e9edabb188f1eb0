"""Brokers that ask for TLS, a password or a token, and secrets that appear nowhere."""

from __future__ import annotations

import base64
import http.server
import json
import logging
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.errors import StreamingConnectionError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.kafka.client_options import KafkaClientOptions
from hive_ingest.streaming.kafka.clients import new_admin_client, new_consumer, new_producer
from tests.acceptance.cli.shell import Shell
from tests.services.kafka import running_broker
from tests.services.kafka_security import BrokerSecurity


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerSecurity]:
    """Of a running broker."""
    found = BrokerSecurity(tmp_path_factory.mktemp("security"))
    with running_broker(tmp_path_factory.mktemp("secured-kafka"), found):
        yield found


def tls(security: BrokerSecurity) -> dict[str, Any]:
    return {"security_protocol": "SASL_SSL", "ssl_cafile": str(security.folder / "ca.pem")}


def client_certificate(security: BrokerSecurity) -> dict[str, Any]:
    return {
        "security_protocol": "SSL",
        "ssl_cafile": str(security.folder / "ca.pem"),
        "ssl_certfile": str(security.folder / "client.pem"),
        "ssl_keyfile": str(security.folder / "client.key"),
        "ssl_password": "env:TEST_KAFKA_SECRET",
    }


def password(security: BrokerSecurity, mechanism: str = "PLAIN") -> dict[str, Any]:
    user = {"sasl_plain_username": security.user, "sasl_plain_password": "env:TEST_KAFKA_SECRET"}
    return {**tls(security), "sasl_mechanism": mechanism, **user}


def scram(security: BrokerSecurity) -> dict[str, Any]:
    return password(security, "SCRAM-SHA-512")


def token(security: BrokerSecurity) -> dict[str, Any]:
    return {**tls(security), "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": "env:TEST_KAFKA_SECRET"}


LISTENERS: Mapping[str, Callable[[BrokerSecurity], dict[str, Any]]] = {
    "TLS": client_certificate,
    "PLAIN": password,
    "SCRAM": scram,
    "OAUTH": token,
}


@pytest.mark.parametrize("listener", LISTENERS)
def test_messages_pass_through_a_secured_listener_and_no_log_has_the_secret(
    security: BrokerSecurity, listener: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = security.token() if listener == "OAUTH" else security.password
    monkeypatch.setenv("TEST_KAFKA_SECRET", secret)
    options = KafkaClientOptions(LISTENERS[listener](security))
    with caplog.at_level(logging.DEBUG):
        assert round_trip(security.bootstrap_servers(listener), options, f"of-{listener.lower()}") == b"hello"
    assert "Request 1: ApiVersionsRequest" in caplog.text, "requests are not logged: the test tests nothing"
    assert secret not in caplog.text
    assert secret not in repr(options)


def round_trip(servers: str, options: KafkaClientOptions, topic: str) -> bytes:
    from kafka import TopicPartition
    from kafka.admin import NewTopic

    admin = new_admin_client(servers, options)
    admin.create_topics([NewTopic(topic, 1, replication_factor=1)])
    admin.close()
    producer = new_producer(servers, options, {})
    producer.send(topic, b"hello").get(timeout=60)
    producer.close()
    consumer = new_consumer(servers, options, {"auto_offset_reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0)])
    found: bytes = next(consumer).value
    consumer.close()
    return found


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_client_that_is_refused_is_an_error_that_says_why_without_the_secret(
    security: BrokerSecurity, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = security.token(seconds=-3000) if listener == "OAUTH" else "not the password"
    monkeypatch.setenv("TEST_KAFKA_SECRET", secret)
    options = LISTENERS[listener](security)
    if listener == "TLS":
        options.pop("ssl_certfile"), options.pop("ssl_keyfile"), options.pop("ssl_password")
    # kafka-python may lose the broker's response when the connection is closed right after it.
    reason = re.compile("(?i)authentication ?failed|certificate|closed the connection")
    message = refusal(security, listener, options, reason)
    assert reason.search(message), message
    assert secret not in message


def refusal(security: BrokerSecurity, listener: str, options: dict[str, Any], reason: re.Pattern[str]) -> str:
    """Why no consumer can be made. A slow broker gets more time to say so."""
    for milliseconds in (1_000, 10_000, 60_000):
        given = KafkaClientOptions({**options, "bootstrap_timeout_ms": milliseconds})
        with pytest.raises(StreamingConnectionError) as caught:
            new_consumer(security.bootstrap_servers(listener), given, {})
        if reason.search(str(caught.value)):
            break
    return str(caught.value)


@pytest.mark.one_embedded
def test_the_command_reads_a_secret_from_the_environment(
    security: BrokerSecurity,
    metastore: MetastoreClient,
    metastore_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEST_KAFKA_SECRET", security.password)
    monkeypatch.setenv("HIVE_INGEST_METASTORE", metastore_uri)
    servers, options = security.bootstrap_servers("SCRAM"), scram(security)
    metastore.create_database("web")
    metastore.create_table("web.words", columns={"word": "string"})
    assert round_trip(servers, KafkaClientOptions(options), "by-command") == b"hello"
    where = ("--bootstrap-servers", servers, "--group-id", "secured", "--topic", "by-command", "--table", "web.words")
    flags = [part for name, value in options.items() for part in ("--kafka-option", f"{name}={value}")]
    shell = Shell(monkeypatch, capsys)
    shell.done("kafka", *where, "--format", "delimited", "--until-end", *flags)
    assert hi.read_table(metastore, "web.words").to_pylist() == [{"word": "hello"}]


def test_a_broker_with_another_certificate_is_refused(security: BrokerSecurity, tmp_path: Path) -> None:
    other = BrokerSecurity(tmp_path / "other")
    options = {**client_certificate(security), "ssl_cafile": str(other.folder / "ca.pem")}
    options["ssl_password"] = security.password
    reason = "CERTIFICATE_VERIFY_FAILED"
    assert reason in refusal(security, "TLS", options, re.compile(reason))


def test_a_token_comes_from_an_authorization_server_and_serves_several_connections(
    security: BrokerSecurity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_CLIENT_SECRET", "s3cret/of:client")
    with authorization_server(security) as (url, requests):
        options = KafkaClientOptions(
            {
                **tls(security),
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_endpoint_url": url,
                "sasl_oauth_client_id": "ingest",
                "sasl_oauth_client_secret": "env:TEST_CLIENT_SECRET",
                "sasl_oauth_scope": "kafka",
            }
        )
        assert round_trip(security.bootstrap_servers("OAUTH"), options, "of-a-server") == b"hello"
    assert requests == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}] * 3, "one for each client"


@contextmanager
def authorization_server(security: BrokerSecurity) -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """Gives tokens to the client `ingest`; and what it was asked."""
    expected = "Basic " + base64.b64encode(b"ingest:s3cret%2Fof%3Aclient").decode()
    requests: list[dict[str, list[str]]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            requests.append(urllib.parse.parse_qs(body))
            is_known = self.headers["Authorization"] == expected
            self.send_response(200 if is_known else 401)
            self.end_headers()
            answer = {"access_token": security.token(), "token_type": "Bearer", "expires_in": 3600}
            self.wfile.write(json.dumps(answer if is_known else {"error": "invalid_client"}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Not to stderr."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token", requests
        finally:
            server.shutdown()
            thread.join()
