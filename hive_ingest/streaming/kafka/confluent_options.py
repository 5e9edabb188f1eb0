"""The options of confluent-kafka's consumer, from those by kafka-python's names."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.kafka.client_options import OAUTH_OPTIONS, KafkaClientOptions, kafka_module

_log = logging.getLogger(__name__)

#: syslog's number.
_LOG_WARNINGS = 4
#: librdkafka's names. Options that are not here are refused, because they would have no effect.
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: name.replace("_", ".")
            for name in (
                *("client_id", "client_rack", "group_instance_id"),
                *("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "metadata_max_age_ms"),
                *("fetch_min_bytes", "fetch_max_bytes", "max_partition_fetch_bytes", "check_crcs", "isolation_level"),
                *("retry_backoff_ms", "reconnect_backoff_ms", "reconnect_backoff_max_ms", "connections_max_idle_ms"),
                *("client_dns_lookup", "receive_message_max_bytes", "security_protocol", "sasl_mechanism"),
                *("sasl_kerberos_service_name", "group_id", "allow_auto_create_topics", "enable_auto_commit"),
            )
        },
        "fetch_max_wait_ms": "fetch.wait.max.ms",
        "request_timeout_ms": "socket.timeout.ms",
        "receive_buffer_bytes": "socket.receive.buffer.bytes",
        "send_buffer_bytes": "socket.send.buffer.bytes",
        "max_in_flight_requests_per_connection": "max.in.flight.requests.per.connection",
        "ssl_cafile": "ssl.ca.location",
        "ssl_certfile": "ssl.certificate.location",
        "ssl_keyfile": "ssl.key.location",
        "ssl_password": "ssl.key.password",
        "ssl_crlfile": "ssl.crl.location",
        "ssl_ciphers": "ssl.cipher.suites",
        "sasl_plain_username": "sasl.username",
        "sasl_plain_password": "sasl.password",
    }
)
#: These have no counterpart in librdkafka, and are used by the ingest itself.
_OWN = ("max_poll_records", "bootstrap_timeout_ms", "ssl_check_hostname", "sasl_oauth_token_provider")
#: librdkafka requests a token again after most of this time; the provider keeps its own as long as it is valid.
_TOKEN_SECONDS = 60.0


def confluent_module() -> Any:
    """The package confluent-kafka.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import confluent_kafka
    except ImportError as error:
        raise ConfigurationError("confluent-kafka is not installed: pip install 'hive-ingest[confluent]'") from error
    return confluent_kafka


def check_confluent_options(options: KafkaClientOptions) -> None:
    """Raises ConfigurationError for an option that confluent-kafka does not have."""
    for name in options:
        if name not in _NAMES and name not in _OWN and name not in OAUTH_OPTIONS:
            raise ConfigurationError(
                f"{name!r} in kafka_options has no counterpart in confluent-kafka: leave it out, or use "
                "client='kafka-python'"
            )


def confluent_config(
    bootstrap_servers: str, options: KafkaClientOptions, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The configuration of a `confluent_kafka.Consumer`, with secrets in clear text: keep no copy of it.

    Args:
        bootstrap_servers: `host:port`, separated by commas.
        options: The user's options.
        settings: The caller's options by kafka-python's names, which take precedence.

    Raises:
        ConfigurationError: A secret cannot be read, or an option does not exist there.
    """
    check_confluent_options(options)
    defaults = kafka_module().KafkaConsumer.DEFAULT_CONFIG
    same = ("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "request_timeout_ms")
    given = {**{name: defaults[name] for name in same}, **options.resolve(), **settings}
    found = {_NAMES[name]: value for name, value in given.items() if name in _NAMES and value is not None}
    found |= {"bootstrap.servers": bootstrap_servers, "logger": _log, "log_level": _LOG_WARNINGS}
    if given.get("ssl_check_hostname") is False:
        found["ssl.endpoint.identification.algorithm"] = "none"
    if (provider := given.get("sasl_oauth_token_provider")) is not None:
        found["oauth_cb"] = _oauth_callback(provider)
    return found


def _oauth_callback(provider: Any) -> Callable[[str], tuple[str, float]]:
    return lambda _: (provider.token(), time.time() + _TOKEN_SECONDS)
