"""A worker's id names its process, so that only the work of a dead one is taken back."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from hive_ingest.compaction import worker_name
from hive_ingest.compaction.worker_ids import agent_info_of, is_of_this_process, new_worker_id, owner_of_worker
from hive_ingest.model import CompactionInfo, CompactionState, CompactionType, TableName
from hive_ingest.transactions import Owner

#: The length of CQ_WORKER_ID in Hive.
LONGEST = 128


def info_of(worker_id: str | None) -> CompactionInfo:
    state = CompactionState.WORKING
    return CompactionInfo(1, TableName("db", "t"), None, CompactionType.MINOR, state, worker_id=worker_id)


def test_each_worker_has_an_id_of_its_own_that_names_its_process() -> None:
    one, other = new_worker_id(), new_worker_id()
    assert one != other
    assert is_of_this_process(one)
    assert is_of_this_process(other)
    owner = owner_of_worker(one)
    assert owner is not None
    assert (owner.pid, owner.is_dead()) == (os.getpid(), False)


@pytest.mark.parametrize("host", ["h", "a-host-with-dashes", "h" * 64])
def test_the_id_fits_into_hives_column_and_is_read_back(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    worker_id = new_worker_id()
    assert len(worker_id) <= LONGEST - 24, "machine, boot, pid and start may be longer elsewhere"
    owner = owner_of_worker(worker_id)
    assert owner is not None
    assert owner.host.startswith(host[:24])


@pytest.mark.parametrize("other", [None, "", "host-37", "hive-ingest-host-4711-0001", "hive-ingest-"])
def test_workers_of_hive_and_of_earlier_versions_have_no_known_process(other: str | None) -> None:
    assert owner_of_worker(other) is None
    assert not is_of_this_process(other)
    assert worker_name(other) == other


def test_people_see_host_process_and_number() -> None:
    assert worker_name("hive-ingest-my-host/01234567/abc.1/4711/99-0003") == "hive-ingest-my-host-4711-0003"


def test_the_transaction_of_a_compaction_names_its_worker() -> None:
    worker_id = new_worker_id()
    owner = owner_of_worker(worker_id)
    assert Owner.parse(agent_info_of(info_of(worker_id))) == owner
    fallback = Owner.parse(agent_info_of(info_of("worker of a test")))
    assert fallback is not None
    assert fallback.is_this_process


def test_another_process_is_not_this_one() -> None:
    owner = Owner.of_this_process()
    assert owner.is_this_process
    assert not replace(owner, start="1").is_this_process
