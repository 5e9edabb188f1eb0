"""The heartbeat that confirms a transaction as open before anything of it is published."""

from __future__ import annotations

from typing import Any

import pytest

from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.testing import faults
from hive_ingest.transactions import committer
from tests.support.connections import connect
from tests.support.rows import ids
from tests.support.tables import create_table


class CountedHeartbeats:
    """A client whose first heartbeats fail. Its clones, which other threads use, are not counted."""

    def __init__(self, client: MetastoreClient, failures: int = 0) -> None:
        self._client = client
        self._failures = failures
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def heartbeat(self, **of: Any) -> None:
        self.sent += 1
        if self.sent <= self._failures:
            raise MetastoreUnavailable("the metastore is restarting")
        self._client.heartbeat(**of)


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore)
    return metastore


def test_a_commit_sends_one_heartbeat(ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_RECENT_SECONDS", float("inf"))
    client = CountedHeartbeats(ms)
    with connect(client) as conn, conn.transaction():
        conn.write(b'{"id": 1}')
    assert (client.sent, ids(ms)) == (1, [1])


def test_a_heartbeat_is_repeated_where_writing_the_files_took_long(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "_RECENT_SECONDS", -1.0)
    client = CountedHeartbeats(ms)
    before: list[int] = []
    with connect(client) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with faults(observe=lambda point: before.append(client.sent) if point == "after_commit_heartbeat" else None):
            conn.commit_transaction()
    assert (before, ids(ms)) == ([2], [1])


def test_a_heartbeat_that_fails_while_records_are_parsed_is_sent_again(ms: MetastoreClient) -> None:
    client = CountedHeartbeats(ms, failures=2)
    with connect(client) as conn, conn.transaction():
        conn.write(b'{"id": 1}')
    assert (client.sent, ids(ms)) == (3, [1])
