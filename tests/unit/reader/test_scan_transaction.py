"""The transaction of a scan: its lock, its heartbeats, and its end, however the scan ends."""

import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import (
    ConfigurationError,
    ConnectionMisuse,
    LockTimeout,
    NoSuchObject,
    StreamingIOFailure,
    TxnAborted,
)
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
)
from hive_ingest.reader import read_table, scan
from hive_ingest.transactions import ReadTransaction
from tests.support.metastores import connect_in
from tests.support.waiting import wait_until
from tests.unit.reader.reading import ids, open_readers

pytestmark = pytest.mark.one_embedded

CLIENTS_TIMEOUT = pytest.mark.only_on(["sqlite", "postgres"], because="the timeout is the server's")


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive tells neither of a transaction")
def test_a_reader_is_identified_by_the_type_and_agent_of_its_transaction(metastore, table):
    with scan(metastore, "web.t"):
        (reader,) = open_readers(metastore)
        assert (reader.type.name, reader.agent_info) == ("READ_ONLY", "hive-ingest reader")


def test_the_transaction_ends_with_the_last_batch(metastore, table):
    rows = scan(metastore, "web.t")
    assert len(open_readers(metastore)) == 1
    assert [lock.type for lock in metastore.show_locks("web.t")] == [LockType.SHARED_READ]
    assert len(list(rows)) == 2
    assert open_readers(metastore) == []
    assert metastore.show_locks("web.t") == []
    assert metastore.get_open_txns_info().transactions == ()
    with pytest.raises(StopIteration):
        rows.read_next_batch()
    rows.close()


def test_the_transaction_ends_with_close_or_the_with_block(metastore, table):
    rows = scan(metastore, "web.t")
    next(rows)
    rows.close()
    rows.close()
    assert open_readers(metastore) == []
    with scan(metastore, "web.t") as rows:
        next(rows)
    assert metastore.get_open_txns_info().transactions == ()


def test_a_scan_that_was_closed_before_its_last_batch_does_not_look_complete(metastore, table):
    """As when another thread closes it: the loop over its batches ended, with a part of the rows."""
    rows = scan(metastore, "web.t")
    next(rows)
    rows.close()
    for _ in range(2):
        with pytest.raises(ConnectionMisuse, match=r"scan of web\.t was closed, or failed, before its last batch"):
            list(rows)
    with scan(metastore, "web.t") as complete:
        assert len(list(complete)) == 2
    assert list(complete) == []


def test_a_scan_that_has_failed_does_not_look_complete(metastore, table):
    rows = scan(metastore, "web.t")
    next(rows)
    (reader,) = open_readers(metastore)
    metastore.abort_txns([reader.id])
    with pytest.raises(TxnAborted):
        list(rows)
    with pytest.raises(ConnectionMisuse, match="or failed"):
        list(rows)


def test_a_link_to_a_file_that_is_missing_is_not_read_as_no_file(metastore, table, tmp_path):
    """A file that was moved to another disk, and linked, was left out while that disk was not mounted."""
    folder = Path(table.table.location.removeprefix("file:"))
    file = next(folder.rglob("bucket_*"))
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    (folder / ".#lock").symlink_to("user@host")
    assert sorted(ids(metastore)) == [1, 2, 3, 4, 5]
    (tmp_path / "elsewhere").rename(tmp_path / "unmounted")
    with pytest.raises(StreamingIOFailure, match=r"bucket_\d+' is a symbolic link to .*elsewhere', which is missing"):
        ids(metastore)


def test_an_error_in_the_with_block_aborts_and_is_not_hidden(metastore, table):
    def read_and_fail():
        with scan(metastore, "web.t") as rows:
            next(rows)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read_and_fail()
    assert open_readers(metastore) == []


def test_a_scan_that_was_not_closed_warns_and_ends_its_transaction(metastore, table):
    forgotten = [scan(metastore, "web.t")]
    next(forgotten[0])
    with pytest.warns(ResourceWarning, match="was not read to its end"):
        forgotten.clear()
    wait_until(lambda: open_readers(metastore) == [])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"columns": ["nope"]}, ConfigurationError),
        ({"columns": ["id", "ID"]}, ConfigurationError),
        ({"filter": pc.field("nope") == 1}, ConfigurationError),
        ({"batch_rows": 0}, ConfigurationError),
    ],
)
def test_invalid_arguments_leave_nothing_open(metastore, table, options, error):
    with pytest.raises(error):
        scan(metastore, "web.t", **options)
    assert open_readers(metastore) == []


def test_no_reader_leaves_an_aborted_transaction_however_it_ends(metastore, table):
    read_table(metastore, "web.t")
    scan(metastore, "web.t").close()
    with pytest.raises(NoSuchObject):
        scan(metastore, "web.absent")
    with pytest.raises(ConfigurationError):
        scan(metastore, "web.t", columns=["absent"])
    failed = scan(metastore, "web.t")
    next(failed)
    failed.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert metastore.get_open_txns_info().transactions == ()


def test_a_table_that_is_not_there_leaves_nothing_open(metastore):
    with pytest.raises(NoSuchObject):
        scan(metastore, "web.absent")
    assert open_readers(metastore) == []


def test_the_stream_interface_of_arrow_is_understood(metastore, table):
    assert pa.table(scan(metastore, "web.t", columns=["id"]))["id"].to_pylist() == [1, 2, 3, 4, 5]
    reader = pa.RecordBatchReader.from_stream(scan(metastore, "web.t"))
    assert reader.schema == pa.schema([("id", pa.int32()), ("msg", pa.string())])
    assert reader.read_all().num_rows == 5
    assert open_readers(metastore) == []


def exclusive_lock(client, name="t"):
    (txn_id,) = client.open_txns(agent_info="overwriter")
    component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, "web", name, operation_type=DataOperationType.INSERT)
    answer = client.lock(LockRequest((component,), txn_id, user="ann", hostname="h1", agent_info="overwriter"))
    assert answer.state is LockState.ACQUIRED
    return txn_id


def test_a_lock_that_is_not_granted_names_its_holder_and_leaves_nothing_open(metastore, table):
    holder = exclusive_lock(metastore)
    with pytest.raises(LockTimeout, match=rf"transaction {holder} of ann@h1 \(overwriter\) holds EXCLUSIVE"):
        scan(metastore, "web.t", lock_wait_seconds=0.1)
    assert [t.id for t in open_readers(metastore)] == [holder]


def test_the_snapshot_is_taken_after_the_lock_was_granted(metastore, table, struct):
    holder = exclusive_lock(metastore)
    (allocated,) = metastore.allocate_table_write_ids("web.t", [holder])
    client = metastore.clone()

    def commit_soon():
        time.sleep(0.2)
        table.insert(allocated.write_id, struct(id=[6], msg=["f"]))
        client.commit_txn(holder)

    writer = threading.Thread(target=commit_soon)
    writer.start()
    assert ids(metastore, lock_wait_seconds=60) == [1, 2, 3, 4, 5, 6]
    writer.join()
    client.close()


@pytest.fixture
def impatient(metastore_uri, tmp_path):
    """The metastore, whose transactions live half a second without a heartbeat if they were opened here."""
    with connect_in(tmp_path, metastore_uri, txn_timeout_seconds=0.6) as client:
        yield client


def heartbeat_of_the_reader(client):
    """Seconds between the beginning of the only reader and its last heartbeat."""
    (reader,) = open_readers(client)
    return (reader.last_heartbeat_ms - reader.started_ms) / 1000


@CLIENTS_TIMEOUT
def test_a_slow_reader_is_kept_alive(metastore, table, impatient):
    with scan(impatient, "web.t", columns=["id"]) as rows:
        first = next(rows)
        wait_until(lambda: heartbeat_of_the_reader(impatient) > 2 * impatient.txn_timeout_seconds)
        assert first.num_rows + rows.read_all().num_rows == 5


@CLIENTS_TIMEOUT
def test_a_reader_whose_transaction_is_gone_stops_instead_of_missing_files(metastore, table, impatient):
    with scan(impatient, "web.t") as rows:
        next(rows)
        (reader,) = open_readers(metastore)
        metastore.abort_txn(reader.id, reason="by an operator")
        scope = rows._scope
        assert isinstance(scope, ReadTransaction)
        wait_until(lambda: bool(scope._heartbeater.lost))
        with pytest.raises(TxnAborted, match="read again"):
            next(rows)


def test_a_transaction_that_was_gone_at_the_end_is_reported_without_a_heartbeat(metastore, table):
    rows = scan(metastore, "web.t")
    (reader,) = open_readers(metastore)
    metastore.abort_txn(reader.id)
    with pytest.raises(TxnAborted, match="files may have been missed"):
        rows.read_all()
