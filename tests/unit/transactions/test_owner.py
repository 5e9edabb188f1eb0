"""An owner counts as dead only if that is certain."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.transactions.owner import MAX_AGENT_INFO, Owner
from tests.support.waiting import wait_until

ME = Owner.of_this_process("flights")
HOST_NAMESPACE = 0xEFFFFFFC


@pytest.fixture
def machine_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "machine-id"
    file.write_text(f"{'0123456789abcdef' * 2}\n")
    monkeypatch.setattr("hive_ingest.transactions.owner._MACHINE_ID_FILES", (str(file),))
    return file


@pytest.fixture
def this_machine(machine_id: Path, monkeypatch: pytest.MonkeyPatch) -> Owner:
    """This process, as if it ran outside any container on a machine that has a machine id."""
    monkeypatch.setattr("hive_ingest.transactions.owner._boot", lambda: f"aaaaaaaaaaaa.{HOST_NAMESPACE}")
    owner = Owner.of_this_process("flights")
    assert len(owner.machine) == 8
    return owner


def start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_an_owner_survives_the_round_trip_through_a_locks_agent_info() -> None:
    assert Owner.parse(ME.to_agent_info("my job, run 7")) == ME


@pytest.mark.parametrize("host", ["h", "h" * 64])
@pytest.mark.parametrize("sink", ["s", "s" * 100])
def test_the_agent_info_fits_into_hives_column_and_still_identifies_dead_owners(
    sink: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    owner = dataclasses.replace(
        Owner.of_this_process(sink),
        machine="01234567",
        boot=f"aaaaaaaaaaaa.{HOST_NAMESPACE}",
        pid=4_194_304,
        start="123456789012",
        incarnation=99_999,
    )
    text = owner.to_agent_info("a job with a long name " * 9)
    assert len(text) <= MAX_AGENT_INFO
    parsed = Owner.parse(text)
    assert parsed is not None
    assert dataclasses.replace(parsed, sink=sink) == owner


def test_the_agent_info_of_other_software_is_not_an_owner() -> None:
    assert Owner.parse("HiveServer2 query=1") is None
    assert Owner.parse("sink=a owner=b/c/x/1/0") is None
    assert Owner.parse("sink=a owner=b") is None
    assert Owner.parse("sink=a owner=a/b/c/d/1/2/3") is None


def test_a_running_process_is_not_dead() -> None:
    assert not ME.is_dead()


def test_a_process_that_ended_is_dead() -> None:
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            "from hive_ingest.transactions.owner import Owner; print(Owner.of_this_process('s').to_agent_info(''))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    owner = Owner.parse(child.stdout)
    assert owner is not None
    assert owner.is_dead()


def test_a_reused_process_id_is_another_process() -> None:
    assert dataclasses.replace(ME, start="1").is_dead()


def test_a_process_before_a_reboot_of_this_machine_is_dead(this_machine: Owner) -> None:
    assert dataclasses.replace(this_machine, boot=f"111111112222.{HOST_NAMESPACE}").is_dead()


def test_two_machines_of_one_name_are_not_one_rebooted_machine(this_machine: Owner) -> None:
    """Boots were distinguished by the host name only: a living owner on the other machine was aborted."""
    other_boot = f"111111112222.{HOST_NAMESPACE}"
    assert not dataclasses.replace(this_machine, boot=other_boot, machine="00000000").is_dead()
    assert not dataclasses.replace(this_machine, boot=other_boot, machine="").is_dead()


def test_a_container_has_no_machine_id_of_its_own(this_machine: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_ingest.transactions.owner._boot", lambda: "aaaaaaaaaaaa.4026532281")
    owner = Owner.of_this_process("flights")
    assert owner.machine == ""
    assert not dataclasses.replace(owner, boot="111111112222.4026532281").is_dead()


@pytest.mark.parametrize("content", ["", "uninitialized\n", "é" * 40])
def test_a_machine_without_a_machine_id_is_never_taken_for_another_boot_of_itself(
    this_machine: Owner, machine_id: Path, content: str
) -> None:
    machine_id.write_text(content)
    owner = Owner.of_this_process("flights")
    assert owner.machine == ""
    assert not dataclasses.replace(owner, boot=f"111111112222.{HOST_NAMESPACE}").is_dead()


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_a_process_that_cannot_be_inspected_is_presumed_alive(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """Under hidepid, /proc has no entry for the processes of others: each of them counted as gone."""
    real = Path.read_text

    def read_text(self: Path, *args: Any, **kwargs: Any) -> str:
        if str(self) == f"/proc/{ME.pid}/stat":
            raise error(str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert not ME.is_dead()
    assert not dataclasses.replace(ME, start="1").is_dead()


def test_a_process_of_another_user_is_presumed_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(pid: int, signal: int) -> None:
        raise PermissionError(pid)

    monkeypatch.setattr("os.kill", kill)
    assert not ME.is_dead()


def test_a_zombie_process_is_dead() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    owner = dataclasses.replace(ME, pid=child.pid, start=start_time(child.pid))
    assert not owner.is_dead()
    child.communicate()
    assert owner.is_dead()
    zombie = subprocess.Popen(["true"])
    try:
        wait_until(lambda: dataclasses.replace(ME, pid=zombie.pid).is_dead())
    finally:
        zombie.wait()


def test_owners_as_earlier_versions_wrote_them_are_understood() -> None:
    """They name no machine, so only the same boot of a host proves anything."""
    text = f"sink=flights owner={ME.host}/{ME.boot}/{ME.pid}/{ME.start}/3 my job"
    owner = Owner.parse(text)
    assert owner == dataclasses.replace(ME, machine="", incarnation=3)
    assert not owner.is_dead()
    assert dataclasses.replace(owner, start="1").is_dead()
    assert not dataclasses.replace(owner, boot=f"111111112222.{HOST_NAMESPACE}").is_dead()


def test_a_process_of_another_host_or_container_is_presumed_alive() -> None:
    assert not dataclasses.replace(ME, host="elsewhere", start="1").is_dead()
    boot, _, namespace = ME.boot.partition(".")
    assert not dataclasses.replace(ME, boot=f"{boot}.{int(namespace) + 1}", start="1").is_dead()


def test_the_proc_of_another_namespace_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `unshare --pid` without `--mount-proc`: /proc shows other processes under the same ids."""
    gone = dataclasses.replace(ME, start="1")
    assert gone.is_dead()
    another_id = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: another_id)
    assert not gone.is_dead()
    assert not Owner.of_this_process().boot
