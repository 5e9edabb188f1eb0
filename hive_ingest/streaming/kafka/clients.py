"""Creates kafka-python's clients from one set of options. Their errors say what is wrong; no log contains a secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hive_ingest.errors import ConfigurationError, StreamingConnectionError
from hive_ingest.streaming.kafka.client_options import SECRETS, KafkaClientOptions, kafka_module

_BOOTSTRAP_LOGGER = "kafka.net.manager"


def new_consumer(
    bootstrap_servers: str | Sequence[str], options: KafkaClientOptions, settings: Mapping[str, Any]
) -> Any:
    """A `kafka.KafkaConsumer`.

    Args:
        bootstrap_servers: `host:port`, one or more.
        options: The user's options.
        settings: The caller's options, which take precedence.

    Raises:
        ConfigurationError: A secret cannot be read, or kafka-python refuses the options.
        StreamingConnectionError: No broker could be reached, or none accepted the client.
    """
    return _new_client(kafka_module().KafkaConsumer, bootstrap_servers, options, settings)


def new_producer(
    bootstrap_servers: str | Sequence[str], options: KafkaClientOptions, settings: Mapping[str, Any]
) -> Any:
    """A `kafka.KafkaProducer`; options that it does not have are left out. Raises what `new_consumer` raises."""
    return _new_client(kafka_module().KafkaProducer, bootstrap_servers, options, settings)


def new_admin_client(bootstrap_servers: str | Sequence[str], options: KafkaClientOptions) -> Any:
    """A `kafka.KafkaAdminClient`; options that it does not have are left out. Raises what `new_consumer` raises."""
    return _new_client(kafka_module().KafkaAdminClient, bootstrap_servers, options, {})


def check_topic(bootstrap_servers: str | Sequence[str], options: KafkaClientOptions, topic: str, what: str) -> None:
    """Look a topic up by a client of its own. A producer would wait for a missing one until its timeout.

    Args:
        bootstrap_servers: `host:port`, one or more.
        options: The user's options.
        topic: The topic.
        what: What it is for the user, for the message.

    Raises:
        ConfigurationError: The topic does not exist; and what `new_consumer` raises.
        kafka.errors.KafkaError: The brokers did not answer.
    """
    settings = {"group_id": None, "enable_auto_commit": False, "allow_auto_create_topics": False}
    consumer = new_consumer(bootstrap_servers, options, settings)
    try:
        is_there = bool(consumer.partitions_for_topic(topic))
    finally:
        consumer.close(autocommit=False)
    if not is_there:
        raise missing_topic(what, topic)


def missing_topic(what: str, topic: str) -> ConfigurationError:
    """The error for a topic that does not exist, or that the client may not describe."""
    return ConfigurationError(
        f"{what} {topic!r} does not exist, or this user may not describe it: correct its name, or create it, for "
        f"example by kafka-topics.sh --create --topic {topic}"
    )


def _new_client(
    client: Any, bootstrap_servers: str | Sequence[str], options: KafkaClientOptions, settings: Mapping[str, Any]
) -> Any:
    from kafka.errors import KafkaConfigurationError, KafkaError

    known = {name: value for name, value in options.resolve().items() if name in client.DEFAULT_CONFIG}
    _keep_secrets_out_of_logs()
    networks: list[Any] = []

    def new_network(**config: Any) -> Any:
        # A step of its event loop may wait for the interpreter while routes parse. Its warning about that is of no use.
        networks.append(client.DEFAULT_CONFIG["kafka_client"](**{**config, "slow_task_threshold_secs": 0}))
        return networks[-1]

    own = {"bootstrap_servers": bootstrap_servers, "kafka_client": new_network}
    with _failed_attempts() as failures:
        try:
            return client(**{**known, **settings, **own})
        except KafkaConfigurationError as error:
            raise ConfigurationError(f"kafka_options: {error}") from error
        except (KafkaError, OSError) as error:
            _close(networks)
            servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
            raise StreamingConnectionError(
                f"no connection to Kafka at {servers}: {_reason([*failures, error])}. Check bootstrap_servers, "
                "security_protocol and the credentials"
            ) from error


def _close(networks: Sequence[Any]) -> None:
    """Close the thread and the sockets of a client whose constructor failed: kafka-python leaves them open."""
    for network in networks:
        network.close()


def _reason(failures: Sequence[Exception]) -> str:
    """The distinct failures; timeouts only if there is nothing else."""
    from kafka.errors import KafkaTimeoutError, RequestTimedOutError

    texts = dict.fromkeys(_text(error) for error in failures if not isinstance(error, KafkaTimeoutError))
    causes = dict.fromkeys(
        _text(error) for error in failures if not isinstance(error, KafkaTimeoutError | RequestTimedOutError)
    )
    return "; ".join([*(causes or texts)][:3]) or "no broker answered in time"


def _text(error: Exception) -> str:
    """The message without the name and number that kafka-python's errors begin with."""
    text = str(error.args[0]) if len(error.args) == 1 else str(error)
    if text == "socket disconnected":
        return "the broker closed the connection, as it does with clients that it does not accept"
    return text


@contextmanager
def _failed_attempts() -> Iterator[list[Exception]]:
    """Collects why connections fail: kafka-python only logs that, and finally raises a timeout."""
    handler = _Failures()
    logger = logging.getLogger(_BOOTSTRAP_LOGGER)
    logger.addHandler(handler)
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)


class _Failures(logging.Handler):
    """Collects the errors that warnings about connections contain."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[Exception] = []

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        self.found.extend(argument for argument in arguments if isinstance(argument, Exception))


def _keep_secrets_out_of_logs() -> None:
    """Mask secrets in kafka-python's logs: at DEBUG it logs a client's options and all requests, SASL's included."""
    # A logger's filter does not apply to the loggers below it.
    for name in [*logging.root.manager.loggerDict]:
        if name.startswith("kafka."):
            logging.getLogger(name).addFilter(_without_secrets)  # adds it once


def _without_secrets(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(_masked(argument) for argument in record.args)
    elif isinstance(record.args, Mapping):
        record.args = _masked(record.args)
    return True


def _masked(argument: Any) -> Any:
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest

    if isinstance(argument, SaslAuthenticateRequest | SaslBytesRequest):
        return type(argument).__name__
    if isinstance(argument, bytes | bytearray | memoryview):
        return f"{len(argument)} bytes"
    if isinstance(argument, Mapping):
        return {name: "***" if name in SECRETS and value else value for name, value in argument.items()}
    return argument
