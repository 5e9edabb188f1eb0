"""The end of connections and readers: closed by others, forgotten, or with their process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection, TransactionState
from hive_ingest.errors import ConnectionMisuse
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.testing import faults
from tests.support.rows import ids
from tests.support.waiting import wait_until
from tests.support.warehouses import store_path, warehouse_in

#: Ends a process that hangs, with the stacks of all threads.
PREAMBLE = """
import faulthandler, gc, os, sys
faulthandler.dump_traceback_later(60, exit=True)
import pyarrow as pa
import hive_ingest as hi
ms = hi.connect_metastore(sys.argv[1], warehouse=sys.argv[2])
rows = pa.table({"id": pa.array([1], pa.int32())})
def connect():
    conn = hi.StreamingConnection.connect(ms, database="web", table="t", record_writer=hi.ArrowWriter())
    conn.begin_transaction()
    conn.write(rows)
    return conn
"""


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.t", columns={"id": "int"})
    return metastore


@pytest.fixture
def arguments(metastore_uri: str, tmp_path: Path) -> list[str]:
    return [metastore_uri, warehouse_in(tmp_path)]


def run(script: str, arguments: list[str]) -> str:
    """The standard error of a Python process that ends by itself."""
    command = [sys.executable, "-W", "default", "-c", PREAMBLE + script, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def connect(client: MetastoreClient, **more: Any) -> StreamingConnection:
    return StreamingConnection.connect(client, database="web", table="t", record_writer=hi.StrictJsonWriter(), **more)


def hidden_files(ms: MetastoreClient) -> list[str]:
    folder = store_path(ms.get_table("web.t").location) / ".hive_ingest"
    return [path.name for path in folder.iterdir()] if folder.exists() else []


# -- forgotten -----------------------------------------------------------------------------------------


def test_a_connection_collected_on_its_own_worker_thread_is_aborted_and_the_process_ends(
    ms: MetastoreClient, arguments: list[str]
) -> None:
    """The worker waited for itself, and the process never ended."""
    stderr = run(
        "gc.disable()\n"
        "conn = connect()\n"
        "pool = conn._context.pool()\n"
        "conn.cycle = conn\n"
        "del conn\n"
        "pool.submit(gc.collect).result()\n",
        arguments,
    )
    assert "web.t was not closed" in stderr
    assert ms.get_valid_txns().open == ()
    assert hidden_files(ms) == []


def test_scans_and_connections_forgotten_inside_calls_of_their_client_are_ended(
    ms: MetastoreClient, arguments: list[str]
) -> None:
    """Their finalizers entered the client inside one of its own calls: the process died of SIGSEGV."""
    hi.append(ms, "web.t", hi_rows())
    run(
        "gc.set_threshold(20, 1, 1)\n"
        "for i in range(3):\n"
        "    for forgotten in (hi.scan(ms, 'web.t'), connect()):\n"
        "        forgotten_list = [forgotten]\n"
        "        forgotten_list.append(forgotten_list)\n"
        "    del forgotten, forgotten_list\n"
        "    ms.get_databases()\n"
        "    ms.show_locks('web.t')\n",
        arguments,
    )
    assert ms.get_valid_txns().open == ()


def hi_rows() -> pa.Table:
    return pa.table({"id": pa.array([1], pa.int32())})


def test_open_transactions_are_ended_when_the_interpreter_exits(ms: MetastoreClient, arguments: list[str]) -> None:
    hi.append(ms, "web.t", hi_rows())
    stderr = run("conn = connect()\nrows = hi.scan(ms, 'web.t')\nms.close()\n", arguments)
    assert "web.t was not closed" in stderr
    assert "a scan of web.t was not read to its end or closed" in stderr
    assert ms.get_valid_txns().open == ()
    assert hidden_files(ms) == []


#: A daemon thread that comes to a fault point, and stays there while the interpreter exits.
STOPPED_DAEMON = """
import threading
from hive_ingest.testing import faults
arrived = threading.Event()
def stop_there(point):
    if point == {point!r} and threading.current_thread().name == "daemon":
        arrived.set()
        threading.Event().wait()
with faults(observe=stop_there):
    threading.Thread(target=lambda: {work}, name="daemon", daemon=True).start()
    assert arrived.wait(60)
    sys.exit()
"""
APPEND = "hi.append(ms, 'web.t', rows, settings={'lock_wait_seconds': 60.0})"


@pytest.mark.parametrize(
    "point", ["after_open_txns", "after_write_id", "after_lock_acquired", "after_commit_heartbeat"]
)
def test_what_a_daemon_thread_is_beginning_when_the_interpreter_exits_is_ended(
    ms: MetastoreClient, arguments: list[str], point: str
) -> None:
    """It held its locks until the timeout: it belonged to no connection yet."""
    run(STOPPED_DAEMON.format(point=point, work=APPEND), arguments)
    assert ms.get_valid_txns().open == ()
    assert hi.read_table(ms, "web.t").num_rows == 0


@pytest.mark.parametrize("work", [APPEND, "hi.read_table(ms, 'web.t')"])
def test_a_daemon_thread_opens_no_transaction_once_the_interpreter_is_exiting(
    ms: MetastoreClient, arguments: list[str], work: str
) -> None:
    script = (
        "import atexit, threading\n"
        "is_exiting, tried = threading.Event(), threading.Event()\n"
        "def daemon():\n"
        "    is_exiting.wait()\n"
        "    try:\n"
        f"        {work}\n"
        "    except hi.StreamingError as error:\n"
        "        print(type(error).__name__, error, file=sys.stderr)\n"
        "    tried.set()\n"
        "reaper = sys.modules['hive_ingest.transactions.reaper']\n"
        "def after_the_hook():\n"
        "    reaper._at_exit()\n"
        "    is_exiting.set()\n"
        "    assert tried.wait(60)\n"
        "atexit.register(after_the_hook)\n"
        "threading.Thread(target=daemon, daemon=True).start()\n"
    )
    assert "ConnectionMisuse no transaction is opened any more" in run(script, arguments)
    assert ms.get_valid_txns().open == ()


def test_the_exit_of_the_interpreter_waits_for_the_call_that_opens_a_transaction(
    ms: MetastoreClient, arguments: list[str]
) -> None:
    """Its answer came after everything known had been ended."""
    script = (
        "import threading\n"
        "from hive_ingest.metastore_client import embedded\n"
        "reaper = sys.modules['hive_ingest.transactions.reaper']\n"
        "is_open, real, real_exit = threading.Event(), type(ms).open_txns, reaper._Reaper.exit\n"
        "is_exiting = threading.Event()\n"
        "def open_txns(self, *args, **options):\n"
        "    found = real(self, *args, **options)\n"
        "    is_open.set()\n"
        "    is_exiting.wait()\n"
        "    return found\n"
        "def exit(self, seconds):\n"
        "    is_exiting.set()\n"
        "    return real_exit(self, seconds)\n"
        "type(ms).open_txns, reaper._Reaper.exit = open_txns, exit\n"
        f"threading.Thread(target=lambda: {APPEND}, daemon=True).start()\n"
        "assert is_open.wait(60)\n"
    )
    run(script, arguments)
    assert ms.get_valid_txns().open == ()


def test_a_forked_child_ends_nothing_of_its_parents(ms: MetastoreClient, arguments: list[str]) -> None:
    run(
        "conn = connect()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    del conn\n"
        "    gc.collect()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "conn.commit_transaction()\n"
        "conn.close()\n",
        arguments,
    )
    assert hi.read_table(ms, "web.t").num_rows == 1


# -- closed by another thread --------------------------------------------------------------------------


def test_another_thread_can_close_a_connection_that_is_in_no_call(ms: MetastoreClient) -> None:
    """It was refused, and the transaction stayed open until the connection was collected."""
    conn = connect(ms)
    conn.begin_transaction()
    conn.write(b'{"id": 1}')
    conn.flush()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(conn.close).result()
        pool.submit(conn.close).result()
    assert ms.get_valid_txns().open == ()
    assert hidden_files(ms) == []
    assert conn.state is TransactionState.ABORTED
    assert conn.stats.transactions_aborted == 1
    with pytest.raises(ConnectionMisuse, match="closed"):
        conn.write(b'{"id": 2}')
    conn.close()
    with connect(ms) as other, other.transaction():
        other.write(b'{"id": 3}')
    assert hi.read_table(ms, "web.t")["id"].to_pylist() == [3]


def test_a_connection_whose_thread_has_ended_can_be_closed(ms: MetastoreClient) -> None:
    opened: list[StreamingConnection] = []

    def begin() -> None:
        with ms.clone() as client:
            opened.append(connect(client))
            opened[0].begin_transaction()

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    opened[0].close()
    assert ms.get_valid_txns().open == ()


def test_a_connection_inside_a_call_is_not_closed_by_another_thread(ms: MetastoreClient) -> None:
    errors: list[Exception] = []

    def close_elsewhere(point: str) -> None:
        if point == "after_publish":
            with ThreadPoolExecutor(1) as pool:
                error = pool.submit(conn.close).exception()
            assert isinstance(error, ConnectionMisuse)
            errors.append(error)

    with connect(ms) as conn, faults(observe=close_elsewhere), conn.transaction():
        conn.write(b'{"id": 1}')
    assert "inside a call" in str(errors[0])
    assert hi.read_table(ms, "web.t").num_rows == 1


def test_a_connection_inside_write_is_not_closed_by_another_thread(ms: MetastoreClient) -> None:
    errors: list[Any] = []

    def records() -> Any:
        yield b'{"id": 1}'
        with ThreadPoolExecutor(1) as pool:
            errors.append(pool.submit(conn.close).exception())
        yield b'{"id": 2}'

    with connect(ms) as conn, conn.transaction():
        conn.write(records())
    assert isinstance(errors[0], ConnectionMisuse)
    assert hi.read_table(ms, "web.t").num_rows == 2


def test_every_other_call_from_another_thread_is_still_refused(ms: MetastoreClient) -> None:
    with connect(ms) as conn, ThreadPoolExecutor(1) as pool:
        for call in (conn.begin_transaction, conn.flush, conn.abort_transaction, conn.commit_transaction):
            assert isinstance(pool.submit(call).exception(), ConnectionMisuse)


# -- signals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.one_embedded
def test_a_terminated_command_aborts_its_transaction(
    ms: MetastoreClient, arguments: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    """Python's default for SIGTERM ends the process at once: the transaction stayed open until its timeout."""
    pipe = tmp_path / "rows.json"
    script = (
        "import signal, sys, time\n"
        "from hive_ingest.cli.app import run\n"
        "from hive_ingest.faults import set_hook\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # a test run under nohup ignores it, and so would the child
        "def hook(point):\n"
        "    if point == 'after_lock_acquired':\n"
        "        print('locked', flush=True)\n"
        # In slices: a signal that comes just before a sleep is handled only after it.
        "        for _ in range(600):\n"
        "            time.sleep(0.1)\n"
        "set_hook(hook)\n"
        "run()\n"
    )
    pipe.write_bytes(b'{"id": 1}\n')
    command = [sys.executable, "-c", script, "ingest", "web.t", str(pipe), "--metastore", arguments[0]]
    process = subprocess.Popen(
        [*command, "--warehouse", arguments[1], "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "locked\n", process.communicate()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + number, stderr
    assert signal.Signals(number).name in stderr
    wait_until(lambda: ms.get_valid_txns().open == ())


# -- calls from within a call ----------------------------------------------------------------------


@pytest.mark.parametrize("call", ["begin_transaction", "commit_transaction", "abort_transaction", "close"])
def test_a_transaction_is_not_ended_from_within_its_own_write(ms: MetastoreClient, call: str) -> None:
    """A generator committed every so often: the records between it and the buffer went into no transaction."""
    with connect(ms) as conn:

        def records() -> Iterator[bytes]:
            yield b'{"id": 1}'
            getattr(conn, call)()
            yield b'{"id": 2}'

        conn.begin_transaction()
        with pytest.raises(ConnectionMisuse, match=rf"{call}\(\) was called inside write"):
            conn.write(records())
        assert conn.state is TransactionState.FAILED
        conn.abort_transaction()
        with conn.transaction():
            conn.write(b'{"id": 3}')
    assert ids(ms) == [3]


def test_a_nested_write_does_not_hide_the_outer_one(ms: MetastoreClient) -> None:
    with connect(ms) as conn:

        def records() -> Iterator[bytes]:
            conn.write(b'{"id": 1}')
            with pytest.raises(ConnectionMisuse):
                conn.commit_transaction()
            yield b'{"id": 2}'

        with conn.transaction():
            conn.write(records())
    assert ids(ms) == [1, 2]


def test_an_interrupted_commit_keeps_no_lock_after_close(ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C inside the commit call left the transaction open, with its locks, until its timeout."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    conn = connect(ms)
    conn.begin_transaction()
    conn.write(b'{"id": 1}')
    with monkeypatch.context() as patch:
        patch.setattr(ms, "commit_txn", interrupt, raising=False)
        with pytest.raises(KeyboardInterrupt):
            conn.commit_transaction()
    assert conn.state is TransactionState.UNKNOWN
    conn.close()
    assert ms.get_valid_txns().open == ()
    assert ms.show_locks() == []
    assert ids(ms) == []
