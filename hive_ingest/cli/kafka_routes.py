"""A route of `hive-ingest kafka`, before the targets of its bad messages are opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hive_ingest.streaming.kafka import KafkaRoute


@dataclass(frozen=True, slots=True)
class ConfiguredRoute:
    """A route, and where its bad messages go: a local file, a topic, or nowhere."""

    route: KafkaRoute
    bad_records: str | None = None
    dead_letter_topic: str | None = None


@contextmanager
def opened(
    routes: Sequence[ConfiguredRoute], bootstrap_servers: str, kafka_options: Mapping[str, Any]
) -> Iterator[list[KafkaRoute]]:
    """The routes, with the targets of their bad messages, which are closed when the block is left."""
    from hive_ingest.streaming.kafka import DeadLetterFile, DeadLetterTopic

    with ExitStack() as stack:
        found = []
        for each in routes:
            target: DeadLetterFile | DeadLetterTopic | None = None
            if each.bad_records is not None:
                target = stack.enter_context(DeadLetterFile(each.bad_records))
            elif each.dead_letter_topic is not None:
                target = stack.enter_context(
                    DeadLetterTopic(bootstrap_servers, each.dead_letter_topic, kafka_options=kafka_options)
                )
            found.append(dataclasses.replace(each.route, bad_records=target))
        yield found
