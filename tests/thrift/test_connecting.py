"""Several addresses, servers that come and go, and settings from hive-site.xml: on real metastores."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, ConnectionMisuse, MetastoreUnavailable
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.services.metastore import RealMetastore
from tests.services.ports import free_port
from tests.thrift.proxy import Fault, FaultyProxy

QUICK: dict[str, Any] = {"retry_seconds": 0.2, "connect_timeout_seconds": 0.5, "uri_selection": "sequential"}


def test_the_next_address_is_tried_when_the_first_is_dead(real_metastore: RealMetastore) -> None:
    dead = f"thrift://127.0.0.1:{free_port()}"
    with connect_metastore(f"{dead},{real_metastore.uri}", **QUICK) as client:
        assert client.get_databases() == ["default"]
        assert client.uri == f"{dead},{real_metastore.uri}"


def test_a_server_that_never_answers_is_skipped_for_the_next(real_metastore: RealMetastore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"thrift://127.0.0.1:{mute.getsockname()[1]}"
        began = time.monotonic()
        with connect_metastore(f"{silent},{real_metastore.uri}", **QUICK) as client:
            assert client.get_databases() == ["default"]
        assert time.monotonic() - began < 60


def test_when_nobody_answers_every_address_is_named() -> None:
    first, second = (f"thrift://127.0.0.1:{free_port()}" for _ in range(2))
    with pytest.raises(MetastoreUnavailable, match=f"{first}.*{second}"):
        connect_metastore(f"{first},{second}", **QUICK)


def test_a_server_lost_between_two_calls_is_replaced_by_the_other(real_metastore: RealMetastore) -> None:
    with FaultyProxy(real_metastore.port) as one, FaultyProxy(real_metastore.port) as two:
        with connect_metastore(f"{one.uri},{two.uri}", **QUICK) as client:
            (txn_id,) = client.open_txns()
            one.cut()
            client.commit_txn(txn_id)
            assert client.get_valid_txns().open == ()
        assert "commit_txn" in two.calls
        assert "commit_txn" not in one.calls


def test_a_call_that_is_safe_to_repeat_waits_for_the_server_to_come_back(real_metastore: RealMetastore) -> None:
    with FaultyProxy(real_metastore.port) as proxy, connect_metastore(proxy.uri, retry_seconds=20) as client:
        proxy.cut()
        threading.Timer(0.5, proxy.restore).start()
        assert client.get_databases() == ["default"]


def test_a_response_that_does_not_come_in_time_is_reported_and_does_not_answer_the_next_call(
    real_metastore: RealMetastore,
) -> None:
    options: dict[str, Any] = {"retry_seconds": 0.1, "call_timeout_seconds": 1.0}
    with FaultyProxy(real_metastore.port) as proxy, connect_metastore(proxy.uri, **options) as client:
        proxy.arm("open_txns", Fault.ANSWER_LATE)
        with pytest.raises(MetastoreUnavailable, match="did not respond to open_txns within 1 s"):
            client.open_txns()
        assert client.get_databases() == ["default"]


def test_calls_that_must_not_be_repeated_are_sent_once(real_metastore: RealMetastore) -> None:
    with FaultyProxy(real_metastore.port) as proxy, connect_metastore(proxy.uri) as client:
        for call, run in (
            ("open_txns", lambda: client.open_txns()),
            ("create_database", lambda: client.create_database("web")),
            ("drop_database", lambda: client.drop_database("web")),
        ):
            proxy.arm(call, Fault.ANSWER_CUT)
            with pytest.raises(MetastoreUnavailable, match=f"closed the connection during {call}"):
                run()
            assert proxy.calls.count(call) == 1
        proxy.arm("create_database", Fault.ANSWER_CUT)
        client.create_database("once", if_not_exists=True)
        assert client.get_databases() == ["default", "once"]


def test_a_clone_has_a_connection_of_its_own(real_metastore: RealMetastore) -> None:
    with FaultyProxy(real_metastore.port) as proxy, connect_metastore(proxy.uri) as client:
        with client.clone() as other:
            before = proxy.calls.count("getVersion")
            assert other.get_databases() == client.get_databases()
            assert proxy.calls.count("getVersion") == before + 1
            assert other.txn_timeout_seconds == client.txn_timeout_seconds == 300.0
        assert client.get_databases() == ["default"]


def test_a_call_on_a_closed_client_reports_that_it_is_closed(client: MetastoreClient) -> None:
    client.close()
    client.close()
    with pytest.raises(ConnectionMisuse, match="closed"):
        client.get_databases()


def test_a_forked_child_opens_its_own_connection(client: MetastoreClient) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if client.get_databases() == ["default"] else 1)
    assert client.get_databases() == ["default"]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_hive_site_xml_configures_the_connection(
    real_metastore: RealMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hive-site.xml").write_text(
        f"""<configuration>
        <property><name>hive.metastore.uris</name><value>{real_metastore.uri}</value></property>
        <property><name>hive.metastore.client.socket.timeout</name><value>7 min</value></property>
        </configuration>"""
    )
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    with connect_metastore("thrift://") as client:
        assert client.uri == real_metastore.uri
        assert client.get_databases() == ["default"]


def test_an_unknown_option_is_reported() -> None:
    with pytest.raises(ConfigurationError, match="unknown option 'timeout'"):
        connect_metastore("thrift://127.0.0.1:1", timeout=3)
