"""A commit has three outcomes, and an overwrite loses no committed row."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.acid.names import BaseName
from hive_ingest.connection import JoinedTransaction, StreamingConnection, TransactionState
from hive_ingest.errors import CommitOutcomeUnknown, MetastoreError, NoSuchTxn, TxnAborted
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    TableName,
    WriteId,
)
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.storage import Location
from hive_ingest.testing import AnswerLost, CrashPoint, FaultError, faults
from tests.support import connections
from tests.support.metastores import connect_in
from tests.support.rows import ids, rows
from tests.support.tables import create_table, table_folder

FORTY_EIGHT_HOURS = 48 * 3600.0


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore)
    create_table(metastore, "p", partition_keys={"part": "string"})
    return metastore


def connect(client: Any, table: str = "t", **options: Any) -> StreamingConnection:
    settings = {"commit_retry_seconds": 1.0, "lock_wait_seconds": 20.0}
    return connections.connect(client, table, settings=settings, **options)


# -- a lost answer -------------------------------------------------------------------------------------


def test_a_commit_whose_response_was_lost_is_looked_up_again(ms: MetastoreClient) -> None:
    lossy = AnswerLost(ms, {"commit_txn": 2})
    with connect(lossy) as conn:
        with conn.transaction():
            conn.write(b'{"id": 1}')
        assert conn.state is TransactionState.COMMITTED
    assert lossy.calls["commit_txn"] == 3
    assert ids(ms) == [1]


def test_progress_decides_when_the_metastore_has_forgotten_the_commit(
    ms: MetastoreClient, metastore_uri: str, forget_commits: Callable[[str], None]
) -> None:
    lossy = AnswerLost(ms, {"commit_txn": 1}, after=lambda: forget_commits(metastore_uri))
    with connect(lossy, sink="s", sources=["a"]) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        conn.commit_transaction(positions={"a": 1})
        assert conn.state is TransactionState.COMMITTED
    assert ids(ms) == [1]


def test_a_commit_whose_progress_cannot_be_read_is_unknown(
    ms: MetastoreClient, metastore_uri: str, forget_commits: Callable[[str], None]
) -> None:
    """It was raised as an error of the file system, which says that nothing was committed."""

    def forget_and_damage() -> None:
        forget_commits(metastore_uri)
        for file in table_folder(ms, "s__progress").rglob("bucket_*"):
            file.write_bytes(b"damaged")

    lossy = AnswerLost(ms, {"commit_txn": 1}, after=forget_and_damage)
    with connect(lossy, sink="s", sources=["a"]) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with pytest.raises(CommitOutcomeUnknown):
            conn.commit_transaction(positions={"a": 1})
        assert conn.state is TransactionState.UNKNOWN
    assert ids(ms) == [1]


def test_without_a_sink_a_forgotten_commit_is_unknown_and_nothing_is_removed(
    ms: MetastoreClient, metastore_uri: str, forget_commits: Callable[[str], None]
) -> None:
    lossy = AnswerLost(ms, {"commit_txn": 1}, after=lambda: forget_commits(metastore_uri))
    with connect(lossy) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        txn_id, write_id = conn.txn_id, conn.write_id
        with pytest.raises(CommitOutcomeUnknown, match=f"transaction {txn_id} ") as caught:
            conn.commit_transaction()
        assert conn.state is TransactionState.UNKNOWN
        assert (caught.value.txn_id, caught.value.write_id) == (txn_id, write_id)
        assert [Path(folder).name for folder in caught.value.folders] == ["delta_0000001_0000001_0000"]
        assert ids(ms) == [1], "it was committed in fact, and must not be touched"
        with conn.transaction():
            conn.write(b'{"id": 2}')
    assert ids(ms) == [1, 2]


def test_a_commit_that_cannot_be_looked_up_because_a_login_has_expired_is_unknown(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was raised as a refusal by the metastore, after which a caller writes the rows again."""

    def refuse_logins() -> None:
        monkeypatch.setattr(type(ms), "commit_txn", refused)

    def refused(*_: object, **__: object) -> None:
        raise MetastoreError("Kerberos authentication failed: Ticket expired")

    lossy = AnswerLost(ms, {"commit_txn": 1}, after=refuse_logins)
    with connect(lossy) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with pytest.raises(CommitOutcomeUnknown, match="Ticket expired"):
            conn.commit_transaction()
        assert conn.state is TransactionState.UNKNOWN
        monkeypatch.undo()
        assert ids(ms) == [1], "it was committed in fact, and must not be touched"
        with conn.transaction():
            conn.write(b'{"id": 2}')
    assert ids(ms) == [1, 2]


def test_a_transaction_aborted_by_somebody_else_is_reported_as_aborted_and_leaves_no_file(ms: MetastoreClient) -> None:
    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        txn_id = conn.txn_id
        assert txn_id is not None
        with (
            faults(observe=lambda point: ms.abort_txn(txn_id) if point == "after_publish" else None),
            pytest.raises(TxnAborted, match=f"transaction {txn_id} was not committed"),
        ):
            conn.commit_transaction()
        assert conn.state is TransactionState.ABORTED
        assert list(table_folder(ms).glob("delta_*")) == []
        with conn.transaction():
            conn.write(b'{"id": 2}')
    assert ids(ms) == [2]


def test_a_commit_after_a_heartbeat_has_found_the_transaction_gone_leaves_it_aborted(ms: MetastoreClient) -> None:
    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        assert conn.txn_id is not None
        ms.abort_txn(conn.txn_id)
        conn._context.heartbeater._send_heartbeat(ms)
        with pytest.raises(TxnAborted, match=f"transaction {conn.txn_id} is gone"):
            conn.commit_transaction()
        assert conn.state is TransactionState.ABORTED
        with conn.transaction():
            conn.write(b'{"id": 2}')
    assert ids(ms) == [2]


@pytest.mark.parametrize(
    "joined",
    [pytest.param(False, marks=pytest.mark.local_warehouse(because="other stores spill to a local folder")), True],
)
def test_a_transaction_whose_hidden_files_were_removed_after_its_end_is_reported_as_aborted(
    ms: MetastoreClient, joined: bool
) -> None:
    """A writer that wakes up after its timeout may find its files gone before any heartbeat says why."""
    settings = {"max_buffer_bytes": 1 << 20, "spill_chunk_bytes": 1 << 18, "min_spill_bytes": 1 << 16}
    with connections.connect(ms, record_writer=hi.ArrowWriter(), settings=settings) as conn:
        conn.begin_transaction()
        prepared = []
        if joined:
            with JoinedTransaction(conn.share_transaction(), hi.ArrowWriter(), writer_bucket=1) as writer:
                writer.write(rows([1]))
                prepared.append(writer.prepare())
        else:
            conn.write(rows(range(1_000_000)))
            conn.flush()
            assert list(table_folder(ms).glob(".hive_ingest/*.spill.*")), "nothing was spilled"
        txn_id = conn.txn_id
        assert txn_id is not None
        ms.abort_txn(txn_id)
        connect(ms).close()
        assert not list(table_folder(ms).glob(".hive_ingest/*")), "the next connection removes them"
        with pytest.raises(TxnAborted, match=f"transaction {txn_id} was not committed.*no such file"):
            conn.commit_transaction(prepared=prepared)
        assert conn.state is TransactionState.ABORTED
    assert ids(ms) == []


def test_a_transaction_that_the_metastore_has_forgotten_before_its_commit_is_reported_as_aborted(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgotten(*_: object, **__: object) -> None:
        raise NoSuchTxn("it is not there")

    monkeypatch.setattr(type(ms), "heartbeat", forgotten)
    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with pytest.raises(TxnAborted, match=f"transaction {conn.txn_id} was not committed: it is not there"):
            conn.commit_transaction()
        assert conn.state is TransactionState.ABORTED
    assert ids(ms) == []


def test_an_error_after_the_commit_removes_nothing(ms: MetastoreClient) -> None:
    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with faults(CrashPoint("after_commit_txn")), pytest.raises(FaultError):
            conn.commit_transaction()
        assert conn.state is TransactionState.UNKNOWN
    assert ids(ms) == [1]


# -- an abort that is long forgotten -------------------------------------------------------------------


@pytest.mark.parametrize("table", ["t", "p"])
@pytest.mark.only_on(["sqlite", "postgres"], because="the clock is moved")
def test_rows_published_and_never_committed_stay_invisible_forever(
    metastore_uri: str, tmp_path: Path, table: str, ms: MetastoreClient
) -> None:
    conn = connect(ms, table)
    conn.begin_transaction()
    conn.write(b'{"id": 1, "part": "x"}')
    with faults(CrashPoint("after_publish")), pytest.raises(FaultError):
        conn.commit_transaction()
    published = list(table_folder(ms, table).glob("**/delta_*/bucket_*"))
    assert published, "nothing was published: the test tests nothing"
    keep = [(path, path.read_bytes()) for path in published]
    conn.close()
    for path, data in keep:  # a killed writer could not have removed them
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with connect_in(tmp_path, metastore_uri, clock_offset_seconds=FORTY_EIGHT_HOURS) as later:
        for _ in range(3):
            later.run_housekeeping()  # type: ignore[attr-defined]  # the embedded metastore's own
        assert ids(later, table) == []
        with connect(later, table) as again, again.transaction():
            again.write(b'{"id": 2, "part": "x"}')
        later.run_housekeeping()  # type: ignore[attr-defined]
        assert ids(later, table) == [2]


# -- overwrites ----------------------------------------------------------------------------------------


def overwrite(
    client: MetastoreClient, table: str, rows: list[int], *, before_commit: Callable[[], None] | None = None
) -> None:
    """INSERT OVERWRITE as Hive does it: an exclusive lock, then `base_N`; here for a whole unpartitioned folder."""
    name = TableName("web", table)
    (txn,) = client.open_txns(1, agent_info="overwrite")
    write_id = client.allocate_table_write_ids(name, [txn])[0].write_id
    component = LockComponent(
        LockType.EXCLUSIVE, LockLevel.TABLE, "web", table, operation_type=DataOperationType.INSERT
    )
    answer = client.lock(LockRequest((component,), txn))
    while answer.state is LockState.WAITING:
        answer = client.check_lock(answer.lock_id)
    folder = table_folder(client, table) if table == "t" else table_folder(client, table) / "part=x"
    write_base(write_id, folder / str(BaseName(write_id)), rows)
    if before_commit is not None:
        before_commit()
    client.commit_txn(txn)


def write_base(write_id: WriteId, folder: Path, rows: list[int]) -> None:
    folder.mkdir(parents=True)
    file = Location.of(f"{folder}/bucket_00000")
    batch = pa.RecordBatch.from_pydict({"id": pa.array(rows, pa.int32())})
    writer = AcidOrcWriter(
        file.store, file.path, schema=batch.schema, write_id=write_id, bucket_property=encode_bucket(0), sync=False
    )
    writer.write(batch)
    writer.close()


def test_an_overwrite_that_finished_before_our_lock_makes_us_begin_again(ms: MetastoreClient) -> None:
    with connect(ms) as conn, ms.clone() as other:
        done: list[int] = []

        def overwrite_meanwhile(point: str) -> None:
            if point == "after_write_id" and not done:
                done.append(1)
                overwrite(other, "t", [100])

        with faults(observe=overwrite_meanwhile) as recorder, conn.transaction():
            assert conn.write_id == 3
            conn.write(b'{"id": 1}')
        assert recorder.passed["after_write_id"] == 2
    assert ids(ms) == [1, 100]


def test_an_overwrite_that_holds_the_lock_makes_us_wait_and_begin_again(ms: MetastoreClient) -> None:
    with connect(ms) as conn, ms.clone() as other:
        locked, resume = threading.Event(), threading.Event()
        thread = threading.Thread(
            target=overwrite,
            args=(other, "t", [100]),
            kwargs={"before_commit": lambda: (locked.set(), resume.wait(60))},
        )
        started: list[int] = []

        def overwrite_meanwhile(point: str) -> None:
            if point == "after_write_id" and not started:
                started.append(1)
                thread.start()
                assert locked.wait(60)
            if point == "lock_waiting":
                threading.Timer(0.2, resume.set).start()

        with faults(observe=overwrite_meanwhile) as recorder, conn.transaction():
            conn.write(b'{"id": 1}')
        thread.join()
        assert recorder.passed["lock_waiting"] == 1
    assert ids(ms) == [1, 100]


def test_an_overwrite_of_a_partition_that_we_write_aborts_us_and_a_retry_succeeds(ms: MetastoreClient) -> None:
    with connect(ms, "p") as conn, ms.clone() as other:
        with conn.transaction():
            conn.write(b'{"id": 0, "part": "x"}')
        done: list[int] = []

        def overwrite_meanwhile(point: str) -> None:
            if point == "after_write_id" and not done:
                done.append(1)
                overwrite(other, "p", [100])

        with faults(observe=overwrite_meanwhile):
            conn.begin_transaction()
            conn.write(b'{"id": 1, "part": "x"}')
            with pytest.raises(TxnAborted, match=r"part=x was overwritten with write id 3"):
                conn.commit_transaction()
        assert conn.state is TransactionState.ABORTED
        with conn.transaction():
            conn.write(b'{"id": 1, "part": "x"}')
    assert ids(ms, "p") == [1, 100]


def test_other_appenders_with_higher_write_ids_do_not_make_us_begin_again(ms: MetastoreClient) -> None:
    with connect(ms) as conn, connect(ms) as other:
        done: list[int] = []

        def overwrite_meanwhile(point: str) -> None:
            if point == "after_write_id" and not done:
                done.append(1)
                with other.transaction():
                    other.write(b'{"id": 2}')

        with faults(observe=overwrite_meanwhile), conn.transaction():
            assert conn.write_id == 1
            conn.write(b'{"id": 1}')
    assert ids(ms) == [1, 2]
