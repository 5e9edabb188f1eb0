"""Calls to HDFS that nobody awaits, with a client that needs no NameNode."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from typing import Any

import pytest

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage.hdfs import client as hdfs_client
from hive_ingest.storage.hdfs.client import HdfsClient

BEGINS_A_CALL = """
import os, time
from hive_ingest.storage.hdfs import client as hdfs_client

hdfs_client._process = os.getpid()
client = hdfs_client.HdfsClient("hdfs://nobody")
client._connected = object()
client.begin("finish", "/a", lambda _: (time.sleep(0.3), print("ended", flush=True)))
"""


class Held:
    """Something that a call holds."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> HdfsClient:
    monkeypatch.setattr(hdfs_client, "_process", os.getpid())
    client = HdfsClient("hdfs://nobody")
    monkeypatch.setattr(client, "_connected", object())
    return client


def test_the_end_of_the_process_waits_for_a_call() -> None:
    """Python ended the thread when the call came back, and hdfs-native aborted the process."""
    done = subprocess.run([sys.executable, "-c", BEGINS_A_CALL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


@pytest.mark.parametrize("error", [None, OSError("no such file")])
def test_what_a_call_held_is_freed_before_its_end_is_reported(client: HdfsClient, error: Exception | None) -> None:
    """A file that is freed closes itself, and so the end of the process has to wait for that, too."""
    held = Held()
    is_freed = weakref.ref(held)

    def function(_: Any, held: Held = held) -> None:
        assert held
        if error is not None:
            raise error

    call = client.begin("finish", "/a", function)
    del function, held
    assert call.wait(60.0)
    assert is_freed() is None


REFUSED = 'FatalRPCError("javax.security.sasl.SaslException", "GSS initiate failed")'


class Refusing:
    """A NameNode that refuses the ticket so often."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    def __call__(self, _: Any) -> str:
        self.calls += 1
        if self.calls <= self.times:
            raise RuntimeError(REFUSED)
        return "accepted"


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_client, "_REFUSAL_PAUSE_SECONDS", 0.0)


@pytest.mark.usefixtures("no_pause")
def test_a_ticket_that_is_refused_once_is_tried_again(client: HdfsClient) -> None:
    """Three of 7,000 connections were refused while eight threads opened them as fast as they could."""
    namenode = Refusing(1)
    assert client.call("create", "/a", namenode) == "accepted"
    assert namenode.calls == 2


@pytest.mark.usefixtures("no_pause")
def test_a_ticket_that_is_always_refused_is_an_error_with_what_to_do(client: HdfsClient) -> None:
    namenode = Refusing(1000)
    with pytest.raises(StreamingIOFailure, match=r"cannot create '/a': the NameNode refuses the Kerberos.*clocks"):
        client.call("create", "/a", namenode)
    assert namenode.calls == 5
