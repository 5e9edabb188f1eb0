"""A real metastore that requires Kerberos, and a real KDC."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import MetastoreError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.thrift.kerberos import Gssapi
from tests.kerberos.conftest import KerberizedMetastore
from tests.services.kdc import REALM, Kdc, login_environment

TICKET_SECONDS = 15


@pytest.fixture
def login(kdc: Kdc, alice_keytab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives this process a keytab, a new ticket cache, and tickets that live so long."""

    def log_in(*, ticket_seconds: int = 3600, keytab: Path | None = alice_keytab) -> None:
        environment = login_environment(
            kdc.configuration(ticket_seconds=ticket_seconds), keytab or tmp_path / "none", tmp_path / "ccache"
        )
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return log_in


def connect(metastore: KerberizedMetastore, **options: object) -> MetastoreClient:
    return hi.connect_metastore(metastore.uri, **{**metastore.options, "retry_seconds": 0.1, **options})


@pytest.mark.parametrize(
    ("version", "protection"), [("4.0.1", "authentication"), ("4.0.1", "privacy"), ("3.1.3", "integrity")]
)
def test_rows_are_streamed_with_a_keytab(
    kerberized: Callable[..., KerberizedMetastore], login: Callable[..., None], version: str, protection: str
) -> None:
    metastore = kerberized(version, protection)
    login()
    with connect(metastore) as client:
        # A call longer than one message of the security layer.
        client.create_table("default.t", columns={"id": "int"}, properties={"long": "x" * 3900, "longer": "y" * 3900})
        hi.append(client, "default.t", pa.table({"id": [1, 2]}))
        assert hi.read_table(client, "default.t").column("id").to_pylist() == [1, 2]
        with client.clone() as other:
            assert other.get_table("default.t").properties["longer"] == "y" * 3900


def test_a_login_that_the_server_refuses_once_is_repeated(
    kerberized: Callable[..., KerberizedMetastore], login: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that with a ticket which expires on its way."""
    metastore = kerberized("4.0.1")
    login()
    refused = iter([b"not a ticket"])
    respond = Gssapi.initial_response
    monkeypatch.setattr(Gssapi, "initial_response", lambda self: next(refused, None) or respond(self))
    connect(metastore).close()
    assert next(refused, None) is None
    monkeypatch.setattr(Gssapi, "initial_response", lambda self: b"not a ticket")
    with pytest.raises(MetastoreError, match="refuses SASL GSSAPI"):
        connect(metastore)


def test_a_keytab_renews_tickets_and_a_ticket_cache_alone_does_not(
    kerberized: Callable[..., KerberizedMetastore],
    login: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metastore = kerberized("4.0.1", "privacy")
    login(ticket_seconds=TICKET_SECONDS)
    with connect(metastore) as early:
        early.create_table("default.t", columns={"id": "int"})
        ticket = (tmp_path / "ccache").read_bytes()
        old = tmp_path / "old_ccache"
        old.write_bytes(ticket)

        with monkeypatch.context() as without_keytab:
            without_keytab.delenv("KRB5_CLIENT_KTNAME")
            without_keytab.setenv("KRB5CCNAME", str(old))
            connect(metastore).close()  # the cached ticket is enough as long as it is valid
            failure = until_expired(metastore)
        assert "KRB5_CLIENT_KTNAME" in failure

        # The connection that was opened with the expired ticket is still usable, and new ones get a new ticket.
        assert early.get_databases() == ["default"]
        with connect(metastore) as late:
            hi.append(late, "default.t", pa.table({"id": [1]}))
            assert hi.read_table(late, "default.t").column("id").to_pylist() == [1]
    assert (tmp_path / "ccache").read_bytes() != ticket


def until_expired(metastore: KerberizedMetastore) -> str:
    """The error of a connection once the ticket has expired. Until then, the server may be the first to notice."""
    deadline = time.monotonic() + 20 * TICKET_SECONDS
    failure = ""
    while time.monotonic() < deadline:
        try:
            connect(metastore).close()
        except MetastoreError as error:
            failure = str(error)
            if "expired" in failure:
                return failure
        time.sleep(0.5)
    raise AssertionError(f"the ticket never expired; the last error is {failure!r}")


def test_without_a_ticket_the_error_says_how_to_get_one(
    kerberized: Callable[..., KerberizedMetastore], login: Callable[..., None]
) -> None:
    metastore = kerberized("4.0.1")
    login(keytab=None)
    with pytest.raises(MetastoreError, match=r"Check that the keytab .*none. \(KRB5_CLIENT_KTNAME\) can be read"):
        connect(metastore)


def test_a_wrong_principal_of_the_server_is_reported(
    kerberized: Callable[..., KerberizedMetastore], login: Callable[..., None]
) -> None:
    metastore = kerberized("4.0.1")
    login()
    with pytest.raises(MetastoreError, match=r"'hms/localhost@HIVEINGEST.TEST' failed.*not found.*kerberos_principal"):
        connect(metastore, kerberos_principal=f"hms/localhost@{REALM}")


def test_a_server_that_requires_a_ticket_refuses_a_connection_without_one(
    kerberized: Callable[..., KerberizedMetastore],
) -> None:
    metastore = kerberized("4.0.1")
    with pytest.raises(MetastoreError):
        connect(metastore, authentication="none", call_timeout_seconds=5, connect_timeout_seconds=5)
