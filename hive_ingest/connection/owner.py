"""Who holds a source, told in a lock's agent info, and whether that process can still be alive."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_incarnations = itertools.count()


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that owns sources of a sink.

    `boot` tells boots of one host apart, and process id namespaces (containers) too.
    """

    sink: str
    host: str
    boot: str
    pid: int
    start: str
    incarnation: int

    @classmethod
    def of_this_process(cls, sink: str) -> Self:
        pid = os.getpid()
        return cls(sink, socket.gethostname(), _boot(), pid, _start_time(pid), next(_incarnations))

    def to_agent_info(self, agent_info: str) -> str:
        """Readable in SHOW LOCKS, and parsed back by `parse`."""
        facts = f"sink={self.sink} host={self.host} boot={self.boot} pid={self.pid} start={self.start}"
        return f"{agent_info} {facts} incarnation={self.incarnation}".strip()

    @classmethod
    def parse(cls, agent_info: str) -> Self | None:
        """None for the agent info of anybody else."""
        facts = dict(word.split("=", 1) for word in agent_info.split() if "=" in word)
        try:
            return cls(
                facts["sink"],
                facts["host"],
                facts["boot"],
                int(facts["pid"]),
                facts["start"],
                int(facts["incarnation"]),
            )
        except (KeyError, ValueError):
            return None

    def is_dead(self) -> bool:
        """Provably: this very host, and that process is gone, or the host has been booted since.

        Anybody else is presumed alive: only a time-out frees what it holds.
        """
        if self.host != socket.gethostname() or not self.boot or not _boot():
            return False
        mine, theirs = _boot().split("."), self.boot.split(".")
        if mine[0] != theirs[0]:
            return True
        return mine == theirs and _start_time(self.pid) != self.start


def _boot() -> str:
    if sys.platform != "linux":
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """In clock ticks since boot; empty when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]
