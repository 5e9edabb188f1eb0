"""Who holds a source, told in a lock's agent info, and whether that process can still be alive."""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hive_ingest.identity import this_host

#: Of HL_AGENT_INFO and TXN_AGENT_INFO in Hive: a longer one makes the metastore refuse the lock.
MAX_AGENT_INFO = 128
_LONGEST_HOST = 40
#: Of the boot's 32: so many tell boots of one host apart.
_BOOT_DIGITS = 12
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
        return cls(sink, _host(), _boot(), pid, _start_time(pid), next(_incarnations))

    def to_agent_info(self, agent_info: str) -> str:
        """Readable in SHOW LOCKS, and parsed back by `parse`; as long as Hive's column at most."""
        owner = f"owner={self.host}/{self.boot}/{self.pid}/{self.start}/{self.incarnation}"
        sink = f"sink={self.sink}"[: MAX_AGENT_INFO - len(owner) - 1]
        return f"{sink} {owner} {agent_info}"[:MAX_AGENT_INFO].rstrip()

    @classmethod
    def parse(cls, agent_info: str) -> Self | None:
        """None for the agent info of anybody else. A long name of a sink comes back cut."""
        facts = dict(word.split("=", 1) for word in agent_info.split() if "=" in word)
        try:
            host, boot, pid, start, incarnation = facts["owner"].split("/")
            return cls(facts["sink"], host, boot, int(pid), start, int(incarnation))
        except (KeyError, ValueError):
            return None

    def is_dead(self) -> bool:
        """Provably: this very host, and that process is gone, or the host has been booted since.

        Anybody else is presumed alive: only a time-out frees what it holds.
        """
        if self.host != _host() or not self.boot or not _boot():
            return False
        mine, theirs = _boot().split("."), self.boot.split(".")
        if mine[0] != theirs[0]:
            return True
        return mine == theirs and _start_time(self.pid) != self.start


def _host() -> str:
    """The host's name; a long one by its beginning and a digest."""
    name = this_host().replace("/", "_")
    return name if len(name) <= _LONGEST_HOST else f"{name[:24]}~{hashlib.sha256(name.encode()).hexdigest()[:15]}"


def _boot() -> str:
    if sys.platform != "linux":
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        return f"{boot.strip().replace('-', '')[:_BOOT_DIGITS]}.{os.stat('/proc/self/ns/pid').st_ino}"
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
