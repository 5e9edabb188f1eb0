"""An owner is called dead only when that is certain."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

from hive_ingest.connection.owner import Owner

ME = Owner.of_this_process("flights")


def test_an_owner_survives_the_way_through_a_locks_agent_info() -> None:
    assert Owner.parse(ME.to_agent_info("my job, run 7")) == ME


def test_the_agent_info_of_others_is_no_owner() -> None:
    assert Owner.parse("HiveServer2 query=1") is None
    assert Owner.parse("sink=a host=b boot=c pid=x start=1 incarnation=0") is None


def test_a_living_process_is_not_dead() -> None:
    assert not ME.is_dead()


def test_a_process_that_ended_is_dead() -> None:
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            "from hive_ingest.connection.owner import Owner; print(Owner.of_this_process('s').to_agent_info(''))",
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


def test_a_process_before_a_reboot_of_this_host_is_dead() -> None:
    assert dataclasses.replace(ME, boot="11111111-2222.1").is_dead()


def test_a_process_of_another_host_or_container_is_presumed_alive() -> None:
    assert not dataclasses.replace(ME, host="elsewhere", start="1").is_dead()
    boot, _, namespace = ME.boot.partition(".")
    assert not dataclasses.replace(ME, boot=f"{boot}.{int(namespace) + 1}", start="1").is_dead()
