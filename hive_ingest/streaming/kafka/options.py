"""The options of an ingest from Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from hive_ingest.config import MIB, check_options, option


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """When transactions end, how much is kept in memory, and what happens when offsets are lost."""

    max_rows: int = option(500_000, "messages of one transaction", at_least=1)
    max_bytes: int = option(256 * MIB, "bytes of messages of one transaction", at_least=1)
    max_seconds: float = option(10.0, "time from the first message of a transaction to its commit", above=0)
    client: str = option(
        "kafka-python", "the package that reads from Kafka", choices=("kafka-python", "confluent-kafka")
    )
    queue_max_bytes: int = option(
        64 * MIB, "messages that are fetched and not written yet; partitions are paused above it", at_least=1
    )
    auto_offset_reset: str = option(
        "earliest", "where a topic begins for a table without a position in it", choices=("earliest", "latest")
    )
    on_offset_loss: str = option(
        "fail", "what to do when the messages after a position are gone", choices=("fail", "earliest", "latest")
    )
    isolation_level: str = option(
        "read_committed",
        "whether messages of open transactions are read",
        choices=("read_committed", "read_uncommitted"),
    )
    takeover_grace_seconds: float = option(
        10.0, "how long a previous owner of a partition may keep its lock after the group has assigned it", at_least=0
    )
    retry_seconds: float = option(
        600.0, "how long failures of the metastore and of brokers are retried before the ingest ends", at_least=0
    )

    def __post_init__(self) -> None:
        check_options(self)


#: The longest transaction, as a share of the metastore's timeout: a longer one could hardly survive a missed heartbeat.
SHARE_OF_TIMEOUT = 0.5
#: Messages that one poll returns at most. Larger ones are fewer: as many as a share of the queue holds.
MAX_POLL_RECORDS = 12_000
POLLS_IN_QUEUE = 4
#: What is fetched of a partition at once. With the client's own 1 MiB, all is unpacked before the next answer arrives.
MAX_PARTITION_FETCH_BYTES = 4 * MIB
#: How long a poll waits for messages, and so the longest delay before another thread's request is seen.
POLL_SECONDS = 0.1
