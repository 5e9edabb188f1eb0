"""The transaction of a previous owner ends after the grace, once the group confirms, and in that group only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import LockId, LockInfo, LockState, LockType, TableName, TxnId
from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from hive_ingest.streaming.kafka.takeover import Membership, Takeover, group_tag

TABLE = TableName("web", "events__progress")


class Client:
    """Remembers what is aborted."""

    def __init__(self) -> None:
        self.aborted: list[int] = []

    def abort_txns(self, txn_ids: Sequence[int], *, reason: str) -> None:
        self.aborted += txn_ids


def lock(agent_info: str, *, table: str = TABLE.table, partition: str | None = "source=1234") -> LockInfo:
    return LockInfo(
        LockId(1),
        1,
        "web",
        table,
        partition,
        LockState.ACQUIRED,
        LockType.EXCL_WRITE,
        TxnId(7),
        0,
        0,
        "",
        "",
        agent_info,
    )


def takeover(client: Any, membership: Membership, grace: float = 0.0) -> Takeover:
    return Takeover(client, TABLE, "group", grace, membership, lambda: None)


OURS = f"sink=events owner=host {group_tag('group')}"


def test_it_waits_until_the_group_confirms_and_asks_again_for_the_next() -> None:
    client, membership = Client(), Membership()
    waiting = takeover(client, membership)
    waiting.on_blocked([lock(OURS)])
    assert (client.aborted, membership.is_wanted) == ([], True)
    membership.answer(is_member=False)
    waiting.on_blocked([lock(OURS)])
    assert client.aborted == []
    membership.answer(is_member=True)
    waiting.on_blocked([lock(OURS)])
    assert client.aborted == [7]
    waiting.on_blocked([lock(OURS)])
    assert client.aborted == [7], "one confirmation is for one takeover"


def test_the_grace_is_kept() -> None:
    client, membership = Client(), Membership()
    waiting = takeover(client, membership, grace=3600)
    waiting.on_blocked([lock(OURS)])
    assert (client.aborted, membership.is_wanted) == ([], False)


@pytest.mark.parametrize(
    "other",
    [
        lock(f"sink=events owner=host {group_tag('another group')}"),
        lock("sink=events owner=host"),
        lock(OURS, table="events"),
        lock(OURS, partition=None),
    ],
    ids=["another group", "no group", "another table", "the table itself"],
)
def test_nobody_else_is_interrupted(other: LockInfo) -> None:
    client, membership = Client(), Membership()
    membership.answer(is_member=True)
    takeover(client, membership).on_blocked([other])
    assert client.aborted == []


@pytest.mark.parametrize("seconds", [1.0, 10.0])
def test_a_wait_that_would_end_before_the_takeover_is_refused(seconds: float) -> None:
    """The instance would end with SinkInUse although it may abort the transaction soon."""
    route = KafkaRoute("events", "web.events", StrictJsonWriter())
    with pytest.raises(ConfigurationError, match=rf"lock_wait_seconds={seconds:g} is not longer than takeover_grace"):
        KafkaIngest(
            metastore="sqlite:///none.db",
            bootstrap_servers="broker:9092",
            group_id="g",
            routes=[route],
            settings={"lock_wait_seconds": seconds},
        )
