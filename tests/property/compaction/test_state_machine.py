"""Inserts, aborts, deletes, overwrites, compactions, cleanings, crashes and readers in any order, against a model."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import hive_ingest as hi
from hive_ingest.faults import CLEANER_FAULT_POINTS, WORKER_FAULT_POINTS
from hive_ingest.model import CompactionType, TxnId
from hive_ingest.reader import Scan
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.support.compactions import MAJOR, MINOR, Compacted, RowId, connect_quietly
from tests.support.metastores import housekeeping

KINDS = st.sampled_from([MINOR, MAJOR])


class Compactions(RuleBasedStateMachine):
    """One table. `model` has the row id of each visible row, by its value."""

    @initialize()
    def create(self) -> None:
        self.closing = contextlib.ExitStack()
        folder = Path(self.closing.enter_context(tempfile.TemporaryDirectory()))
        self.table = Compacted(self.closing.enter_context(connect_quietly(folder)))
        self.model: dict[int, RowId] = {}
        self.next_id = 0
        self.writers: list[TxnId] = []
        self.readers: list[tuple[Scan, list[int]]] = []

    def teardown(self) -> None:
        if hasattr(self, "closing"):
            for scan, _ in self.readers:
                scan.close()
            self.closing.close()

    def new_ids(self, count: int) -> list[int]:
        self.next_id += count
        return list(range(self.next_id - count, self.next_id))

    # -- writers -----------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def insert(self, count: int) -> None:
        ids = self.new_ids(count)
        self.table.insert(*ids)
        self.model |= {row[1]: row[0] for row in self.table.rows() if row[1] in ids}
        assert {*ids} <= {*self.model}

    @rule()
    def insert_and_abort(self) -> None:
        self.table.aborted_insert(*self.new_ids(1))
        self.model = {row[1]: row[0] for row in self.table.rows() if row[1] in self.model}

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.model)))
        self.table.delete(self.model.pop(chosen))

    @precondition(lambda self: not self.writers and not self.readers)
    @rule()
    def overwrite(self) -> None:
        ids = self.new_ids(2)
        self.table.insert(*ids, overwrite=True)
        self.model = {row[1]: row[0] for row in self.table.rows()}
        assert {*self.model} == {*ids}

    @rule()
    def begin_writer(self) -> None:
        self.writers.append(self.table.begin()[0])

    @precondition(lambda self: self.writers)
    @rule(commits=st.booleans())
    def end_writer(self, commits: bool) -> None:
        client = self.table.client
        (client.commit_txn if commits else client.abort_txn)(self.writers.pop(0))

    # -- readers -----------------------------------------------------------------------------------

    @rule()
    def begin_reader(self) -> None:
        self.readers.append((hi.scan(self.table.client, self.table.name), sorted(self.model)))

    @precondition(lambda self: self.readers)
    @rule()
    def end_reader(self) -> None:
        """It sees what was there when it began, whatever was compacted and cleaned meanwhile."""
        scan, expected = self.readers.pop(0)
        with scan:
            assert sorted(row for batch in scan for row in batch["id"].to_pylist()) == expected

    # -- compaction --------------------------------------------------------------------------------

    @rule(kind=KINDS)
    def compact(self, kind: CompactionType) -> None:
        if self.table.request(kind).accepted:
            self.table.work()

    @rule(kind=KINDS, point=st.sampled_from(WORKER_FAULT_POINTS))
    def compact_and_fail(self, kind: CompactionType, point: str) -> None:
        if self.table.request(kind).accepted:
            with faults(CrashPoint(point)), contextlib.suppress(FaultError):
                self.table.work()

    @rule()
    def clean(self) -> None:
        self.table.clean()

    @rule(point=st.sampled_from(CLEANER_FAULT_POINTS))
    def clean_and_fail(self, point: str) -> None:
        with faults(CrashPoint(point)), contextlib.suppress(FaultError):
            self.table.clean()

    @rule()
    def keep_house(self) -> None:
        housekeeping(self.table.client)

    @invariant()
    def rows_and_row_ids_are_those_of_the_model(self) -> None:
        if hasattr(self, "table"):
            assert {row[1]: row[0] for row in self.table.rows()} == self.model


TestCompactions = Compactions.TestCase
TestCompactions.settings = settings(max_examples=12, stateful_step_count=14, deadline=None)
