"""Topics as confluent-kafka's administrative calls describe them: a consumer does not know their ids."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from typing import Any

from hive_ingest.streaming.kafka.confluent_options import confluent_module

_log = logging.getLogger(__name__)

_CALL_SECONDS = 10.0
#: How often a topic that was deleted and created again is looked for.
_MAX_AGE_SECONDS = 30.0
#: Of a consumer's configuration, what concerns its connections.
_PREFIXES = ("bootstrap.", "client.", "sasl.", "security.", "ssl.", "socket.", "reconnect.", "oauth_cb", "log")


class TopicDescriptions:
    """Has a client of its own. One thread owns it.

    Args:
        config: Of the consumer.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._module = confluent_module()
        self._config = {name: value for name, value in config.items() if name.startswith(_PREFIXES)}
        self._admin: Any = None
        #: Of each topic, when it was looked up, and its id.
        self._ids: dict[str, tuple[float, uuid.UUID | None]] = {}

    def partitions(self, topic: str) -> set[int] | None:
        """The partitions of a topic; None if it does not exist. Raises confluent-kafka's KafkaException."""
        found = self._describe(topic)
        return None if found is None else {each.id for each in found.partitions}

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """The id of a topic, at most half a minute old while the brokers answer."""
        at, known = self._ids.get(topic, (float("-inf"), None))
        if time.monotonic() - at > _MAX_AGE_SECONDS:
            self._ids[topic] = (time.monotonic(), known)
            try:
                self._describe(topic)
            except self._module.KafkaException as error:
                _log.info("the id of topic %r could not be looked up: %s", topic, error)
        return self._ids[topic][1]

    def close(self) -> None:
        """Let go of the client, which ends with its last reference. Idempotent."""
        self._admin = None

    def _describe(self, topic: str) -> Any:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            self._admin = AdminClient(self._config)
        topics = self._module.TopicCollection([topic])
        future = self._admin.describe_topics(topics, request_timeout=_CALL_SECONDS)[topic]
        while not future.done():
            self._admin.poll(0.01)  # calls back for tokens
        try:
            found = future.result()
        except self._module.KafkaException as error:
            if error.args[0].code() != self._module.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            found = None
        self._ids[topic] = (time.monotonic(), None if found is None else _uuid(found.topic_id))
        return found


def _uuid(found: Any) -> uuid.UUID | None:
    if found is None:
        return None
    mask = (1 << 64) - 1
    high, low = found.get_most_significant_bits() & mask, found.get_least_significant_bits() & mask
    return uuid.UUID(int=high << 64 | low)
