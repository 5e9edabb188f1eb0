"""The statistics of a running ingest from Kafka. Imports no Kafka client, because metrics and the terminal use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaPartitionStats:
    """A topic partition that is assigned to this instance.

    Attributes:
        topic: The topic.
        partition: Its partition.
        table: The table of its route, as `database.table`.
        position: The offset after the last message that is committed in the table; before the first commit, the offset
            where this instance started. None until it has been read.
        log_end: The offset that the next message will have, as the last fetch reported it. None before the first.
        is_paused: Whether fetching is paused because the queue is full.
    """

    topic: str
    partition: int
    table: str
    position: int | None
    log_end: int | None
    is_paused: bool = False

    @property
    def lag(self) -> int | None:
        """Offsets that are not committed in the table yet; None while that is not known.

        With transactional producers this includes their markers, which are not messages.
        """
        if self.position is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.position)


@dataclass(frozen=True, slots=True)
class KafkaRouteStats:
    """A topic and the table that it is written to. Counts are since the start of `run` and cover commits only.

    Attributes:
        topic: The topic.
        table: The table, as `database.table`.
        sink: The name under which positions are kept.
        rows: Rows committed.
        file_bytes: Size of the ORC files committed.
        commits: Transactions committed.
        aborts: Transactions aborted, for example because a partition was revoked.
        bad_messages: Messages that were skipped, or sent to the dead letters.
        last_commit_seconds: How long the last commit took.
        last_commit_at: When it ended, in seconds since 1970.
        heartbeat_age_seconds: Age of the last heartbeat that the metastore answered, while a transaction is open.
    """

    topic: str
    table: str
    sink: str
    rows: int = 0
    file_bytes: int = 0
    commits: int = 0
    aborts: int = 0
    bad_messages: int = 0
    last_commit_seconds: float | None = None
    last_commit_at: float | None = None
    heartbeat_age_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class KafkaIngestStats:
    """A snapshot of a `KafkaIngest`. Its `stats` may be read from any thread.

    Attributes:
        group_id: The consumer group.
        is_running: Whether `run` is consuming.
        partitions: The topic partitions assigned now, by topic and partition.
        routes: All routes, in their order.
        queue_bytes: Size of the messages that are fetched and not written yet.
        queue_max_bytes: The size at which partitions are paused.
        poll_age_seconds: Time since the consumer's last poll. None before the first.
        max_poll_interval_seconds: The group expels an instance that does not poll for this long.
        rebalances: Changes of the assignment since the start.
    """

    group_id: str
    is_running: bool
    partitions: tuple[KafkaPartitionStats, ...]
    routes: tuple[KafkaRouteStats, ...]
    queue_bytes: int = 0
    queue_max_bytes: int = 0
    poll_age_seconds: float | None = None
    max_poll_interval_seconds: float | None = None
    rebalances: int = 0

    @property
    def lag(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.routes)

    @property
    def commits(self) -> int:
        return sum(each.commits for each in self.routes)

    @property
    def bad_messages(self) -> int:
        return sum(each.bad_messages for each in self.routes)
