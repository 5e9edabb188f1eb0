"""A connection that waits for a lock tells who is in the way, and goes on when its own request was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import LockInfo, TxnId

SINK, SOURCE = "events", "numbers"


def connect(
    metastore: MetastoreClient, on_blocked: Callable[[list[LockInfo]], None] | None = None
) -> hi.StreamingConnection:
    return hi.StreamingConnection.connect(
        metastore,
        table="web.events",
        record_writer=hi.StrictJsonWriter(),
        sink=SINK,
        sources=[SOURCE],
        on_blocked=on_blocked,
    )


@contextmanager
def held(metastore: MetastoreClient) -> Iterator[hi.StreamingConnection]:
    """Another connection has the source."""
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "int"})
    with connect(metastore) as holder:
        holder.begin_transaction()
        yield holder


def test_the_callback_gets_the_lock_holders_and_may_abort_them(metastore: MetastoreClient) -> None:
    found: list[list[LockInfo]] = []

    with held(metastore) as holder:
        holders_id = holder.txn_id

        def on_blocked(blockers: list[LockInfo]) -> None:
            found.append(blockers)
            metastore.abort_txns([lock.txn_id for lock in blockers], reason="in the way")

        with connect(metastore, on_blocked) as waiting:
            waiting.begin_transaction()
            waiting.write(b'{"id": 1}')
            waiting.commit_transaction(positions={SOURCE: 1})
        assert {lock.txn_id for lock in found[0]} == {holders_id}
        with pytest.raises(hi.TxnAborted, match="in the way"):
            holder.commit_transaction(positions={SOURCE: 1})


def test_an_error_of_the_callback_ends_the_wait_and_leaves_no_lock(metastore: MetastoreClient) -> None:
    class GaveUp(Exception):
        pass

    def on_blocked(blockers: list[LockInfo]) -> None:
        raise GaveUp

    with held(metastore) as holder:
        with connect(metastore, on_blocked) as waiting, pytest.raises(GaveUp):
            waiting.begin_transaction()
        assert {lock.txn_id for lock in metastore.show_locks()} == {holder.txn_id}


def test_a_transaction_that_times_out_while_it_waits_is_begun_again(metastore: MetastoreClient) -> None:
    """As when the machine sleeps, or an operator aborts it."""
    aborted: list[TxnId] = []

    with held(metastore) as holder:

        def on_blocked(blockers: list[LockInfo]) -> None:
            waiting_ids = {lock.txn_id for lock in metastore.show_locks()} - {holder.txn_id}
            if not aborted:
                aborted.extend(TxnId(each) for each in waiting_ids if each is not None)
                metastore.abort_txns(aborted, reason="timed out")
            else:
                holder.abort_transaction()

        with connect(metastore, on_blocked) as waiting:
            waiting.begin_transaction()
            assert waiting.txn_id not in aborted
            waiting.abort_transaction()
    assert len(aborted) == 1
