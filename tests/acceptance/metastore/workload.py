"""Processes that use one metastore at once, some of them killed, and what each of them saw.

Every call is written down before it is made and after it has answered, with the machine's monotonic clock, which is
one for all processes. A call without an answer belongs to a worker that was killed in it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hive_ingest.acid.write_ids import ValidWriteIdList
from hive_ingest.errors import NoSuchLock, NoSuchTxn, TxnAborted
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    TxnId,
    WriteId,
)

WORKERS = 8
# Few of each, so that workers meet.
TABLES = ("c.t0", "c.t1")
PARTITIONS = ("p=0", "p=1")
TXN_TIMEOUT_SECONDS = 1.5
_NAP_SECONDS = 2.2
_NAP_CHANCE = 0.04
#: What a transaction may answer when somebody was faster or it was timed out.
_EXPECTED = (TxnAborted, NoSuchTxn, NoSuchLock)
_LOCK_TRIES = 6


class Recorder:
    """Calls, written down in one worker's file."""

    def __init__(self, file: Path) -> None:
        # Unbuffered: what a killed worker has begun must be known.
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._number = 0

    def call(self, op: str, work: Callable[[], Any], **about: Any) -> Any:
        self._number += 1
        self._write({"i": self._number, "op": op, "t0": time.monotonic_ns(), **about})
        try:
            result = work()
        except _EXPECTED as error:
            self._write(
                {"i": self._number, "t1": time.monotonic_ns(), "error": type(error).__name__, "why": str(error)}
            )
            raise
        self._write({"i": self._number, "t1": time.monotonic_ns(), "result": _plain(result)})
        return result

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())


def _plain(result: Any) -> Any:
    if isinstance(result, ValidWriteIdList):
        return result.to_string()
    return result if isinstance(result, int | str | list | None) else str(result)


class Worker:
    """One process: runs random transactions forever."""

    def __init__(self, uri: str, warehouse: str, file: Path, seed: int) -> None:
        client = connect_metastore(
            uri,
            warehouse=warehouse,
            txn_timeout_seconds=TXN_TIMEOUT_SECONDS,
            housekeeping_interval_seconds=0.5,
            create=True,
        )
        assert isinstance(client, EmbeddedMetastoreClient)
        self.ms = client
        self.random = random.Random(seed)
        self.record = Recorder(file)

    def run(self) -> None:
        kinds = (self.insert, self.update, self.update, self.overwrite, self.read, self.read_later)
        while True:
            try:
                self.random.choice(kinds)()
            except _EXPECTED:
                continue

    def open(self) -> TxnId:
        opened = self.record.call("open", lambda: self.ms.open_txns(self.random.choice((1, 1, 3))))
        for spare in opened[1:]:
            self.abort(spare)
        return TxnId(opened[0])

    def allocate(self, txn_id: TxnId, table: str) -> WriteId:
        return WriteId(
            self.record.call(
                "allocate",
                lambda: int(self.ms.allocate_table_write_ids(table, [txn_id])[0].write_id),
                txn=txn_id,
                table=table,
            )
        )

    def lock(self, txn_id: TxnId, *components: LockComponent) -> bool:
        names = [[c.type.name, c.table, c.partition_name] for c in components]
        request = LockRequest(components, txn_id)
        response = self.record.call("lock", lambda: _state(self.ms.lock(request)), txn=txn_id, components=names)
        lock_id, state = response
        for _ in range(_LOCK_TRIES):
            if state == LockState.ACQUIRED:
                return True
            time.sleep(self.random.uniform(0.0, 0.02))
            _, state = self.record.call(
                "check_lock", lambda: _state(self.ms.check_lock(lock_id)), txn=txn_id, components=names
            )
        self.abort(txn_id)
        return False

    def abort(self, txn_id: TxnId) -> None:
        self.record.call("abort", lambda: self.ms.abort_txn(txn_id, reason="workload"), txn=txn_id)

    def finish(self, txn_id: TxnId, **about: Any) -> None:
        # Some sleep so long that they are timed out, and wake up believing in their lock.
        napping = self.random.random() < _NAP_CHANCE
        time.sleep(_NAP_SECONDS if napping else self.random.uniform(0.0, 0.03))
        if self.random.random() < 0.2:
            self.abort(txn_id)
            return
        compare = bool(about.get("updated"))
        if not napping:
            self.record.call("heartbeat", lambda: self.ms.heartbeat(txn_id=txn_id), txn=txn_id)
        self.record.call(
            "commit", lambda: self.ms.commit_txn(txn_id, excl_write_enabled=not compare), txn=txn_id, **about
        )

    def insert(self) -> None:
        """A sink: shared on the table, exclusive for its source."""
        table, partition = self.random.choice(TABLES), self.random.choice(PARTITIONS)
        txn_id = self.open()
        write_id = self.allocate(txn_id, table)
        source = f"source={self.random.randrange(2)}"
        if self.lock(
            txn_id,
            _component(LockType.SHARED_READ, table, operation=DataOperationType.INSERT, dynamic=True),
            _component(LockType.EXCL_WRITE, table, source),
        ):
            self.name_partition(txn_id, write_id, table, partition, DataOperationType.INSERT)
            self.finish(txn_id)

    def update(self) -> None:
        """Writers that share, of whom the first to commit wins."""
        table, partition = self.random.choice(TABLES), self.random.choice(PARTITIONS)
        txn_id = self.open()
        write_id = self.allocate(txn_id, table)
        operation = DataOperationType.UPDATE
        time.sleep(self.random.uniform(0.0, 0.02))
        if self.lock(txn_id, _component(LockType.SHARED_WRITE, table, operation=operation, dynamic=True)):
            self.name_partition(txn_id, write_id, table, partition, operation)
            self.finish(txn_id, updated=[table, partition])

    def overwrite(self) -> None:
        table = self.random.choice(TABLES)
        txn_id = self.open()
        self.allocate(txn_id, table)
        where = self.random.choice((None, *PARTITIONS))
        operation = DataOperationType.INSERT
        if self.lock(txn_id, _component(LockType.EXCLUSIVE, table, where, operation=operation)):
            self.finish(txn_id)

    def name_partition(
        self, txn_id: TxnId, write_id: WriteId, table: str, partition: str, operation: DataOperationType
    ) -> None:
        self.record.call(
            "add_dynamic_partitions",
            lambda: self.ms.add_dynamic_partitions(txn_id, write_id, table, [partition], operation),
            txn=txn_id,
        )

    def read(self) -> None:
        table = self.random.choice(TABLES)
        self.record.call("snapshot", lambda: self.ms.get_valid_write_ids([table])[0], table=table)

    def read_later(self) -> None:
        """A snapshot taken now and looked at later, under a transaction that protects it."""
        table = self.random.choice(TABLES)
        txn_id = self.open()
        taken = self.record.call("valid_txns", lambda: self.ms.get_valid_txns().to_string(), txn=txn_id)
        from_string = type(self.ms.get_valid_txns()).from_string
        time.sleep(self.random.uniform(0.0, 0.05))
        self.record.call(
            "snapshot_of",
            lambda: self.ms.get_valid_write_ids([table], from_string(taken))[0],
            table=table,
            txn=txn_id,
        )
        self.finish(txn_id)


def _state(response: Any) -> list[int]:
    return [int(response.lock_id), int(response.state)]


def _component(
    type_: LockType,
    table: str,
    partition: str | None = None,
    *,
    operation: DataOperationType = DataOperationType.NO_TXN,
    dynamic: bool = False,
) -> LockComponent:
    database, _, name = table.partition(".")
    level = LockLevel.TABLE if partition is None else LockLevel.PARTITION
    return LockComponent(type_, level, database, name, partition, operation, is_dynamic_partition_write=dynamic)


def _work(uri: str, warehouse: str, file: Path, seed: int) -> None:
    Worker(uri, warehouse, file, seed).run()


def run_workload(uri: str, warehouse: str, folder: Path, *, seed: int, operations: int) -> int:
    """Let the workers make at least `operations` calls, kill and replace one now and then; gives how many were killed.

    Their files lie in `folder`. Raises AssertionError when a worker ends by itself.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    chance = random.Random(seed)
    started = 0

    def start() -> BaseProcess:
        nonlocal started
        started += 1
        process = context.Process(
            target=_work, args=(uri, warehouse, folder / f"{started:04d}.jsonl", seed * 10_000 + started), daemon=True
        )
        process.start()
        return process

    workers = [start() for _ in range(WORKERS)]
    killed = 0
    try:
        while _answers(folder) < operations:
            time.sleep(chance.uniform(0.3, 1.0))
            dead = [worker for worker in workers if not worker.is_alive()]
            assert not dead, f"a worker ended by itself with exit code {dead[0].exitcode}: see its traceback above"
            victim = chance.randrange(WORKERS)
            _kill(workers[victim])
            killed += 1
            workers[victim] = start()
    finally:
        for worker in workers:
            _kill(worker)
    return killed


def _kill(worker: BaseProcess) -> None:
    worker.kill()
    worker.join()


def _answers(folder: Path) -> int:
    return sum(file.read_bytes().count(b'"t1":') for file in folder.glob("*.jsonl"))
