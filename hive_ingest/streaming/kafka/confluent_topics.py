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
        #: Of each topic, when it was looked up last, and what was found.
        self._looked_up: dict[str, float] = {}
        self._ids: dict[str, uuid.UUID | None] = {}
        self._partitions: dict[str, set[int]] = {}

    def partitions(self, topic: str) -> set[int] | None:
        """The partitions of a topic, as of now; None if it does not exist. Raises confluent-kafka's KafkaException."""
        self._describe(topic)
        return self._partitions.get(topic)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The same, at most half a minute old while the brokers answer."""
        self._refresh(topic)
        return self._partitions.get(topic)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """The id of a topic, at most half a minute old while the brokers answer."""
        self._refresh(topic)
        return self._ids.get(topic)

    def _refresh(self, topic: str) -> None:
        if time.monotonic() - self._looked_up.get(topic, float("-inf")) <= _MAX_AGE_SECONDS:
            return
        self._looked_up[topic] = time.monotonic()
        try:
            self._describe(topic)
        except self._module.KafkaException as error:
            _log.info("topic %r could not be looked up: %s", topic, error)

    def close(self) -> None:
        """Let go of the client, which ends with its last reference. Idempotent."""
        self._admin = None

    def _describe(self, topic: str) -> None:
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
        self._looked_up[topic] = time.monotonic()
        if found is None:
            self._ids.pop(topic, None)
            self._partitions.pop(topic, None)
        else:
            self._ids[topic] = _uuid(found.topic_id)
            self._partitions[topic] = {each.id for each in found.partitions}


def _uuid(found: Any) -> uuid.UUID | None:
    if found is None:
        return None
    mask = (1 << 64) - 1
    high, low = found.get_most_significant_bits() & mask, found.get_least_significant_bits() & mask
    return uuid.UUID(int=high << 64 | low)
