"""The user has a name everywhere, also if the system does not know the user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest import identity
from hive_ingest.identity import this_host, this_user
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.thrift.options import ThriftOptions
from tests.acceptance.cli.shell import Shell

PACKAGE = Path(hi.__file__).parent


@pytest.fixture
def no_passwd_entry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulates a container that runs with `--user 12345`."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(uid: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    identity._user.cache_clear()
    yield
    identity._user.cache_clear()


@pytest.mark.usefixtures("no_passwd_entry")
def test_a_user_without_a_passwd_entry_is_named_by_uid() -> None:
    assert this_user() == str(os.getuid())
    assert this_host()
    assert ThriftOptions().effective_user == str(os.getuid())


@pytest.mark.one_embedded
@pytest.mark.usefixtures("no_passwd_entry")
def test_a_user_without_a_passwd_entry_can_write_and_read(metastore: MetastoreClient) -> None:
    """`connect` requested the user's name from the system without a fallback, which raised KeyError."""
    metastore.create_table("default.t", columns={"id": "int"})
    hi.append(metastore, "default.t", pa.table({"id": pa.array([1], pa.int32())}))
    assert hi.read_table(metastore, "default.t")["id"].to_pylist() == [1]


@pytest.mark.one_embedded
@pytest.mark.usefixtures("no_passwd_entry")
def test_a_user_without_a_passwd_entry_can_abort_transactions(
    metastore: MetastoreClient, metastore_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (txn_id,) = metastore.open_txns()
    Shell(monkeypatch, capsys).done("abort", str(txn_id), "--metastore", metastore_uri)


def test_only_one_module_asks_the_system_for_the_user() -> None:
    callers = [path.name for path in PACKAGE.rglob("*.py") if "getpass." in path.read_text("utf-8")]
    assert callers == ["identity.py"]


@pytest.mark.parametrize(
    ("hadoop_user_name", "spark_user", "user"),
    [(None, "etl", "etl"), ("somebody", "etl", "somebody"), (None, None, this_user())],
)
def test_hives_metastore_sees_the_user_that_hadoops_own_clients_would_be(
    monkeypatch: pytest.MonkeyPatch, hadoop_user_name: str | None, spark_user: str | None, user: str
) -> None:
    for name, value in (("HADOOP_USER_NAME", hadoop_user_name), ("SPARK_USER", spark_user)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert ThriftOptions().effective_user == user
