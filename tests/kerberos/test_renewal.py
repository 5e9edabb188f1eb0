"""A login while the process runs: new keys, another environment, and no ticket in the middle of a commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.errors import CommitOutcomeUnknown
from tests.kerberos.conftest import KerberizedMetastore
from tests.services.kdc import Kdc, login_environment
from tests.support import connections
from tests.support.rows import ids
from tests.thrift.proxy import Fault, FaultyProxy

TICKET_SECONDS = 6
_ROOT = Path(__file__).parents[2]

#: Connects again for each line of its input; answers "connected", or the error.
_CONNECTING = """
import json, os, sys
import hive_ingest as hi

uri, options, keytab = json.loads(sys.argv[1])
for line in sys.stdin:
    try:
        os.environ.update(json.loads(line))
        hi.connect_metastore(uri, **options, keytab=keytab).close()
        print("connected", flush=True)
    except hi.StreamingError as error:
        print(str(error).replace(chr(10), " "), flush=True)
"""


class Connecting:
    """A process that logs in with a keytab, and connects on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def connect(self, **environment: str) -> str:
        """With these variables changed before. Returns "connected", or the error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(environment), file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()


@contextmanager
def connecting(kdc: Kdc, metastore: KerberizedMetastore, keytab: Path) -> Iterator[Connecting]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KRB5")}
    environ |= {"PYTHONPATH": str(_ROOT), "KRB5_CONFIG": str(kdc.configuration(ticket_seconds=TICKET_SECONDS))}
    options = {**metastore.options, "retry_seconds": 0.1}
    command = [sys.executable, "-c", _CONNECTING, json.dumps([metastore.uri, options, str(keytab)])]
    with subprocess.Popen(
        command, env=environ, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Connecting(process)
        finally:
            process.kill()


def test_a_keytab_that_is_replaced_is_used_for_the_next_ticket(
    kdc: Kdc, kerberized: Callable[..., KerberizedMetastore], tmp_path: Path
) -> None:
    metastore = kerberized("4.0.1")
    keytab, old = tmp_path / "erin.keytab", kdc.keytab("erin")
    keytab.write_bytes(old.read_bytes())
    with connecting(kdc, metastore, keytab) as process:
        assert process.connect() == "connected"
        new = kdc.rekey("erin")
        keytab.write_bytes(new.read_bytes())
        end = time.monotonic() + 2 * TICKET_SECONDS
        while time.monotonic() < end:
            assert process.connect() == "connected"
    with connecting(kdc, metastore, old) as late:
        refusal = late.connect()
    assert f"Check that the keytab '{old}' (KRB5_CLIENT_KTNAME) can be read and has the present keys" in refusal


def test_a_login_is_repeated_where_the_environment_was_changed_since(
    kdc: Kdc, kerberized: Callable[..., KerberizedMetastore], alice_keytab: Path, tmp_path: Path
) -> None:
    with connecting(kdc, kerberized("4.0.1"), alice_keytab) as process:
        assert process.connect() == "connected"
        other = {"KRB5CCNAME": str(tmp_path / "other"), "KRB5_CLIENT_KTNAME": str(tmp_path / "none")}
        assert process.connect(**other) == "connected"
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("fault", [Fault.REQUEST_CUT, Fault.ANSWER_CUT])
def test_a_commit_that_loses_its_connection_and_its_login_is_unknown(
    kdc: Kdc,
    kerberized: Callable[..., KerberizedMetastore],
    alice_keytab: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
) -> None:
    """It was raised as a refusal by the metastore, although the commit may have taken effect."""
    metastore = kerberized("4.0.1")
    keytab, cache = tmp_path / "alice.keytab", tmp_path / "ccache"
    keytab.write_bytes(alice_keytab.read_bytes())
    for name, value in login_environment(kdc.configuration(), keytab, cache).items():
        monkeypatch.setenv(name, value)

    def log_out() -> None:
        keytab.unlink()
        cache.unlink()

    with FaultyProxy(metastore.server.port) as proxy:
        options = {**metastore.options, "retry_seconds": 0.1}
        with hi.connect_metastore(proxy.uri, **options) as client:
            client.create_table("default.t", columns={"id": "int"})
            with connections.connect(client, "default.t", settings={"commit_retry_seconds": 1.0}) as connection:
                connection.begin_transaction()
                connection.write(b'{"id": 1}')
                proxy.arm("commit_txn", fault, log_out)
                with pytest.raises(CommitOutcomeUnknown, match="Kerberos authentication"):
                    connection.commit_transaction()
            assert proxy.hit == "commit_txn"
    keytab.write_bytes(alice_keytab.read_bytes())
    with hi.connect_metastore(metastore.uri, **metastore.options) as client:
        assert ids(client, "default.t") == ([1] if fault is Fault.ANSWER_CUT else [])
