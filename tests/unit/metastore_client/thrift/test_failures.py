"""An exception of a server becomes one of our errors, however it is wrapped."""

from __future__ import annotations

import pytest
from thriftpy2.thrift import TApplicationException

from hive_ingest.errors import (
    AlreadyExists,
    InvalidOperation,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchLock,
    NoSuchObject,
    NoSuchTxn,
    StreamingError,
    TooManyOpenTxns,
    TxnAborted,
    TxnOpen,
    UnsupportedFeature,
)
from hive_ingest.metastore_client.thrift.failures import ConnectionClosed, NoResponse, ServerFailed, server_error
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.versions import parse_version
from hive_ingest.model import LockType


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AlreadyExistsException", AlreadyExists),
        ("InvalidObjectException", InvalidOperation),
        ("InvalidOperationException", InvalidOperation),
        ("MetaException", MetastoreError),
        ("NoSuchLockException", NoSuchLock),
        ("NoSuchObjectException", NoSuchObject),
        ("NoSuchTxnException", NoSuchTxn),
        ("TxnAbortedException", TxnAborted),
        ("TxnOpenException", TxnOpen),
    ],
)
def test_each_exception_of_hive_has_an_error_class(name: str, kind: type[StreamingError]) -> None:
    error = server_error("a_call", "thrift://host:9083", getattr(idl(), name)(message="why"))
    assert type(error) is kind
    assert str(error).startswith("a_call: why")
    assert "thrift://host:9083" in str(error)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Internal error processing x", ServerFailed),
        ("NoSuchTxnException(message:No such transaction txnid:7)", NoSuchTxn),
        ("org.apache.hadoop.hive.metastore.api.TxnAbortedException(message:Transaction txnid:7 aborted)", TxnAborted),
        ("MetaException(message:Maximum allowed number of open transactions (3) has been reached.)", TooManyOpenTxns),
    ],
)
def test_an_exception_that_a_call_does_not_declare_is_found_in_the_text_of_another(
    message: str, kind: type[StreamingError]
) -> None:
    error = server_error("a_call", "here", TApplicationException(TApplicationException.INTERNAL_ERROR, message))
    assert type(error) is kind


def test_a_call_that_does_not_exist_is_an_unsupported_feature() -> None:
    error = server_error("new_call", "here", TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid"))
    assert isinstance(error, UnsupportedFeature)
    assert "new_call" in str(error)


def test_a_java_trace_is_cut_off() -> None:
    error = server_error("a_call", "here", idl().MetaException(message="first line\n\tat org.apache.Foo.bar(Foo.java)"))
    assert str(error) == "a_call: first line (reported by the metastore here)"


def test_a_failure_in_the_server_is_definite_and_a_broken_connection_is_not() -> None:
    assert not issubclass(ServerFailed, MetastoreUnavailable)
    assert issubclass(ConnectionClosed, NoResponse)
    assert issubclass(NoResponse, MetastoreUnavailable)


@pytest.mark.parametrize("answer", ["2.3.9", "", "unknown"])
def test_a_server_before_hive_3_is_refused(answer: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"3\.1"):
        parse_version(answer)


@pytest.mark.parametrize(
    ("answer", "is_four"), [("3.0", False), ("3.1.3", False), ("4.0.1", True), ("4.2.0-SNAPSHOT", True)]
)
def test_the_features_of_a_server_follow_from_its_version(answer: str, is_four: bool) -> None:
    version = parse_version(answer)
    assert version.has_table_ids is version.keeps_commit_key_value is version.has_min_history is is_four
    assert version.closes_connection_on_errors is not is_four
    assert version.lock_type(LockType.EXCL_WRITE) is (LockType.EXCL_WRITE if is_four else LockType.SHARED_WRITE)
    assert version.lock_type(LockType.SHARED_READ) is LockType.SHARED_READ
