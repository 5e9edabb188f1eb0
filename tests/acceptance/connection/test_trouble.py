"""A full disk and a metastore that goes away: nothing half-visible, a clear error, and the next transaction works."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.connection import TransactionState
from hive_ingest.errors import MetastoreUnavailable, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.storage import Location, OutputFile
from hive_ingest.testing import AnswerLost
from tests.services.kinds import Address
from tests.support.connections import connect
from tests.support.metastores import connect_in
from tests.support.tables import create_table, files_of

ROWS = b"\n".join(b'{"id": %d, "part": "p%d"}' % (i, i % 5) for i in range(1000))
#: Every call of the metastore that a transaction makes after its begin, and what is left if its response is lost.
CALLS_OF_A_COMMIT = ["get_partitions_by_names", "add_partitions", "add_dynamic_partitions"]
TXN_TIMEOUT_SECONDS = 5.0
CALLS_OF_BEGIN = ["open_txns", "allocate_table_write_ids", "lock", "get_valid_write_ids"]


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore, partition_keys={"part": "string"})
    return metastore


def count(client: MetastoreClient) -> int:
    return int(hi.read_table(client, "web.t").num_rows)


def type_of_output(client: MetastoreClient) -> type[OutputFile]:
    """The class of the files that are written to the table's store."""
    probe = Location.of(client.get_table("web.t").location) / "probe"
    with probe.create(sync=False) as out:
        pass
    probe.delete_file()
    return type(out)


@pytest.mark.parametrize("written_before", [0, 1, 3, 5])
def test_a_full_disk_fails_the_transaction_and_the_next_one_works(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch, written_before: int
) -> None:
    kind = type_of_output(ms)
    real, left = kind.write, [written_before]

    def write(self: OutputFile, data: Any) -> int:
        if left[0] <= 0:
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            raise StreamingIOFailure(f"cannot write {self.path!r}: the disk is full") from full
        left[0] -= 1
        return real(self, data)

    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(ROWS)
        with monkeypatch.context() as patch:
            patch.setattr(kind, "write", write)
            patch.setattr(kind, "write_all", lambda self, parts: [self.write(part) for part in parts])
            with pytest.raises(StreamingIOFailure, match="the disk is full"):
                conn.commit_transaction()
        assert conn.state is TransactionState.FAILED
        conn.abort_transaction()
        assert files_of(ms) == []
        with conn.transaction():
            conn.write(ROWS)
    assert count(ms) == 1000


@pytest.mark.parametrize("call", CALLS_OF_A_COMMIT)
def test_a_metastore_lost_during_a_commit_fails_it_and_the_next_one_works(ms: MetastoreClient, call: str) -> None:
    lossy = AnswerLost(ms, {call: 1})
    with connect(lossy) as conn:
        conn.begin_transaction()
        conn.write(ROWS)
        with pytest.raises(MetastoreUnavailable, match=call):
            conn.commit_transaction()
        assert lossy.calls[call] == 1, f"{call} was never called"
        assert conn.state is TransactionState.FAILED
        conn.abort_transaction()
        assert count(ms) == 0
        assert files_of(ms) == []
        with conn.transaction():
            conn.write(ROWS)
    assert count(ms) == 1000


def test_heartbeats_lost_during_a_commit_for_less_than_half_the_timeout_cost_nothing(ms: MetastoreClient) -> None:
    lossy = AnswerLost(ms, {"heartbeat": 3})
    with connect(lossy) as conn, conn.transaction():
        conn.write(ROWS)
    assert lossy.calls["heartbeat"] == 4
    assert count(ms) == 1000


def test_heartbeats_lost_during_a_commit_for_longer_fail_it_before_anything_is_published(
    metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    address = metastore_timing_out(TXN_TIMEOUT_SECONDS)
    with connect_in(tmp_path, address.uri, **address.options) as ms:
        ms.create_database("web")
        ms.create_table("web.t", columns={"id": "int"}, partition_keys={"part": "string"})
        with connect(AnswerLost(ms, {"heartbeat": 1000, "heartbeat_txn_range": 1000})) as conn:
            conn.begin_transaction()
            conn.write(ROWS)
            with pytest.raises(MetastoreUnavailable, match="heartbeat"):
                conn.commit_transaction()
            conn.abort_transaction()
        assert count(ms) == 0
        assert files_of(ms) == []


@pytest.mark.parametrize("call", CALLS_OF_BEGIN)
def test_a_metastore_lost_during_begin_leaves_no_lock_and_the_next_begin_works(ms: MetastoreClient, call: str) -> None:
    lossy = AnswerLost(ms, {call: 1})
    with connect(lossy) as conn:
        with pytest.raises(MetastoreUnavailable, match=call):
            conn.begin_transaction()
        assert ms.show_locks() == []
        with conn.transaction():
            conn.write(ROWS)
    assert count(ms) == 1000
