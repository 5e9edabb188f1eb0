"""`append`: one call, one transaction; with a position, once however often it is called."""

from __future__ import annotations

import datetime as dt
import inspect
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest import errors
from hive_ingest.metastore_client import MetastoreClient


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.t", columns={"id": "int", "at": "timestamp"})
    return metastore


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "at": pa.nulls(len(ids), pa.timestamp("us"))})


def ids(client: MetastoreClient) -> list[int]:
    return sorted(hi.read_table(client, "web.t").column("id").to_pylist())


def test_an_append_returns_what_it_committed(ms: MetastoreClient) -> None:
    info = hi.append(ms, "web.t", rows(1, 2))
    assert (str(info.table), info.rows, info.files, info.partitions) == ("web.t", 2, 1, ())
    assert ids(ms) == [1, 2]


def test_a_repeated_append_writes_its_rows_once(ms: MetastoreClient) -> None:
    for position in (1, 1, 2, 2):
        hi.append(ms, "web.t", rows(position), sink="nightly", source="orders", position=position)
    assert ids(ms) == [1, 2]
    assert hi.append(ms, "web.t", rows(2), sink="nightly", source="orders", position=2) is None


def test_two_sources_of_a_sink_have_separate_positions(ms: MetastoreClient) -> None:
    for source in "ab":
        assert hi.append(ms, "web.t", rows(1), sink="nightly", source=source, position=7) is not None
    assert ids(ms) == [1, 1]


def test_a_lower_position_is_neither_skipped_nor_written(ms: MetastoreClient) -> None:
    hi.append(ms, "web.t", rows(1), sink="nightly", source="orders", position=2)
    with pytest.raises(errors.SinkConflict, match="position 2, and 1 is lower"):
        hi.append(ms, "web.t", rows(2), sink="nightly", source="orders", position=1)
    assert ids(ms) == [1]


@pytest.mark.parametrize(
    "key", [{"sink": "s"}, {"source": "a", "position": 1}, {"sink": "s", "source": "a", "position": "1"}]
)
def test_half_an_idempotency_key_is_refused(ms: MetastoreClient, key: dict[str, object]) -> None:
    with pytest.raises(errors.ConfigurationError, match="give all three"):
        hi.append(ms, "web.t", rows(1), **key)  # type: ignore[call-overload]
    assert ids(ms) == []


def test_append_takes_what_its_errors_recommend(ms: MetastoreClient) -> None:
    at = pa.array([dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)], pa.timestamp("us", "Europe/Berlin"))
    hi.append(ms, "web.t", pa.table({"id": [1]}), missing_columns="null")
    hi.append(ms, "web.t", pa.table({"id": [2], "at": at}), zoned_timestamps="local")
    hi.append(ms, "web.t", pa.table({"id": [3, 1 << 40]}), missing_columns="null", on_error="skip")
    with pytest.raises(errors.StreamingError, match="extra"):
        hi.append(ms, "web.t", pa.table({"id": [4], "extra": [1]}), missing_columns="null", unknown_fields="fail")
    assert ids(ms) == [1, 2, 3]
    assert dt.datetime(2024, 1, 1, 13) in hi.read_table(ms, "web.t").column("at").to_pylist()


def test_a_table_is_named_in_one_text_or_beside_its_database(ms: MetastoreClient) -> None:
    options: list[dict[str, Any]] = [
        {"table": "web.t"},
        {"database": "web", "table": "t"},
        {"database": "web", "table": "web.t"},
    ]
    for names in options:
        with hi.StreamingConnection.connect(ms, record_writer=hi.ArrowWriter(), **names) as connection:
            assert str(connection.table.name) == "web.t"
    with pytest.raises(errors.ConfigurationError, match="not in database 'other'"):
        hi.StreamingConnection.connect(ms, record_writer=hi.ArrowWriter(), database="other", table="web.t")


def test_every_error_can_be_imported_from_the_root() -> None:
    tree = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert tree <= set(hi.__all__)


def test_a_metastore_is_given_as_a_client_or_as_its_uri(ms: MetastoreClient, metastore_uri: str) -> None:
    hi.append(metastore_uri, "web.t", rows(1))
    connected = hi.StreamingConnection.connect(metastore_uri, table="web.t", record_writer=hi.ArrowWriter())
    with connected as connection, connection.transaction():
        connection.write(rows(2))
    assert sorted(hi.read_table(metastore_uri, "web.t")["id"].to_pylist()) == [1, 2]
    with hi.scan(metastore_uri, "web.t", batch_rows=1) as batches:
        assert len(list(batches)) == 2
    with pytest.raises(errors.StreamingError, match="t2"):
        hi.append(metastore_uri, "web.t2", rows(1))
    assert ms.get_valid_txns().open == ()
