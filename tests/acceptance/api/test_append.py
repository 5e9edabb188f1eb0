"""`append`: one call, one transaction; with a position, once however often it is called."""

from __future__ import annotations

import datetime as dt
import inspect
from dataclasses import dataclass
from typing import Any

import pandas as pd
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


def test_rows_that_append_leaves_out_are_kept_counted_and_limited(ms: MetastoreClient) -> None:
    data = pa.table({"id": [1, 1 << 40, 2, 1 << 41]})
    options: dict[str, Any] = {"missing_columns": "null", "on_error": "skip"}
    kept: list[hi.BadRecord] = []
    info = hi.append(ms, "web.t", data, bad_records=kept.append, max_bad_records=2, **options)
    assert (info.rows, info.records_skipped) == (2, 2)
    assert [bad.data.to_pylist()[0]["id"] for bad in kept] == [1 << 40, 1 << 41]
    for limit in ({"max_bad_records": 1}, {"max_bad_record_share": 0.4}):
        with pytest.raises(errors.TooManyBadRecords):
            hi.append(ms, "web.t", data, **limit, **options)
    hi.append(ms, "web.t", data, bad_records=hi.BadRecordTable("web.bad"), **options)
    assert (ids(ms), hi.read_table(ms, "web.bad").num_rows) == ([1, 1, 2, 2], 2)
    with pytest.raises(errors.ConfigurationError, match="has no effect"):
        hi.append(ms, "web.t", data, max_bad_records=1, missing_columns="null")


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


# -- tables from data ----------------------------------------------------------------------------------


def test_a_table_is_created_for_its_first_rows(ms: MetastoreClient) -> None:
    for number in (1, 2):
        hi.append(ms, "web.new", pa.table({"Id": [number], "name": ["a"]}), create=True)
    assert [(column.name, column.type) for column in ms.get_table("web.new").columns] == [
        ("id", "bigint"),
        ("name", "string"),
    ]
    assert hi.read_table(ms, "web.new").to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}]


def test_without_create_a_missing_table_is_an_error(ms: MetastoreClient) -> None:
    with pytest.raises(errors.InvalidTable):
        hi.append(ms, "web.new", pa.table({"id": [1]}))
    with pytest.raises(errors.NoSuchObject):
        hi.append(ms, "nowhere.new", pa.table({"id": [1]}), create=True)


@pytest.mark.parametrize(
    "one_time",
    [
        lambda table: table.to_reader(),
        lambda table: iter(table.to_batches()),
        lambda table: Stream(table),
        lambda table: table.to_batches(),
    ],
)
def test_data_that_can_be_read_only_once_is_written_whole(ms: MetastoreClient, one_time: Any) -> None:
    table = pa.concat_tables([pa.table({"id": [1, 2]}), pa.table({"id": [3]})])
    hi.append(ms, "web.new", one_time(table), create=True, merge_schema=True)
    assert hi.read_table(ms, "web.new")["id"].to_pylist() == [1, 2, 3]


class Stream:
    """A stream of another library."""

    def __init__(self, table: pa.Table) -> None:
        self._reader = table.to_reader()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


def test_new_columns_are_added_before_the_first_row(ms: MetastoreClient) -> None:
    hi.append(ms, "web.t", rows(1))
    wider = rows(2).append_column("Note", [["n"]]).append_column("tags", [[["x", "y"]]])
    hi.append(ms, "web.t", wider, merge_schema=True)
    hi.append(ms, "web.t", rows(3), merge_schema=True, missing_columns="null")
    assert [(column.name, column.type) for column in ms.get_table("web.t").columns][2:] == [
        ("note", "string"),
        ("tags", "array<string>"),
    ]
    found = hi.read_table(ms, "web.t", columns=["id", "note", "tags"]).sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "note": None, "tags": None},
        {"id": 2, "note": "n", "tags": ["x", "y"]},
        {"id": 3, "note": None, "tags": None},
    ]


def test_columns_that_only_a_later_part_has_are_added_too(ms: MetastoreClient) -> None:
    narrow, wide = pa.table({"id": [1], "n": pa.array([1], pa.int8())}), pa.table({"ID": [2], "n": [300], "x": ["a"]})
    nulls = pa.table({"id": [3], "n": pa.nulls(1)})
    parts: list[list[Any]] = [
        [narrow, wide, nulls],
        [narrow.to_pandas(), wide.to_pandas(), nulls],
        [{"id": 1, "n": 1}, wide, [nulls]],
    ]
    expected = [{"id": 1, "n": 1, "x": None}, {"id": 2, "n": 300, "x": "a"}, {"id": 3, "n": None, "x": None}]
    for number, data in enumerate(parts):
        hi.append(ms, f"web.new{number}", data, create=True, merge_schema=True, missing_columns="null")
        assert hi.read_table(ms, f"web.new{number}", columns=["id", "n", "x"]).to_pylist() == expected
    hi.append(ms, "web.t", [rows(1), rows(2).append_column("x", [["a"]])], merge_schema=True, missing_columns="null")
    assert hi.read_table(ms, "web.t")["x"].to_pylist() == [None, "a"]


def test_a_new_column_in_a_later_part_of_what_comes_once_is_refused(ms: MetastoreClient) -> None:
    wide = rows(2).append_column("x", [["a"]])
    with pytest.raises(errors.ConfigurationError, match=r"web\.t has no column 'x'.*Give a list"):
        hi.append(ms, "web.t", iter([rows(1), wide]), merge_schema=True, missing_columns="null")
    assert ids(ms) == []
    with pytest.raises(errors.ConfigurationError, match="has no column 'x'"):
        hi.append(ms, "web.new", iter([rows(1), wide]), create=True, missing_columns="null")
    ms.add_columns("web.t", {"x": "string"})
    hi.append(ms, "web.t", iter([rows(1), wide]), merge_schema=True, missing_columns="null")
    assert hi.read_table(ms, "web.t")["x"].to_pylist() == [None, "a"]


def test_parts_without_common_columns_are_refused(ms: MetastoreClient) -> None:
    with pytest.raises(errors.ConfigurationError, match="do not fit together"):
        hi.append(ms, "web.new", [pa.table({"a": [1]}), pa.table({"a": ["x"]})], create=True)


def test_without_merge_schema_no_column_is_added(ms: MetastoreClient) -> None:
    with pytest.raises(errors.SerializationError, match="note"):
        hi.append(ms, "web.t", rows(2).append_column("note", [["n"]]), unknown_fields="fail")
    assert len(ms.get_table("web.t").columns) == 2


def test_a_column_of_another_type_is_not_changed(ms: MetastoreClient) -> None:
    with pytest.raises(errors.SerializationError):
        hi.append(ms, "web.t", pa.table({"id": ["x"], "at": pa.nulls(1, pa.timestamp("us"))}), merge_schema=True)
    assert ms.get_table("web.t").columns[0].type == "int"


@dataclass
class Event:
    id: int
    name: str | None = None


def test_rows_of_python_objects_make_a_table_and_add_columns(ms: MetastoreClient) -> None:
    hi.append(ms, "web.new", [Event(1), Event(2, "b")], create=True)
    hi.append(ms, "web.new", [{"id": 3, "name": "c", "at": dt.date(2026, 11, 2)}], merge_schema=True)
    hi.append(ms, "web.new", {"id": "4"}, coerce="lossless", missing_columns="null")
    rows = sorted(hi.read_table(ms, "web.new").to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["name"], row["at"]) for row in rows] == [
        (1, None, None),
        (2, "b", None),
        (3, "c", dt.date(2026, 11, 2)),
        (4, None, None),
    ]
    with pytest.raises(errors.SerializationError, match="the columns of the rows cannot be inferred"):
        hi.append(ms, "web.mixed", [{"a": 1}, {"a": "x"}], create=True)


def test_local_times_make_a_column_of_timestamps(ms: MetastoreClient) -> None:
    at = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    data = pa.table({"at": pa.array([at], pa.timestamp("us", "Europe/Berlin")), "all": [[at]], "s": [{"t": at}]})
    for _ in range(2):
        hi.append(ms, "web.new", data, create=True, merge_schema=True, zoned_timestamps="local")
    assert [column.type for column in ms.get_table("web.new").columns] == [
        *("timestamp", "array<timestamp>", "struct<t:timestamp>")
    ]
    row, same = hi.read_table(ms, "web.new").to_pylist()
    noon = at.replace(tzinfo=None)
    assert row == same == {"at": noon + dt.timedelta(hours=1), "all": [noon], "s": {"t": noon}}


def test_a_frame_that_was_filtered_is_appended_without_its_index(ms: MetastoreClient) -> None:
    frame = pd.DataFrame({"id": [1, 2]})
    hi.append(ms, "web.t", frame[frame["id"] > 1], missing_columns="null", unknown_fields="fail")
    assert ids(ms) == [2]


def test_a_frame_with_values_of_several_types_is_an_error_of_ours(ms: MetastoreClient) -> None:
    frame = pd.DataFrame({"id": [1, "x"]})
    for create in (False, True):
        with pytest.raises(errors.SerializationError, match=r"DataFrame data .* failed for column id"):
            hi.append(ms, "web.t", frame, create=create)


def test_a_new_column_without_values_waits_for_its_type(ms: MetastoreClient) -> None:
    hi.append(ms, "web.t", [{"id": 1, "at": None, "note": None}], merge_schema=True)
    hi.append(ms, "web.t", [{"id": 2, "at": None, "note": "n"}], merge_schema=True)
    assert [column.name for column in ms.get_table("web.t").columns] == ["id", "at", "note"]


def test_columns_are_not_inferred_from_rows_that_come_once(ms: MetastoreClient) -> None:
    with pytest.raises(errors.ConfigurationError, match="give a list"):
        hi.append(ms, "web.new", ({"id": number} for number in range(3)), create=True)
