"""An owner is called dead only when that is certain."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from hive_ingest.transactions.owner import MAX_AGENT_INFO, Owner

ME = Owner.of_this_process("flights")


def test_an_owner_survives_the_way_through_a_locks_agent_info() -> None:
    assert Owner.parse(ME.to_agent_info("my job, run 7")) == ME


@pytest.mark.parametrize("host", ["h", "h" * 64])
@pytest.mark.parametrize("sink", ["s", "s" * 100])
def test_the_agent_info_fits_into_hives_column_and_loses_nothing_that_tells_who_is_dead(
    sink: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    owner = dataclasses.replace(Owner.of_this_process(sink), pid=4_194_304, start="123456789012", incarnation=99_999)
    text = owner.to_agent_info("a job with a long name " * 9)
    assert len(text) <= MAX_AGENT_INFO
    parsed = Owner.parse(text)
    assert parsed is not None
    assert dataclasses.replace(parsed, sink=sink) == owner


def test_the_agent_info_of_others_is_no_owner() -> None:
    assert Owner.parse("HiveServer2 query=1") is None
    assert Owner.parse("sink=a owner=b/c/x/1/0") is None
    assert Owner.parse("sink=a owner=b") is None


def test_a_living_process_is_not_dead() -> None:
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


def test_a_process_before_a_reboot_of_this_host_is_dead() -> None:
    assert dataclasses.replace(ME, boot="11111111-2222.1").is_dead()


def test_a_process_of_another_host_or_container_is_presumed_alive() -> None:
    assert not dataclasses.replace(ME, host="elsewhere", start="1").is_dead()
    boot, _, namespace = ME.boot.partition(".")
    assert not dataclasses.replace(ME, boot=f"{boot}.{int(namespace) + 1}", start="1").is_dead()
