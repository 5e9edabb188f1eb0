"""A real HDFS that requires Kerberos, and a real KDC. hdfs-native logs in once per process: writers are processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kerberos.conftest import KerberizedHdfs, kerberized_hdfs_in
from tests.services.kdc import REALM, Kdc, login_environment

TICKET_SECONDS = 15
#: hdfs-native uses no token that ends within a minute.
TOKEN_SECONDS = 80
_ROOT = Path(__file__).parents[2]


class Writer:
    """A process that writes a file on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def write(self, name: str) -> str:
        """The process's answer: "done", or an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()


@contextmanager
def writer(hdfs: KerberizedHdfs, environment: Mapping[str, str]) -> Iterator[Writer]:
    command = [sys.executable, "-m", "tests.kerberos.hdfs_writer", hdfs.server.uri]
    environ = {**os.environ, "PYTHONPATH": str(_ROOT), "HADOOP_CONF_DIR": str(hdfs.configuration), **environment}
    with subprocess.Popen(
        command, env=environ, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Writer(process)
        finally:
            process.kill()


def test_files_are_written_and_read_with_a_keytab(
    kdc: Kdc, kerberized_hdfs: KerberizedHdfs, alice_keytab: Path, tmp_path: Path
) -> None:
    environment = login_environment(kdc.configuration(), alice_keytab, tmp_path / "ccache")
    with writer(kerberized_hdfs, environment) as alice:
        assert alice.write("keytab") == "done"


def test_a_keytab_renews_tickets_and_a_ticket_cache_alone_does_not(
    kdc: Kdc, kerberized_hdfs: KerberizedHdfs, alice_keytab: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "ccache"
    environment = login_environment(kdc.configuration(ticket_seconds=TICKET_SECONDS), alice_keytab, cache)
    with writer(kerberized_hdfs, environment) as early:
        assert early.write("early_1") == "done"
        without_keytab = {
            **environment,
            "KRB5CCNAME": str(tmp_path / "copy"),
            "KRB5_CLIENT_KTNAME": str(tmp_path / "none"),
        }
        (tmp_path / "copy").write_bytes(cache.read_bytes())
        with writer(kerberized_hdfs, without_keytab) as cached:
            assert cached.write("cached") == "done"
        wait_until_expired(kerberized_hdfs, without_keytab)
        # One that runs, and one that starts.
        assert early.write("early_2") == "done"
        with writer(kerberized_hdfs, environment) as late:
            assert late.write("late") == "done"


def test_a_ticket_cache_that_is_renewed_is_used_by_a_process_whose_ticket_has_expired(
    kdc: Kdc, kerberized_hdfs: KerberizedHdfs, alice_keytab: Path, tmp_path: Path
) -> None:
    """As `kinit`, `krenew` and `k5start` renew it: the file is replaced. A connection that is open needs no ticket."""
    with_keytab = login_environment(kdc.configuration(ticket_seconds=TICKET_SECONDS), alice_keytab, tmp_path / "ccache")
    cached = {"KRB5_CONFIG": with_keytab["KRB5_CONFIG"], "KRB5CCNAME": str(tmp_path / "cached")}
    renew(kerberized_hdfs, with_keytab, tmp_path)
    with writer(kerberized_hdfs, cached) as process:
        assert process.write("cached_1") == "done"
        wait_until_expired(kerberized_hdfs, cached)
        assert process.write("cached_2") == "done"
        restart_namenode(kerberized_hdfs)
        refused = process.write("cached_3")
        assert refused.startswith("StreamingIOFailure: cannot create '/cached_3': Kerberos authentication failed")
        assert "expired" in refused
        assert refused.endswith("Get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME")
        renew(kerberized_hdfs, with_keytab, tmp_path)
        assert process.write("cached_4") == "done"


def renew(hdfs: KerberizedHdfs, environment: Mapping[str, str], folder: Path) -> None:
    """Put a new ticket into the file `cached`."""
    (folder / "ccache").unlink(missing_ok=True)
    with writer(hdfs, environment) as process:
        assert process.write(f"renewal_{time.monotonic_ns()}") == "done"
    (folder / "ccache").rename(folder / "cached")


def restart_namenode(hdfs: KerberizedHdfs) -> None:
    """All connections to it are closed."""
    hdfs.server.stop_namenode()
    hdfs.server.start_namenode()


def wait_until_expired(hdfs: KerberizedHdfs, environment: Mapping[str, str]) -> None:
    """Until a process that starts is told that its ticket has expired. The server may be the first to notice."""
    deadline = time.monotonic() + 20 * TICKET_SECONDS
    answer = ""
    while time.monotonic() < deadline:
        with writer(hdfs, environment) as process:
            answer = process.write(f"refused_{time.monotonic_ns()}")
        if "expired" in answer:
            return
    raise AssertionError(f"the ticket never expired; the last answer is {answer!r}")


def test_delegation_tokens_are_enough_without_a_ticket(
    kdc: Kdc, kerberized_hdfs: KerberizedHdfs, alice_keytab: Path, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    kerberized_hdfs.server.write_tokens(tokens, f"alice@{REALM}", alice_keytab)
    environment = login_environment(kdc.configuration(), tmp_path / "none", tmp_path / "ccache")
    with writer(kerberized_hdfs, {**environment, "HADOOP_TOKEN_FILE_LOCATION": str(tokens)}) as executor:
        assert executor.write("tokens") == "done"


def test_a_keytab_takes_over_when_the_delegation_tokens_end(
    kdc: Kdc, hdfs_keytab: Path, alice_keytab: Path, tmp_path: Path
) -> None:
    """As in a container of YARN that runs for more than seven days, and has a keytab beside its tokens."""
    life = str(TOKEN_SECONDS * 1000)
    limits = {f"dfs.namenode.delegation.token.{name}": life for name in ("max-lifetime", "renew-interval")}
    with kerberized_hdfs_in(tmp_path / "hdfs", kdc, hdfs_keytab, limits) as hdfs:
        tokens, keytab = tmp_path / "tokens", tmp_path / "late.keytab"
        hdfs.server.write_tokens(tokens, f"alice@{REALM}", alice_keytab)
        environment = {
            **login_environment(kdc.configuration(), keytab, tmp_path / "ccache"),
            "HADOOP_TOKEN_FILE_LOCATION": str(tokens),
        }
        with writer(hdfs, environment) as container:
            assert container.write("tokens") == "done"  # there is no keytab yet
            assert "Kerberos authentication failed" in wait_until_refused(hdfs, environment)
            keytab.write_bytes(alice_keytab.read_bytes())
            restart_namenode(hdfs)
            assert container.write("keytab") == "done"


def test_a_keytab_takes_over_from_delegation_tokens_that_nobody_has_renewed(
    kdc: Kdc, hdfs_keytab: Path, alice_keytab: Path, tmp_path: Path
) -> None:
    """The client prefers them to a ticket, and cannot know that the NameNode refuses them."""
    interval = {"dfs.namenode.delegation.token.renew-interval": "10000"}
    with kerberized_hdfs_in(tmp_path / "hdfs", kdc, hdfs_keytab, interval) as hdfs:
        tokens, keytab = tmp_path / "tokens", tmp_path / "late.keytab"
        hdfs.server.write_tokens(tokens, f"alice@{REALM}", alice_keytab)
        environment = {
            **login_environment(kdc.configuration(), keytab, tmp_path / "ccache"),
            "HADOOP_TOKEN_FILE_LOCATION": str(tokens),
        }
        with writer(hdfs, environment) as container:
            assert container.write("tokens") == "done"  # there is no keytab yet
            refusal = wait_until_refused(hdfs, environment)
            assert "the delegation tokens in HADOOP_TOKEN_FILE_LOCATION have ended, or were not renewed" in refusal
            keytab.write_bytes(alice_keytab.read_bytes())
            restart_namenode(hdfs)
            assert container.write("keytab") == "done"


def wait_until_refused(hdfs: KerberizedHdfs, environment: Mapping[str, str]) -> str:
    """Until a process that starts finds no token that it may use, and no ticket. Returns the error."""
    deadline = time.monotonic() + 3 * TOKEN_SECONDS
    answer = "done"
    while answer == "done" and time.monotonic() < deadline:
        with writer(hdfs, environment) as process:
            answer = process.write(f"waiting_{time.monotonic_ns()}")
        time.sleep(1)
    assert answer != "done"
    return answer


def test_without_a_ticket_the_error_says_how_to_get_one(
    kdc: Kdc, kerberized_hdfs: KerberizedHdfs, tmp_path: Path
) -> None:
    environment = {"KRB5_CONFIG": str(kdc.configuration()), "KRB5CCNAME": str(tmp_path / "ccache")}
    with writer(kerberized_hdfs, environment) as nobody:
        answer = nobody.write("no_ticket")
    assert answer.startswith("StreamingIOFailure: cannot create '/no_ticket': Kerberos authentication failed: No cred")
    assert answer.endswith("Get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME")
