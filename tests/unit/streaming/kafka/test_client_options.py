"""Options of Kafka's clients: secrets by reference, and what is refused before anything connects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.kafka.client_options import KafkaClientOptions

SCRAM = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "flights",
    "sasl_plain_password": "env:TEST_SECRET",
}
OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}


def test_a_secret_comes_from_the_environment_at_the_time_when_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    options = KafkaClientOptions(SCRAM)
    for secret in ("first", "second"):
        monkeypatch.setenv("TEST_SECRET", secret)
        assert options.resolve() == {**SCRAM, "sasl_plain_password": secret}


@pytest.mark.parametrize(("content", "secret"), [("s3cret", "s3cret"), (" s3 cret\r\n", " s3 cret"), ("a\n\n", "a\n")])
def test_a_secret_comes_from_a_file_without_its_last_line_break(tmp_path: Path, content: str, secret: str) -> None:
    (tmp_path / "password").write_text(content, newline="")
    options = KafkaClientOptions({**SCRAM, "sasl_plain_password": f"file:{tmp_path}/password"})
    assert options.resolve()["sasl_plain_password"] == secret


def test_repr_shows_where_a_secret_is_and_never_the_secret() -> None:
    assert "env:TEST_SECRET" in repr(KafkaClientOptions(SCRAM))
    shown = repr(KafkaClientOptions({**SCRAM, "sasl_plain_password": "hunter2"}))
    assert "hunter2" not in shown
    assert "'sasl_plain_password': '***'" in shown
    assert "flights" in shown


def test_a_secret_that_cannot_be_read_is_an_error_that_names_its_place(tmp_path: Path) -> None:
    for reference, message in (
        ("env:NO_SUCH_SECRET", "no environment variable 'NO_SUCH_SECRET'"),
        (f"file:{tmp_path}/none", "the file cannot be read: No such file or directory"),
        (f"file:{tmp_path}", "the file cannot be read: Is a directory"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(f"sasl_plain_password={reference}: ") + f".*{message}"):
            KafkaClientOptions({**SCRAM, "sasl_plain_password": reference}).resolve()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigurationError, match="sasl_plain_password is empty"):
        KafkaClientOptions({**SCRAM, "sasl_plain_password": f"file:{tmp_path}/empty"}).resolve()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sasl_mechanisms": "PLAIN"}, "not an option of kafka-python's consumer; did you mean 'sasl_mechanism'?"),
        ({"group_id": "g"}, "'group_id' in kafka_options is refused: it is an argument of its own"),
        ({"enable_auto_commit": True}, "refused: the positions are in the table"),
        ({"kafka_client": object}, "refused: the ingest has one of its own"),
        ({"session_timeout_ms": "6000"}, "session_timeout_ms='6000' in kafka_options: give a number"),
        ({"max_poll_records": True}, "max_poll_records=True in kafka_options: give a number"),
        ({"max_poll_records": 0}, "max_poll_records=0 in kafka_options: give at least 1"),
        ({"check_crcs": "false"}, "check_crcs='false' in kafka_options: give true or false"),
        ({"security_protocol": "TLS"}, "security_protocol='TLS': give one of PLAINTEXT, SSL"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism has no effect with security_protocol='PLAINTEXT'"),
        ({"ssl_cafile": "/ca"}, "ssl_cafile has no effect with security_protocol='PLAINTEXT'"),
        (SCRAM | {"security_protocol": "SSL"}, "has no effect with security_protocol='SSL'"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        (SCRAM | {"sasl_plain_password": None}, "needs sasl_plain_password"),
        (OAUTH, "needs exactly one of .* given: none"),
        (OAUTH | {"sasl_oauth_token": "t", "sasl_oauth_token_endpoint_url": "https://x"}, "exactly one of"),
        (OAUTH | {"sasl_oauth_token_endpoint_url": "https://x", "sasl_oauth_client_id": "i"}, "client_secret"),
    ],
)
def test_options_that_would_be_ignored_or_contradict_each_other_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        KafkaClientOptions(options)


def test_a_named_token_is_read_at_each_authentication(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    resolved = KafkaClientOptions({**OAUTH, "sasl_oauth_token": f"file:{file}"}).resolve()
    provider = resolved.pop("sasl_oauth_token_provider")
    assert resolved == OAUTH
    assert provider.token() == "first"
    file.write_text("second\n")
    assert provider.token() == "second"


def test_a_token_endpoint_is_a_url_of_http() -> None:
    credentials = {"sasl_oauth_client_id": "i", "sasl_oauth_client_secret": "s"}
    with pytest.raises(ConfigurationError, match="give an https:// URL"):
        KafkaClientOptions({**OAUTH, **credentials, "sasl_oauth_token_endpoint_url": "file:///etc/passwd"}).resolve()
