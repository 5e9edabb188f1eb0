"""Whatever is written, compacted, cleaned and killed, in any order: a reader sees the rows of its snapshot.

The model holds the rows of each partition by their ROW__IDs. A reader lists the files only when it reads, so it may
find a folder that has been compacted, and must not find one that has been cleaned under its snapshot.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import hive_ingest as hi
from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.compaction import Cleaner, FolderState, KeptDelta, Worker
from hive_ingest.compaction.cleaner_lock import release_locks_of_dead_cleaners
from hive_ingest.errors import TxnAborted
from hive_ingest.faults import CLEANER_FAULT_POINTS, WORKER_FAULT_POINTS
from hive_ingest.model import CompactionState, CompactionType, TxnId, TxnState, TxnType, WriteId
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.storage import Location
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.support.compactions import FAST, NO_GRACE, Compacted, RowId, connect_quietly
from tests.support.metastores import housekeeping

PARTS = ("a", "b")
KINDS = (CompactionType.MINOR, CompactionType.MAJOR)
#: Any result of an earlier compaction is large enough to be kept.
SETTINGS = replace(FAST, kept=KeptDelta(least_bytes=0, least_ratio=0))
#: A child that hangs is an error, not a crash.
CHILD_SECONDS = 60
#: The rows of a partition, by ROW__ID.
Rows = dict[RowId, int]
Model = dict[str, Rows]


@dataclass
class Writer:
    """An open transaction whose files are published already, as those of one that is about to commit, or to die."""

    txn_id: TxnId
    part: str
    rows: Rows = field(default_factory=dict)
    deleted: frozenset[RowId] = frozenset()


@dataclass
class Reader:
    """A scan, with the rows that it has read and those that it must have read in the end."""

    scan: hi.Scan
    expected: Model
    seen: list[dict[str, Any]] = field(default_factory=list)


class CompactionMachine(RuleBasedStateMachine):
    """Writers, readers, workers, cleaners and housekeeping of a table with two partitions."""

    def __init__(self, database: Callable[[], AbstractContextManager[str | None]] = nullcontext) -> None:
        """
        Args:
            database: Makes an empty database, and gives its address. By default SQLite, in a file of its own.
        """
        super().__init__()
        self._made = ExitStack()
        self._folder = Path(self._made.enter_context(tempfile.TemporaryDirectory()))
        self._ms = self._made.enter_context(connect_quietly(self._folder, self._made.enter_context(database())))
        self._table = Compacted(self._ms, partition_keys={"part": "string"})
        self._numbers = itertools.count()
        self._rows: Model = {part: {} for part in PARTS}
        self._writers: list[Writer] = []
        self._readers: list[Reader] = []

    def teardown(self) -> None:
        try:
            self._settle()
        finally:
            for reader in self._readers:
                reader.scan.close()
            self._made.close()

    # -- writers -----------------------------------------------------------------------------------

    @initialize()
    def make_partitions(self) -> None:
        for part in PARTS:
            self._insert(part, 1)

    @rule(part=st.sampled_from(PARTS), count=st.integers(1, 4))
    def insert(self, part: str, count: int) -> None:
        self._insert(part, count)

    @precondition(lambda self: not self._readers and not self._ms.get_valid_txns().open)
    @rule(part=st.sampled_from(PARTS), count=st.integers(1, 2))
    def overwrite(self, part: str, count: int) -> None:
        """Takes an exclusive lock, so nobody else may be there, not even a cleaner that was killed."""
        release_locks_of_dead_cleaners(self._ms)
        replaced = set(self._rows[part])
        self._insert(part, count, overwrite=True)
        self._rows[part] = {row_id: i for row_id, i in self._rows[part].items() if row_id not in replaced}

    def _insert(self, part: str, count: int, *, overwrite: bool = False) -> None:
        numbers = self._next(count)
        self._table.insert(*numbers, part=part, overwrite=overwrite)
        (snapshot,) = self._ms.get_valid_write_ids([self._table.name])
        self._rows[part] |= _row_ids(snapshot.high_water_mark, numbers)

    @rule(part=st.sampled_from(PARTS), data=st.data())
    def delete(self, part: str, data: st.DataObject) -> None:
        if self._rows[part]:
            chosen = data.draw(st.sets(st.sampled_from(sorted(self._rows[part])), min_size=1, max_size=4))
            self._end(self._begin_delete(part, chosen), commits=True)

    @rule(part=st.sampled_from(PARTS), count=st.integers(1, 3), deletes=st.booleans(), data=st.data())
    def begin(self, part: str, count: int, deletes: bool, data: st.DataObject) -> None:
        """A writer that stays open, with all its files in place."""
        if deletes and self._rows[part]:
            chosen = data.draw(st.sets(st.sampled_from(sorted(self._rows[part])), min_size=1, max_size=count))
            self._writers.append(self._begin_delete(part, chosen))
        else:
            self._writers.append(self._begin_insert(part, count))

    def _begin_insert(self, part: str, count: int) -> Writer:
        txn_id, write_id = self._table.begin(part)
        rows = _row_ids(write_id, self._next(count))
        self._write_delta(write_id, part, rows)
        return Writer(txn_id, part, rows)

    def _begin_delete(self, part: str, chosen: set[RowId]) -> Writer:
        txn_id, write_id = self._table.begin(part)
        self._table.write_delete_events(write_id, chosen, part=part)
        return Writer(txn_id, part, deleted=frozenset(chosen))

    @precondition(lambda self: self._writers)
    @rule(data=st.data(), commits=st.booleans())
    def end(self, data: st.DataObject, commits: bool) -> None:
        self._end(self._writers.pop(data.draw(st.integers(0, len(self._writers) - 1))), commits=commits)
        self.read()

    def _end(self, writer: Writer, *, commits: bool) -> None:
        if not commits:
            self._ms.abort_txn(writer.txn_id)
            return
        try:
            self._ms.commit_txn(writer.txn_id)
        except TxnAborted:
            return  # another one had changed the same partition meanwhile
        rows = self._rows[writer.part] | writer.rows
        self._rows[writer.part] = {row_id: i for row_id, i in rows.items() if row_id not in writer.deleted}

    # -- readers -----------------------------------------------------------------------------------

    def read(self) -> None:
        """What is committed now, at once."""
        found = hi.read_table(self._ms, self._table.name, row_ids=True).to_pylist()
        assert _model_of(found) == self._rows

    @precondition(lambda self: len(self._readers) < 3)
    @rule()
    def begin_reading(self) -> None:
        scan = hi.scan(self._ms, self._table.name, row_ids=True, batch_rows=1)
        self._readers.append(Reader(scan, {part: dict(rows) for part, rows in self._rows.items()}))

    @precondition(lambda self: self._readers)
    @rule(data=st.data())
    def read_a_row(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self._readers))
        reader.seen += next(reader.scan, pa.record_batch({})).to_pylist()

    @precondition(lambda self: self._readers)
    @rule(data=st.data())
    def end_reading(self, data: st.DataObject) -> None:
        self._finish(self._readers.pop(data.draw(st.integers(0, len(self._readers) - 1))))

    def _finish(self, reader: Reader) -> None:
        with reader.scan:
            for batch in reader.scan:
                reader.seen += batch.to_pylist()
        assert _model_of(reader.seen) == reader.expected

    # -- compaction --------------------------------------------------------------------------------

    @rule(
        part=st.sampled_from(PARTS),
        kind=st.sampled_from(KINDS),
        count=st.integers(1, 2),
        may_keep=st.booleans(),
        is_followed=st.booleans(),
    )
    def compact(self, part: str, kind: CompactionType, count: int, may_keep: bool, is_followed: bool) -> None:
        """A request and a worker, which may find an earlier request first; of something, mostly."""
        for _ in range(count):
            self._insert(part, 1)
        self._table.request(kind, part=part, may_keep_large_delta=may_keep)
        if is_followed:
            self.work()

    @rule()
    def work(self) -> None:
        if result := Worker(self._ms, SETTINGS).run_once():
            assert result.state in (CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED), result
            self.read()

    @rule()
    def clean(self) -> None:
        for result in Cleaner(self._ms, NO_GRACE).run_once():
            assert result.state is CompactionState.SUCCEEDED, result
        self.read()

    @rule(point=st.sampled_from(WORKER_FAULT_POINTS), occurrence=st.integers(1, 2), is_killed=st.booleans())
    def fail_at_work(self, point: str, occurrence: int, is_killed: bool) -> None:
        """A worker is killed, or ends with an error, which it reports."""
        if is_killed:
            self._kill(lambda: Worker(self._ms, SETTINGS).run_once(), CrashPoint(point, occurrence, signal.SIGKILL))
            return
        with faults(CrashPoint(point, occurrence)):
            try:
                Worker(self._ms, SETTINGS).run_once()
            except FaultError:
                assert point == "after_find_next_compact"
        self.read()

    @rule(point=st.sampled_from(CLEANER_FAULT_POINTS), occurrence=st.integers(1, 3))
    def kill_cleaner(self, point: str, occurrence: int) -> None:
        self._kill(lambda: Cleaner(self._ms, NO_GRACE).run_once(), CrashPoint(point, occurrence, signal.SIGKILL))

    def _kill(self, run: Callable[[], object], crash: CrashPoint) -> None:
        """Run it in a fork that dies at a fault point, if it passes that."""
        child = os.fork()
        if not child:
            code = 1
            try:
                signal.alarm(CHILD_SECONDS)
                with faults(crash):
                    run()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
        self.read()

    @rule(of_the_dead=st.booleans())
    def keep_house(self, of_the_dead: bool) -> None:
        """Where the dead are timed out, what they had taken from the queue goes back."""
        for info in self._ms.get_open_txns_info().transactions:
            if of_the_dead and info.type is TxnType.COMPACTION and info.state is TxnState.OPEN:
                self._ms.abort_txn(info.id)
        housekeeping(self._ms)
        self.read()

    # -- the end -----------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Everything is compacted under those who are open; when they have ended, only the model's rows are left."""
        if not any(self._rows.values()):
            return  # it ended before it began
        for part in PARTS:
            self._end(self._begin_insert(part, 1), commits=False)
        self._compact_all(CompactionType.MINOR, cleans=False)
        self.begin_reading()
        self._compact_all(CompactionType.MINOR)
        while self._readers:
            self._finish(self._readers.pop())
        while self._writers:
            self._end(self._writers.pop(), commits=len(self._writers) % 3 != 2)
            self.read()
        self._compact_all(CompactionType.MINOR)
        self._compact_all(CompactionType.MAJOR)
        for part in PARTS:
            self._assert_nothing_is_left(part)
        hidden = self._table.folder / ".hive_ingest"
        assert not hidden.exists() or not list(hidden.iterdir())

    def _compact_all(self, kind: CompactionType, *, cleans: bool = True) -> None:
        self.keep_house(of_the_dead=True)
        self._revoke()
        for part in PARTS:
            self._insert(part, 1)
            self._table.request(kind, part=part)
        while Worker(self._ms, SETTINGS).run_once():
            self.read()
        if cleans:
            self.clean()

    def _revoke(self) -> None:
        """A worker that died before it opened a transaction: a long time passes."""
        for info in self._table.history():
            if info.state is CompactionState.WORKING and info.worker_id:
                self._ms.revoke_from_local_workers(info.worker_id)

    def _assert_nothing_is_left(self, part: str) -> None:
        valid_txns = self._ms.get_valid_txns()
        (snapshot,) = self._ms.get_valid_write_ids([self._table.name], valid_txns)
        state = FolderState.read(Location.of(str(self._table.place(part))), snapshot, valid_txns)
        assert not state.obsolete, part
        assert not state.aborted, part
        assert not state.delete_deltas, part

    # -- files -------------------------------------------------------------------------------------

    def _next(self, count: int) -> list[int]:
        return list(itertools.islice(self._numbers, count))

    def _write_delta(self, write_id: WriteId, part: str, rows: Rows) -> None:
        folder = Location.of(str(self._table.place(part))) / f"delta_{write_id:07d}_{write_id:07d}_0000"
        folder.make_folder()
        file = folder / "bucket_00000"
        numbers = list(rows.values())
        batch = pa.record_batch({"id": pa.array(numbers, pa.int32()), "text": [f"row {i}" for i in numbers]})
        with AcidOrcWriter(
            file.store,
            file.path,
            schema=batch.schema,
            write_id=write_id,
            bucket_property=encode_bucket(0, 0),
            sync=False,
        ) as writer:
            writer.write(batch)
            writer.close()


def _row_ids(write_id: WriteId, numbers: list[int]) -> Rows:
    return {(write_id, encode_bucket(0, 0), at): number for at, number in enumerate(numbers)}


def _model_of(found: list[dict[str, Any]]) -> Model:
    model: Model = {part: {} for part in PARTS}
    for row in found:
        rows = model[row["part"]]
        row_id = tuple(row["row__id"].values())
        assert row_id not in rows, f"{row_id} came twice"
        assert row["text"] == f"row {row['id']}"
        rows[row_id] = row["id"]
    return model
