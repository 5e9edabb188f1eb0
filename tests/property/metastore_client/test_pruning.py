"""Housekeeping and cleaning change no snapshot, neither one that a reader holds nor one that is taken later.

The model knows the fate of every write id. What is pruned from TXN_TO_WRITE_ID counts as committed, so a row that goes
too early makes rows visible that are not committed, or were not when the reader began (HIVE-18747).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    TxnId,
    TxnType,
    WriteId,
)
from tests.support.metastores import connect_in, housekeeping

TABLES = ("db.a", "db.b")
#: Longer than anything is remembered without need.
RETENTION_SECONDS = 86_400 + 300


@dataclass
class Write:
    """A write id of a table, and what became of it."""

    table: str
    write_id: WriteId
    txn_id: TxnId
    has_files: bool
    state: str = "open"


@dataclass
class Reader:
    """An open transaction with its snapshot, and the write ids that were committed in it."""

    txn_id: TxnId
    snapshot: ValidTxnList
    committed: set[tuple[str, WriteId]] = field(default_factory=set)


class Pruning(RuleBasedStateMachine):
    """Writers, readers, cleaners and housekeeping in any order."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        client = connect_in(Path(self._folder.name), housekeeping_interval_seconds=1e6)
        assert isinstance(client, EmbeddedMetastoreClient)
        client.run_housekeeping()
        self._ms = client
        self._writes: list[Write] = []
        self._readers: list[Reader] = []

    def teardown(self) -> None:
        self._ms.close()
        self._folder.cleanup()

    # -- what happens ------------------------------------------------------------------------------

    @rule(tables=st.sets(st.sampled_from(TABLES), min_size=1), has_files=st.booleans())
    def begin(self, tables: set[str], has_files: bool) -> None:
        """A writer; without files it ends before it registers what it writes."""
        (txn_id,) = self._ms.open_txns()
        for table in sorted(tables):
            write_id = self._ms.allocate_table_write_ids(table, [txn_id])[0].write_id
            self._writes.append(Write(table, write_id, txn_id, has_files))
        if has_files:
            components = (self._component(table) for table in sorted(tables))
            self._ms.lock(LockRequest(tuple(components), txn_id))

    def _component(self, table: str) -> LockComponent:
        database, _, name = table.partition(".")
        insert = DataOperationType.INSERT
        return LockComponent(LockType.SHARED_READ, LockLevel.TABLE, database, name, operation_type=insert)

    @rule(data=st.data(), commits=st.booleans())
    def end(self, data: st.DataObject, commits: bool) -> None:
        open_txns = sorted({write.txn_id for write in self._writes if write.state == "open"})
        if not open_txns:
            return
        txn_id = data.draw(st.sampled_from(open_txns))
        for write in self._writes:
            if write.txn_id == txn_id:
                write.state = "committed" if commits else "aborted"
        if commits:
            self._ms.commit_txn(txn_id)
        else:
            self._ms.abort_txn(txn_id)

    @rule()
    def read(self) -> None:
        (txn_id,) = self._ms.open_txns(txn_type=TxnType.READ_ONLY)
        committed = {(write.table, write.write_id) for write in self._writes if write.state == "committed"}
        self._readers.append(Reader(txn_id, self._ms.get_valid_txns(txn_id), committed))

    @rule(data=st.data())
    def end_reading(self, data: st.DataObject) -> None:
        if self._readers:
            reader = self._readers.pop(data.draw(st.integers(0, len(self._readers) - 1)))
            self._ms.commit_txn(reader.txn_id)

    @rule(table=st.sampled_from(TABLES))
    def clean_aborts(self, table: str) -> None:
        """A cleaner removes the files of a table's aborted transactions, then says so."""
        for info in self._ms.find_ready_to_clean_aborts(aborted_threshold=0):
            if str(info.table) == table:
                removed = [component.txn_id for component in self._ms.get_aborted_components(table)]
                self._forget_files(table, set(removed))
                self._ms.mark_cleaned(info, removed_txn_ids=removed)

    def _forget_files(self, table: str, txn_ids: set[TxnId]) -> None:
        for write in self._writes:
            if write.table == table and write.txn_id in txn_ids:
                assert write.state == "aborted"
                write.has_files = False

    @rule()
    def keep_house(self) -> None:
        """As late as possible: everybody who is open has sent heartbeats."""
        self._ms.clock_offset_seconds += RETENTION_SECONDS
        for txn_id in self._ms.get_valid_txns().open:
            self._ms.heartbeat(txn_id=txn_id)
        housekeeping(self._ms)

    # -- what holds --------------------------------------------------------------------------------

    @invariant()
    def a_new_reader_sees_what_is_committed(self) -> None:
        for table in TABLES:
            (now,) = self._ms.get_valid_write_ids([table])
            committed = {(w.table, w.write_id) for w in self._writes if w.state == "committed"}
            self._check(table, now, committed)
            assert now.high_water_mark == max((w.write_id for w in self._writes if w.table == table), default=0)

    @invariant()
    def a_reader_sees_what_was_committed_when_it_began(self) -> None:
        for reader in self._readers:
            for table in TABLES:
                (then,) = self._ms.get_valid_write_ids([table], reader.snapshot)
                self._check(table, then, reader.committed)

    def _check(self, table: str, seen: ValidWriteIdList, committed: set[tuple[str, WriteId]]) -> None:
        for write in self._writes:
            if write.table != table:
                continue
            if (table, write.write_id) in committed:
                assert seen.is_valid(write.write_id), write
            elif write.has_files or write.state != "aborted":
                assert not seen.is_valid(write.write_id), write


Pruning.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestPruning = Pruning.TestCase
