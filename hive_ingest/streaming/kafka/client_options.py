"""Options of kafka-python's clients: which are accepted, which are secret, and which contradict each other."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.kafka.secrets import is_reference, read_secret

#: Values of these are shown only where they name a variable or a file.
SECRETS = frozenset({"sasl_plain_password", "ssl_password", "sasl_oauth_token", "sasl_oauth_client_secret"})
#: Additions to kafka-python's options, which has only a provider object for these.
OAUTH_OPTIONS: Mapping[str, None] = MappingProxyType(
    dict.fromkeys(
        (
            "sasl_oauth_token",
            "sasl_oauth_token_endpoint_url",
            "sasl_oauth_client_id",
            "sasl_oauth_client_secret",
            "sasl_oauth_scope",
        )
    )
)
#: Options that the ingest sets itself, and why, or what to use instead.
_NOT_HERE: Mapping[str, str] = MappingProxyType(
    {
        "bootstrap_servers": "it is an argument of its own",
        "group_id": "it is an argument of its own",
        "auto_offset_reset": "it is an argument of its own",
        "isolation_level": "it is an argument of its own",
        "enable_auto_commit": "the positions are in the table, and offsets are committed in Kafka after each commit",
        "auto_commit_interval_ms": "offsets are committed in Kafka after each commit",
        "default_offset_commit_callback": "offsets are committed in Kafka after each commit",
        "key_deserializer": "the record writer parses messages",
        "value_deserializer": "the record writer parses messages",
        "consumer_timeout_ms": "use run(until_end=True) to return at the end of the topics",
        "allow_auto_create_topics": "a topic that is missing is an error",
        "kafka_client": "the ingest has one of its own",
    }
)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class KafkaClientOptions(Mapping[str, Any]):
    """Options for kafka-python's clients, such as `security_protocol` and `fetch_max_bytes`.

    A secret may be `env:NAME` or `file:/path`; it is read when a client is created. `repr` masks all other secrets.
    The options `sasl_oauth_token` (a token) and `sasl_oauth_token_endpoint_url`, `sasl_oauth_client_id`,
    `sasl_oauth_client_secret` and `sasl_oauth_scope` (the client credentials grant) are additions to kafka-python's:
    its own `sasl_oauth_token_provider` takes an object.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Args:
            options: By kafka-python's names.

        Raises:
            ConfigurationError: An unknown option, one that the ingest sets itself, or options that contradict each
                other.
        """
        self._options = dict(options or {})
        _check_names(self._options)
        _check_types(self._options)
        _check_security(self._options)

    def __getitem__(self, name: str) -> Any:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return f"KafkaClientOptions({ {name: _shown(name, value) for name, value in self.items()} })"

    def resolve(self) -> dict[str, Any]:
        """The options for kafka-python, with secrets in clear text: pass them to a client, and keep no copy.

        Raises:
            ConfigurationError: A secret cannot be read.
        """
        found = {
            name: read_secret(name, value) if name in SECRETS and isinstance(value, str) else value
            for name, value in self._options.items()
            if name not in OAUTH_OPTIONS
        }
        if OAUTH_OPTIONS.keys() & self._options.keys():
            from hive_ingest.streaming.kafka.oauth import token_provider

            found["sasl_oauth_token_provider"] = token_provider(self._options)
        return found


def option_defaults() -> dict[str, Any]:
    """The options that are accepted, with kafka-python's defaults.

    Raises:
        ConfigurationError: kafka-python is not installed.
    """
    defaults: Mapping[str, Any] = {**kafka_module().KafkaConsumer.DEFAULT_CONFIG, **OAUTH_OPTIONS}
    return {name: default for name, default in defaults.items() if name not in _NOT_HERE}


def kafka_module() -> Any:
    """The package kafka-python.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import kafka
    except ImportError as error:
        raise ConfigurationError("kafka-python is not installed: pip install 'hive-ingest[kafka]'") from error
    return kafka


def _check_names(options: Mapping[str, Any]) -> None:
    known = option_defaults()
    for name in options:
        if name in _NOT_HERE:
            raise ConfigurationError(f"{name!r} in kafka_options is refused: {_NOT_HERE[name]}")
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            raise ConfigurationError(
                f"{name!r} in kafka_options is not an option of kafka-python's consumer"
                + f"; did you mean {near[0]!r}?" * len(near)
            )


def _check_types(options: Mapping[str, Any]) -> None:
    """kafka-python does not check them: it would fail at some later comparison, with a TypeError."""
    defaults = option_defaults()
    for name, value in options.items():
        default = defaults[name]
        if isinstance(default, bool):
            is_valid, kind = isinstance(value, bool), "true or false"
        elif isinstance(default, int | float):
            is_valid, kind = isinstance(value, int | float) and not isinstance(value, bool), "a number"
        else:
            continue
        if not is_valid:
            raise ConfigurationError(f"{name}={value!r} in kafka_options: give {kind}")
    if options.get("max_poll_records", 1) < 1:
        raise ConfigurationError(f"max_poll_records={options['max_poll_records']} in kafka_options: give at least 1")


def _check_security(options: Mapping[str, Any]) -> None:
    """kafka-python ignores options that do not fit the protocol, and would send everything in clear text."""
    protocol = options.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(f"security_protocol={protocol!r}: give one of {', '.join(_PROTOCOLS)}")
    for prefix, allowed in (("sasl_", ("SASL_PLAINTEXT", "SASL_SSL")), ("ssl_", ("SSL", "SASL_SSL"))):
        given = [name for name in options if name.startswith(prefix)]
        if given and protocol not in allowed:
            raise ConfigurationError(
                f"{given[0]} has no effect with security_protocol={protocol!r}: set that to {' or '.join(allowed)}"
            )
    if protocol.startswith("SASL_"):
        _check_mechanism(options)


def _check_mechanism(options: Mapping[str, Any]) -> None:
    mechanism = options.get("sasl_mechanism")
    if mechanism is None:
        raise ConfigurationError(
            f"security_protocol={options['security_protocol']!r} needs sasl_mechanism, such as 'SCRAM-SHA-512'"
        )
    if mechanism in _PASSWORD_MECHANISMS:
        for name in ("sasl_plain_username", "sasl_plain_password"):
            if not options.get(name):
                raise ConfigurationError(f"sasl_mechanism={mechanism!r} needs {name}")
    if mechanism == "OAUTHBEARER":
        _check_oauth(options)


def _check_oauth(options: Mapping[str, Any]) -> None:
    credentials = ("sasl_oauth_token_endpoint_url", "sasl_oauth_client_id", "sasl_oauth_client_secret")
    ways = [
        name
        for name in ("sasl_oauth_token_provider", "sasl_oauth_token", "sasl_oauth_token_endpoint_url")
        if options.get(name)
    ]
    if len(ways) != 1:
        raise ConfigurationError(
            "sasl_mechanism='OAUTHBEARER' needs exactly one of sasl_oauth_token, sasl_oauth_token_endpoint_url and "
            f"sasl_oauth_token_provider; given: {', '.join(ways) or 'none'}"
        )
    missing = [name for name in credentials if not options.get(name)]
    if ways == [credentials[0]] and missing:
        raise ConfigurationError(f"{credentials[0]} needs {missing[0]}")


def _shown(name: str, value: Any) -> Any:
    is_hidden = name in SECRETS and value is not None and not (isinstance(value, str) and is_reference(value))
    return "***" if is_hidden else value
