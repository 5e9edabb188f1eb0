"""The owner of a source, as written to a lock's agent info, and whether its process may still be alive."""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hive_ingest.identity import this_host

#: Length of HL_AGENT_INFO and TXN_AGENT_INFO in Hive: the metastore refuses a lock with a longer text.
MAX_AGENT_INFO = 128
_LONGEST_HOST = 40
#: Digits kept of the boot id's 32: enough to distinguish boots of one host.
_BOOT_DIGITS = 12
#: Digits kept of the machine id's digest: enough to distinguish machines of one name.
_MACHINE_DIGITS = 8
#: The inode of the namespace that the kernel starts with (PROC_PID_INIT_INO). Any other one is a container's.
_HOST_NAMESPACE = str(0xEFFFFFFC)
_MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_incarnations = itertools.count()


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that owns sources of a sink, or compactions.

    Attributes:
        sink: The sink's name. Empty for a worker of compactions.
        host: The host's name.
        machine: A digest of the host's machine id. Empty where it has none, and in a container, whose machine id is
            that of its image.
        boot: The boot of the host and the process id namespace (container) in it, divided by a dot. Empty where the
            system does not say.
        pid: The process id.
        start: When the process started, in clock ticks since boot. Empty where the system does not say.
        incarnation: Counts the connections and workers of a process.
    """

    sink: str
    host: str
    machine: str
    boot: str
    pid: int
    start: str
    incarnation: int

    @classmethod
    def of_this_process(cls, sink: str = "") -> Self:
        pid = os.getpid()
        return cls(sink, _host(), _machine(), _boot(), pid, _start_time(pid) or "", next(_incarnations))

    @property
    def is_this_process(self) -> bool:
        """Whether the calling process is the owner, by whatever incarnation."""
        pid = os.getpid()
        return (self.pid, self.start, self.boot, self.host) == (pid, _start_time(pid) or "", _boot(), _host())

    @property
    def process(self) -> str:
        """The process as text: what `is_dead` needs to know, without the incarnation."""
        return f"{self.host}/{self.machine}/{self.boot}/{self.pid}/{self.start}"

    def to_agent_info(self, agent_info: str) -> str:
        """The text shown by SHOW LOCKS, which `parse` reads back. It fits into Hive's column."""
        owner = f"owner={self.process}/{self.incarnation}"
        sink = f"sink={self.sink}"[: MAX_AGENT_INFO - len(owner) - 1] + " " if self.sink else ""
        return f"{sink}{owner} {agent_info}"[:MAX_AGENT_INFO].rstrip()

    @classmethod
    def parse(cls, agent_info: str) -> Self | None:
        """The owner in an agent info; None for that of other software. A long sink name is truncated.

        Earlier versions wrote no machine: it is empty for those owners.
        """
        facts = dict(word.split("=", 1) for word in agent_info.split() if "=" in word)
        process, _, incarnation = facts.get("owner", "").rpartition("/")
        return cls.parse_process(process, incarnation, sink=facts.get("sink", ""))

    @classmethod
    def parse_process(cls, process: str, incarnation: str, *, sink: str = "") -> Self | None:
        """The owner whose `process` and incarnation these are; None for other texts."""
        try:
            host, *machine, boot, pid, start = process.split("/")
            if len(machine) > 1:
                return None
            return cls(sink, host, "".join(machine), boot, int(pid), start, int(incarnation))
        except ValueError:
            return None

    def is_dead(self) -> bool:
        """Whether the owner is provably dead: its process on this host is gone, or this machine was rebooted since.

        Any other owner is presumed alive: only a timeout releases its locks.
        """
        boot = _boot()
        if self.host != _host() or not self.boot or not boot:
            return False
        if boot.partition(".")[0] != self.boot.partition(".")[0]:
            # Without the machine id, two machines of one name would look like one that was rebooted.
            return bool(self.machine) and self.machine == _machine()
        return boot == self.boot and _is_gone(self.pid, self.start)


def _is_gone(pid: int, start: str) -> bool:
    """Whether the process of that id and start time is no longer running, on this host and in this namespace."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it runs as another user
    found = _start_time(pid)
    # An entry that cannot be read (hidepid) proves nothing.
    return found is not None and bool(start) and found != start


def _host() -> str:
    """The host's name. A long one is shortened to its beginning and a digest."""
    name = this_host().replace("/", "_")
    return name if len(name) <= _LONGEST_HOST else f"{name[:24]}~{hashlib.sha256(name.encode()).hexdigest()[:15]}"


def _machine() -> str:
    """A digest of the machine id, which must not be disclosed itself (machine-id(5))."""
    if _boot().partition(".")[2] != _HOST_NAMESPACE:
        return ""
    for file in _MACHINE_ID_FILES:
        try:
            text = Path(file).read_text("ascii").strip()
        except (OSError, ValueError):
            continue
        if len(text) >= 32:  # "uninitialized" or empty in an image before its first boot
            return hashlib.sha256(f"hive-ingest {text}".encode()).hexdigest()[:_MACHINE_DIGITS]
    return ""


def _boot() -> str:
    if sys.platform != "linux":
        return ""
    try:
        # A /proc that was mounted in another process id namespace shows other processes under our ids (unshare(1)
        # without --mount-proc), and their start times prove nothing.
        if os.readlink("/proc/self") != str(os.getpid()):
            return ""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        return f"{boot.strip().replace('-', '')[:_BOOT_DIGITS]}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """The start time in clock ticks since boot; empty for a zombie process; None if it cannot be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]
