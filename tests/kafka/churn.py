"""Instances of one group that die and are stopped again and again, at steps that a seed chooses."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.faults import FAULT_POINTS, KAFKA_FAULT_POINTS
from hive_ingest.testing import CrashPoint
from tests.kafka.landing import Instance, Landing

#: That an instance passes sooner or later while others come and go.
POINTS = tuple(
    point
    for point in (*KAFKA_FAULT_POINTS, *FAULT_POINTS)
    if point not in ("after_add_dynamic_partitions", "after_create_partitions", "after_spill", "commit_before_answer")
)
INSTANCES = 3
_MESSAGES_AT_A_TIME = 20
_PAUSE_SECONDS = 0.1
#: A stopped instance sleeps until so many others have died.
_DEATHS_OF_A_SLEEP = 2
_SHARE_OF_STOPS = 0.25
#: Not every instance passes the step that it is to die at.
_MOST_ROUNDS = 40
_LONGEST_SECONDS_OF_A_DEATH = 60.0


@dataclass
class _Slot:
    """A place in the group: an instance, the number of deaths when it fell asleep, and how many rounds it has lived."""

    instance: Instance
    sleeps_since: int | None = None
    rounds: int = 0


class Churn:
    """Runs until so many instances have died; stopped ones go on as zombies, whose partitions others have by then."""

    def __init__(self, landing: Landing, seed: int) -> None:
        self._landing = landing
        self._chance = random.Random(seed)
        self._seed = seed
        self.deaths = self.zombies = 0
        self._slots = [_Slot(self._start()) for _ in range(INSTANCES)]

    def run(self, deaths: int) -> None:
        """Raises AssertionError as soon as the table has anything but each message once."""
        deadline = time.monotonic() + deaths * _LONGEST_SECONDS_OF_A_DEATH
        try:
            while self.deaths < deaths or any(slot.sleeps_since is not None for slot in self._slots):
                assert time.monotonic() < deadline, f"seed {self._seed}: only {self.deaths} instances have died"
                self._landing.produce(_MESSAGES_AT_A_TIME)
                for slot in self._slots:
                    self._look_at(slot)
                time.sleep(_PAUSE_SECONDS)
        finally:
            for slot in self._slots:
                slot.instance.kill()
        last = self._landing.start(until_end=True)
        assert last.wait() == 0, f"seed {self._seed}: {last.log[-3000:]}"
        self._landing.check()

    def _start(self) -> Instance:
        how = signal.SIGSTOP if self._chance.random() < _SHARE_OF_STOPS else signal.SIGKILL
        return self._landing.start(CrashPoint(self._chance.choice(POINTS), self._chance.randint(1, 4), how))

    def _look_at(self, slot: _Slot) -> None:
        code = slot.instance.process.poll()
        if code is not None:
            assert code == -signal.SIGKILL, f"seed {self._seed}: it ended with {code}:\n{slot.instance.log[-3000:]}"
            self.deaths += 1
            self._check()
            slot.instance, slot.sleeps_since, slot.rounds = self._start(), None, 0
            return
        slot.rounds += 1
        if slot.sleeps_since is None and _is_stopped(slot.instance):
            slot.sleeps_since = self.deaths
        elif slot.sleeps_since is not None and self._has_slept(slot.sleeps_since):
            self._resume(slot)
        elif slot.sleeps_since is None and slot.rounds > _MOST_ROUNDS:
            slot.instance.process.kill()  # it did not pass its step: then anywhere

    def _check(self) -> None:
        try:
            self._landing.check_so_far()
        except MetastoreUnavailable:
            # An instance that was stopped within a call holds the write lock of an SQLite file.
            for slot in self._slots:
                self._resume(slot)
            self._landing.check_so_far()

    def _has_slept(self, since: int) -> bool:
        all_sleep = all(slot.sleeps_since is not None for slot in self._slots)
        return all_sleep or self.deaths >= since + _DEATHS_OF_A_SLEEP

    def _resume(self, slot: _Slot) -> None:
        """Wake a zombie up. From then on it is a member like the others."""
        if slot.sleeps_since is not None:
            self.zombies += 1
            slot.sleeps_since, slot.rounds = None, 0
            slot.instance.process.send_signal(signal.SIGCONT)


def _is_stopped(instance: Instance) -> bool:
    try:
        text = Path(f"/proc/{instance.process.pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "T"
