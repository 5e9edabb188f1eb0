"""What a route gets from the consumer's thread, and when it must stop."""

from __future__ import annotations

import pytest

from hive_ingest.streaming.kafka.inbox import AssignmentChanged, Batch, Finished, RouteInbox, Start


def batch(version: int, nbytes: int = 10) -> Batch:
    return Batch(version, 0, ["message"], 1, -1, nbytes)


def test_items_of_an_earlier_version_are_dropped() -> None:
    inbox = RouteInbox()
    inbox.assign(frozenset({0}))
    assignment = inbox.wait_for_partitions()
    for version in (1, 2):
        inbox.put(Start(version, {}))
        inbox.put(batch(version))
    assert inbox.queued_bytes == 20
    assert inbox.get(assignment, 2, 0) == Start(2, {})
    assert inbox.get(assignment, 2, 0) == batch(2)
    assert inbox.get(assignment, 2, 0) is None
    assert inbox.queued_bytes == 0


def test_a_changed_assignment_comes_before_what_is_queued() -> None:
    inbox = RouteInbox()
    inbox.assign(frozenset({0, 1}))
    assignment = inbox.wait_for_partitions()
    inbox.put(batch(1))
    inbox.assign(frozenset({0}))
    with pytest.raises(AssignmentChanged) as change:
        inbox.get(assignment, 1, 0)
    assert not change.value.is_lost
    assignment = inbox.wait_for_partitions()
    inbox.assign(frozenset(), is_lost=True)
    with pytest.raises(AssignmentChanged) as change:
        inbox.check(assignment)
    assert change.value.is_lost


def test_a_restart_is_a_change_although_the_partitions_are_the_same() -> None:
    inbox = RouteInbox()
    inbox.assign(frozenset({0}))
    assignment = inbox.wait_for_partitions()
    inbox.restart()
    with pytest.raises(AssignmentChanged):
        inbox.check(assignment)
    assert inbox.wait_for_partitions().partitions == {0}


def test_in_a_hurry_an_empty_queue_does_not_wait_but_the_start_does() -> None:
    inbox = RouteInbox()
    inbox.assign(frozenset({0}))
    assignment = inbox.wait_for_partitions()
    inbox.hurry()
    assert inbox.get(assignment, 1, 0.01) is None
    inbox.put(Start(1, {}))
    assert isinstance(inbox.get(assignment, 1, 60), Start)
    assert inbox.get(assignment, 1, 60) is None


def test_the_end_wakes_up_whoever_waits() -> None:
    inbox = RouteInbox()
    inbox.finish()
    with pytest.raises(Finished):
        inbox.wait_for_partitions()
    inbox.pause(60)
