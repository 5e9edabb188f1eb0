"""When the rows of the embedded metastore in SQLite are on the disk."""

from __future__ import annotations

from typing import Any

import pytest

from hive_ingest import StrictJsonWriter
from hive_ingest.compaction import JobSettings, Worker
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded.backends import SqliteBackend
from hive_ingest.model import CompactionType
from hive_ingest.testing import faults
from tests.support.connections import connect
from tests.support.tables import create_table

pytestmark = pytest.mark.only_on(["sqlite"], because="every commit on PostgreSQL and on a real metastore is durable")
LEVEL = "PRAGMA synchronous"
NORMAL, FULL = [(1,)], [(2,)]


def test_each_commit_has_the_durability_that_it_needs(metastore: MetastoreClient) -> None:
    sessions: Any = metastore._context.sessions  # type: ignore[attr-defined]
    for _ in range(2):
        assert sessions.run(lambda session: session.execute_sql(LEVEL), is_durable=False) == NORMAL
        assert sessions.run(lambda session: session.execute_sql(LEVEL)) == FULL
        assert sessions.run(lambda session: session.execute_sql(LEVEL), is_durable=False) == NORMAL
        assert sessions.execute_sql(LEVEL) == FULL


def test_a_failed_call_leaves_no_connection_less_durable(metastore: MetastoreClient) -> None:
    sessions: Any = metastore._context.sessions  # type: ignore[attr-defined]

    def fail(_: object) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        sessions.run(fail, is_durable=False)
    assert sessions.run(lambda session: session.execute_sql(LEVEL)) == FULL


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each commit of the metastore was durable, in order."""
    found: list[bool] = []
    set_durability = SqliteBackend.set_durability

    def record(backend: SqliteBackend, connection: Any, *, is_durable: bool) -> None:
        found.append(is_durable)
        set_durability(backend, connection, is_durable=is_durable)

    monkeypatch.setattr(SqliteBackend, "set_durability", record)
    return found


def test_ids_are_durable_before_a_file_gets_its_visible_name(metastore: MetastoreClient, commits: list[bool]) -> None:
    """Otherwise a power failure could make the write id of a published delta available to another transaction."""
    create_table(metastore)
    before: list[bool] = []
    with connect(metastore, record_writer=StrictJsonWriter()) as conn:
        commits.clear()
        conn.begin_transaction()
        assert commits.count(False) == 3  # the transaction, the write id, the lock
        conn.write(b'{"id": 1}')
        with faults(observe=lambda point: before.extend(commits) if point == "after_commit_heartbeat" else None):
            conn.commit_transaction()
    assert before[-1]


def test_a_compaction_is_durable_before_its_first_byte_and_at_its_commit(
    metastore: MetastoreClient, commits: list[bool]
) -> None:
    """What lies between may be undone by a power failure: the worker has ended with it, and it is done again."""
    table = create_table(metastore)
    for _ in range(2):
        with connect(metastore, record_writer=StrictJsonWriter()) as conn, conn.transaction():
            conn.write(b'{"id": 1}')
    metastore.compact(table.name, compaction_type=CompactionType.MINOR)
    reached: dict[str, list[bool]] = {}

    with faults(observe=lambda point: reached.update({point: list(commits)})):
        Worker(metastore, JobSettings()).run_once()
    assert reached["after_find_next_compact"][-1:] == [False]
    assert reached["after_update_compactor_state"][-2:] == [True, False], "the state, then the job's name"
    assert reached["after_mark_compacted"][-1:] == [False]
    assert commits[len(reached["after_mark_compacted"])], "the commit"


def test_ids_are_durable_before_they_are_shared(metastore: MetastoreClient, commits: list[bool]) -> None:
    """Otherwise a power failure could give them to another transaction, while a writer of the first one lives on."""
    create_table(metastore)
    with connect(metastore, record_writer=StrictJsonWriter()) as conn:
        conn.begin_transaction()
        commits.clear()
        conn.share_transaction()
        assert commits == [True]
        conn.abort_transaction()
