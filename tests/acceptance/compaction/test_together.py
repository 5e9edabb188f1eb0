"""Writers, readers and several compactors at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

import hive_ingest as hi
from hive_ingest.acid import ValidTxnList
from hive_ingest.compaction import (
    Cleaner,
    CleanerSettings,
    CompactionOutcome,
    Compactor,
    CompactorSettings,
    JobSettings,
    MergeSettings,
    compact,
)
from hive_ingest.config import StreamingSettings
from hive_ingest.connection.progress import SinkProgress
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState
from tests.support.compactions import NO_GRACE, Compacted
from tests.support.fronts import Front

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own roles")

TRANSACTIONS = 40


def test_readers_and_writers_go_on_while_several_compactors_work(ms: EmbeddedMetastoreClient) -> None:
    """Each snapshot holds a whole number of transactions, and never fewer than the one before."""
    table = Compacted(ms)
    settings = CompactorSettings(
        job=JobSettings(merge=MergeSettings(fsync=False)),
        cleaner=CleanerSettings(aborted_grace_seconds=0),
        initiator_seconds=0.05,
        worker_seconds=0.05,
        cleaner_seconds=0.05,
    )
    compactors = [Compactor(ms, workers=2, settings=settings) for _ in range(2)]
    is_over = threading.Event()

    def write() -> None:
        with ms.clone() as client:
            for number in range(TRANSACTIONS):
                hi.append(client, table.name, _rows(number), settings={"fsync": False})

    def read() -> list[int]:
        seen = [0]
        with ms.clone() as client:
            while not is_over.is_set():
                found = sorted(hi.read_table(client, table.name)["id"].to_pylist())
                assert found == list(range(len(found)))
                assert len(found) % 10 == 0
                assert len(found) >= seen[-1]
                seen.append(len(found))
        return seen

    with ThreadPoolExecutor(6) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        running = [threads.submit(compactor.run) for compactor in compactors]
        try:
            threads.submit(write).result()
        finally:
            is_over.set()
            for compactor in compactors:
                compactor.stop()
        for reader in readers:
            reader.result()
        for compactor_run in running:
            compactor_run.result()
    Compactor(ms, settings=settings).run_once()
    assert table.ids() == list(range(10 * TRANSACTIONS))
    states = {info.state for info in table.history()}
    assert CompactionState.SUCCEEDED in states
    assert CompactionState.FAILED not in states, [info.error_message for info in table.history()]
    assert len(table.folders()) < 12


def test_a_compaction_hides_no_progress_from_a_commit_whose_answer_was_lost(ms: EmbeddedMetastoreClient) -> None:
    """The files that its snapshot needs must not be removed before it has listed them."""
    table = Compacted(ms)
    found = None
    for number in range(2):
        found = hi.append(ms, table.name, _rows(number), sink="s", source="a", position=number)
    assert found is not None
    compactions: list[CompactionOutcome] = []

    def compact_and_clean(*args: Any) -> ValidTxnList:
        snapshot = ms.get_valid_txns(*args)
        if not compactions:
            compactions.extend(compact(ms, "web.s__progress", wait=True))
            Cleaner(ms, NO_GRACE).run_once()
        return snapshot

    client = cast("MetastoreClient", Front(ms, get_valid_txns=compact_and_clean))
    progress = SinkProgress(client, ms.get_table(table.name), "s", ["a"], StreamingSettings())
    assert progress.was_committed(found.txn_id)
    assert [outcome.is_problem for outcome in compactions] == [False]


def _rows(number: int) -> object:
    import pyarrow as pa

    ids = list(range(10 * number, 10 * number + 10))
    return pa.table({"id": pa.array(ids, pa.int32()), "text": [f"row {i}" for i in ids]})
