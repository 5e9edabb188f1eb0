"""Databases and tables, and their folders, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

import hive_ingest as hi
from hive_ingest.errors import (
    AlreadyExists,
    ConfigurationError,
    InvalidOperation,
    NoSuchObject,
    StreamingIOFailure,
    UnsupportedFeature,
)
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Column, Table, columns_of

COLUMNS = {"id": "int", "msg": "string"}


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    return metastore


@pytest.fixture
def alerts(ms: MetastoreClient) -> Table:
    return ms.create_table("web.alerts", columns=COLUMNS, partition_keys={"continent": "string", "country": "string"})


def folder(location: str) -> Path:
    assert location.startswith("file:/")
    return Path(location.removeprefix("file:"))


# -- databases ---------------------------------------------------------------------------------------


@pytest.mark.only_on(["sqlite", "postgres"], because="folders are the server's business")
def test_the_default_database_lies_in_the_warehouse_itself(metastore: MetastoreClient, tmp_path: Path) -> None:
    assert metastore.get_database("default").location == f"file:{tmp_path}/warehouse"
    table = metastore.create_table("t", columns=COLUMNS)
    assert table.location == f"file:{tmp_path}/warehouse/t"


def test_a_database_gets_its_own_folder(metastore: MetastoreClient, tmp_path: Path) -> None:
    database = metastore.create_database("Web", comment="pages", properties={"owner": "ann"})
    assert (database.name, database.location) == ("web", f"file:{tmp_path}/warehouse/web.db")
    assert folder(database.location).is_dir()
    assert metastore.get_database("WEB") == database


def test_a_database_may_be_located_elsewhere(metastore: MetastoreClient, tmp_path: Path) -> None:
    database = metastore.create_database("web", location=str(tmp_path / "else where"))
    assert database.location == f"file:{tmp_path}/else where"
    assert folder(database.location).is_dir()


def test_a_database_is_created_once(ms: MetastoreClient) -> None:
    with pytest.raises(AlreadyExists, match="'web'"):
        ms.create_database("web")
    assert ms.create_database("WEB", if_not_exists=True) == ms.get_database("web")


def test_databases_are_listed_by_hives_pattern(ms: MetastoreClient) -> None:
    ms.create_database("weather")
    assert ms.get_databases() == ["default", "weather", "web"]
    assert ms.get_databases("WE*") == ["weather", "web"]
    assert ms.get_databases("web|def*") == ["default", "web"]


def test_a_database_changes_its_comment_and_properties_only(ms: MetastoreClient) -> None:
    web = ms.get_database("web")
    ms.alter_database("web", replace(web, comment="new", properties={"a": "b"}))
    assert (ms.get_database("web").comment, ms.get_database("web").properties) == ("new", {"a": "b"})
    with pytest.raises(InvalidOperation, match="keeps its name"):
        ms.alter_database("web", replace(web, name="other"))


def test_a_database_with_tables_is_dropped_only_with_cascade(ms: MetastoreClient, alerts: Table) -> None:
    location = ms.get_database("web").location
    with pytest.raises(InvalidOperation, match="cascade=True"):
        ms.drop_database("web")
    ms.drop_database("web", cascade=True)
    assert not folder(location).exists()
    with pytest.raises(NoSuchObject):
        ms.get_database("web")
    with pytest.raises(NoSuchObject):
        ms.get_table("web.alerts")


def test_the_default_database_cannot_be_dropped(metastore: MetastoreClient) -> None:
    with pytest.raises(InvalidOperation, match="default"):
        metastore.drop_database("default", cascade=True)


def test_dropping_a_missing_database_is_an_error_unless_it_is_allowed(metastore: MetastoreClient) -> None:
    metastore.drop_database("web", if_exists=True)
    with pytest.raises(NoSuchObject):
        metastore.drop_database("web")


@pytest.mark.parametrize("name", ["", "a-b", "a.b", "a b", "x" * 129])
def test_a_bad_name_is_refused(metastore: MetastoreClient, name: str) -> None:
    with pytest.raises(ConfigurationError):
        metastore.create_database(name)


# -- tables ------------------------------------------------------------------------------------------


def test_a_misspelt_argument_of_create_table_is_an_error(ms: MetastoreClient) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'proprties'"):
        ms.create_table("web.t", columns=COLUMNS, proprties={"transactional": "false"})  # type: ignore[call-arg]
    assert ms.get_tables("web") == []


def test_a_table_is_transactional_unless_said_otherwise(ms: MetastoreClient) -> None:
    table = ms.create_table("web.t", columns=COLUMNS)
    expected = {"transactional": "true", "transactional_properties": "default", "bucketing_version": "2"}
    assert table.properties.items() >= expected.items()
    assert table.is_transactional
    assert table.table_type == "MANAGED_TABLE"
    plain = ms.create_table("web.plain", columns=COLUMNS, properties={"transactional": "false"})
    assert not plain.is_transactional
    assert "transactional_properties" not in plain.properties
    insert_only = {"transactional": "true", "transactional_properties": "insert_only", "orc.compress": "ZLIB"}
    assert ms.create_table("web.io", columns=COLUMNS, properties=insert_only).properties.items() >= insert_only.items()


def test_a_created_table_is_returned_as_given(ms: MetastoreClient) -> None:
    made = ms.create_table(
        "Web.Wide",
        columns=[Column("Id", "INT", "the key"), Column("tags", "map<string,array<decimal(10,2)>>")],
        partition_keys={"ds": "date"},
        bucket_columns=["ID"],
        num_buckets=4,
        properties={"orc.compress": "ZSTD"},
        owner="ann",
    )
    assert ms.get_table("web.wide") == made
    assert made.columns[0] == Column("id", "int", "the key")
    assert (made.bucket_columns, made.num_buckets, made.owner) == (("id",), 4, "ann")
    assert made.id > 0
    assert made.create_time_seconds > 1_600_000_000
    assert folder(made.location).is_dir()


@pytest.mark.only_on(["sqlite", "postgres", "hive401"], because="Hive 3 has no table ids")
def test_table_ids_are_never_reused(ms: MetastoreClient) -> None:
    first = ms.create_table("web.t", columns=COLUMNS)
    ms.drop_table("web.t")
    assert ms.create_table("web.t", columns=COLUMNS).id > first.id


def test_a_table_is_created_once(ms: MetastoreClient, alerts: Table) -> None:
    with pytest.raises(AlreadyExists, match=r"web\.alerts"):
        ms.create_table("web.ALERTS", columns=COLUMNS)
    keys = {"Continent": "STRING", "country": "string"}
    assert ms.create_table("web.alerts", columns=COLUMNS, partition_keys=keys, if_not_exists=True) == alerts


@pytest.mark.parametrize(
    ("wanted", "difference"),
    [
        ({"columns": {"id": "bigint", "msg": "string"}}, "its column 'id' is int, not bigint"),
        ({"columns": {"id": "int", "msg": "string", "at": "date"}}, "it has no column 'at'"),
        ({"columns": {"msg": "string", "id": "int"}}, "the order of its columns is id, msg"),
        ({"partition_keys": {}}, "its partition keys: continent string, country string, not none"),
        (
            {"bucket_columns": ["id"], "num_buckets": 4},
            "its bucket columns: none, not id; its number of buckets: 0, not 4",
        ),
    ],
)
def test_a_table_that_exists_with_another_layout_is_not_the_one_asked_for(
    ms: MetastoreClient, alerts: Table, wanted: dict[str, Any], difference: str
) -> None:
    keys = {"continent": "string", "country": "string"}
    with pytest.raises(AlreadyExists, match=difference):
        ms.create_table("web.alerts", **{"columns": COLUMNS, "partition_keys": keys} | wanted, if_not_exists=True)
    assert ms.get_table("web.alerts") == alerts


def test_an_existing_table_may_have_more_columns_than_asked_for(
    ms: MetastoreClient, alerts: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """A script that creates its tables can be run again after a column was added."""
    changed = ms.add_column("web.alerts", "at", "timestamp")
    keys = {"continent": "string", "country": "string"}
    assert ms.create_table("web.alerts", columns=COLUMNS, partition_keys=keys, if_not_exists=True) == changed
    assert "with the further columns at" in caplog.text


def test_a_table_needs_its_database(metastore: MetastoreClient) -> None:
    with pytest.raises(NoSuchObject, match="'nowhere'"):
        metastore.create_table("nowhere.t", columns=COLUMNS)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"columns": {}}, "at least one column"),
        ({"columns": [Column("a", "int"), Column("A", "int")]}, "2 columns named 'a'"),
        ({"columns": {"a": "int"}, "partition_keys": {"A": "int"}}, "2 columns named 'a'"),
        ({"columns": {"a": "integr"}}, "'integr' is unknown"),
        ({"columns": {"a.b": "int"}}, "not a valid column name"),
        ({"columns": {"": "int"}}, "not a valid column name"),
        ({"columns": {"a": "int"}, "partition_keys": {"p": "array<int>"}}, "cannot be of type"),
        ({"columns": {"a": "int"}, "bucket_columns": ["b"], "num_buckets": 2}, "'b' is not a column"),
        ({"columns": {"a": "int"}, "bucket_columns": ["a"], "num_buckets": 0}, "give both, or neither"),
        ({"columns": {"a": "int"}, "num_buckets": 4}, "give both, or neither"),
    ],
)
def test_an_invalid_table_is_refused(ms: MetastoreClient, arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidOperation, match=why):
        ms.create_table("web.t", **arguments)
    assert ms.get_tables("web") == []


def test_a_type_that_cannot_be_written_is_refused(ms: MetastoreClient) -> None:
    with pytest.raises(UnsupportedFeature):
        ms.create_table("web.t", columns={"a": "timestamp with local time zone"})
    with pytest.raises(UnsupportedFeature, match=r"web\.t: column 'a': a bucket column of type binary"):
        ms.create_table("web.t", columns={"a": "binary"}, bucket_columns=["a"], num_buckets=2)
    assert ms.get_tables("web") == []


def test_an_external_table_is_not_transactional_and_keeps_its_files_when_dropped(ms: MetastoreClient) -> None:
    table = ms.create_table("web.t", columns=COLUMNS, properties={"EXTERNAL": "TRUE"})
    assert (table.table_type, table.is_transactional) == ("EXTERNAL_TABLE", False)
    ms.drop_table("web.t")
    assert folder(table.location).is_dir()
    with pytest.raises(InvalidOperation, match="external table cannot be transactional"):
        ms.create_table("web.u", columns=COLUMNS, properties={"EXTERNAL": "TRUE", "transactional": "true"})


def test_tables_are_listed_by_hives_pattern(ms: MetastoreClient) -> None:
    for name in ("page_views", "pages", "users"):
        ms.create_table(f"web.{name}", columns=COLUMNS)
    assert ms.get_tables("WEB") == ["page_views", "pages", "users"]
    assert ms.get_tables("web", "page*") == ["page_views", "pages"]
    assert ms.get_tables("nowhere") == []


def test_a_column_is_added_after_the_others(ms: MetastoreClient, alerts: Table) -> None:
    added = ms.add_column("web.alerts", "Price", "decimal(10, 2)", comment="in euros")
    assert added.columns == (*alerts.columns, Column("price", "decimal(10, 2)", "in euros"))
    assert ms.get_table("web.alerts") == added
    for name, type_ in (("price", "int"), ("x", "no type"), (alerts.partition_keys[0].name, "int")):
        with pytest.raises(InvalidOperation):
            ms.add_column("web.alerts", name, type_)
    assert ms.get_table("web.alerts") == added


def test_columns_properties_and_owner_can_be_changed(ms: MetastoreClient, alerts: Table) -> None:
    wider = replace(
        alerts,
        columns=(*alerts.columns, Column("level", "int")),
        owner="bob",
        properties={**alerts.properties, "comment": "new"},
    )
    stored = ms.alter_table("web.alerts", wider)
    assert stored == wider == ms.get_table("web.alerts")


@pytest.mark.parametrize(
    "change",
    [
        {"partition_keys": ()},
        {"bucket_columns": ("id",), "num_buckets": 2},
        {"location": "file:/elsewhere"},
        {"table_type": "EXTERNAL_TABLE"},
        {"properties": {"transactional": "false"}},
        {"columns": ()},
    ],
)
def test_properties_that_deltas_depend_on_cannot_be_changed(
    ms: MetastoreClient, alerts: Table, change: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOperation):
        ms.alter_table("web.alerts", replace(alerts, **change))
    assert ms.get_table("web.alerts") == alerts


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"id": "string", "msg": "string"}, "'id' cannot change from int to string"),
        ({"id": "smallint", "msg": "string"}, "'id' cannot change from int to smallint"),
        ({"number": "float", "msg": "string"}, "'id' cannot change from int to float"),
        ({"msg": "string"}, "'msg' would be column 1 instead of 2"),
        ({"msg": "string", "id": "int"}, "'id' would be column 2 instead of 1"),
        ({"new": "int", "id": "int", "msg": "string"}, "'id' would be column 2 instead of 1"),
    ],
)
def test_columns_that_the_files_there_do_not_fit_are_refused_with_what_is_possible(
    ms: MetastoreClient, alerts: Table, columns: dict[str, str], why: str
) -> None:
    """The change was made, and then no row could be read."""
    with pytest.raises(InvalidOperation, match=rf"{why}.*columns can be added at the end, renamed, "):
        ms.alter_table("web.alerts", replace(alerts, columns=columns_of(columns)))
    assert ms.get_table("web.alerts") == alerts


@pytest.mark.parametrize(
    "columns",
    [{"id": "bigint", "msg": "varchar(9)"}, {"number": "decimal(12,2)", "text": "string"}, {"id": "double"}],
)
def test_rows_can_be_read_after_each_change_of_columns_that_is_possible(
    ms: MetastoreClient, alerts: Table, columns: dict[str, str]
) -> None:
    row = {"id": [1], "msg": ["m"], "continent": ["Asia"], "country": ["India"]}
    hi.append(ms, "web.alerts", pa.table(row))
    changed = ms.alter_table("web.alerts", replace(alerts, columns=columns_of(columns)))
    values = tuple(hi.read_table(ms, "web.alerts").to_pylist()[0].values())
    assert values == (*(1, "m")[: len(columns)], "Asia", "India")
    assert [column.name for column in changed.columns] == list(columns)


def test_a_renamed_table_takes_its_folder_its_partitions_and_its_write_ids_along(
    ms: MetastoreClient, alerts: Table
) -> None:
    (partition,) = ms.add_partitions(alerts.name, [["Asia", "India"]])
    (folder(partition.location) / "delta_0000001_0000001_0000").mkdir()
    committed, aborted = ms.open_txns(2)
    ms.allocate_table_write_ids("web.alerts", [committed, aborted])
    ms.commit_txn(committed)
    ms.abort_txn(aborted)

    renamed = ms.alter_table("web.alerts", replace(alerts, name=type(alerts.name)("web", "alarms")))

    assert renamed.location == alerts.location.replace("alerts", "alarms")
    assert not folder(alerts.location).exists()
    (moved,) = ms.list_partitions("web.alarms")
    assert (folder(moved.location) / "delta_0000001_0000001_0000").is_dir()
    assert ms.get_valid_write_ids(["web.alarms"])[0].aborted == (2,)
    assert ms.get_valid_write_ids(["web.alarms"])[0].high_water_mark == 2
    assert ms.show_locks("web.alarms") == []
    with pytest.raises(NoSuchObject):
        ms.get_table("web.alerts")


def test_a_table_is_not_renamed_onto_another(ms: MetastoreClient, alerts: Table) -> None:
    other = ms.create_table("web.other", columns=COLUMNS)
    with pytest.raises(AlreadyExists):
        ms.alter_table("web.alerts", replace(alerts, name=other.name))
    assert folder(alerts.location).is_dir()


def test_a_dropped_table_is_gone_with_its_folder(ms: MetastoreClient, alerts: Table) -> None:
    ms.add_partitions("web.alerts", [["Asia", "India"]])
    ms.drop_table("web.alerts")
    assert not folder(alerts.location).exists()
    with pytest.raises(NoSuchObject):
        ms.get_table("web.alerts")
    with pytest.raises(NoSuchObject):
        ms.drop_table("web.alerts")
    ms.drop_table("web.alerts", if_exists=True)


def test_a_dropped_table_may_leave_its_data(ms: MetastoreClient, alerts: Table) -> None:
    ms.drop_table("web.alerts", delete_data=False)
    assert folder(alerts.location).is_dir()


@pytest.mark.only_on(["sqlite", "postgres"], because="folders are the server's business")
def test_dropping_removes_no_folder_that_holds_something_else(
    metastore: MetastoreClient, metastore_uri: str, tmp_path: Path
) -> None:
    """Tables made by earlier versions may lie in each other's folders."""
    inner = metastore.create_table("inner", columns=COLUMNS)
    places = {"a": tmp_path / "warehouse", "b": tmp_path, "c": folder(inner.location)}
    for name in places:
        metastore.create_table(name, columns=COLUMNS, location=str(tmp_path / "elsewhere" / name))
    engine = sa.create_engine(metastore_uri)
    with engine.begin() as sql:
        for name, place in places.items():
            statement = sa.text('UPDATE "TBLS" SET "LOCATION" = :location WHERE "TBL_NAME" = :name')
            sql.execute(statement, {"location": f"file:{place}", "name": name})
    engine.dispose()
    for name in places:
        metastore.drop_table(name)
    assert folder(inner.location).is_dir()


@pytest.mark.only_on(["sqlite", "postgres"], because="folders are the server's business")
def test_a_symbolic_link_is_not_followed_when_a_table_is_dropped(ms: MetastoreClient, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    ms.create_table("web.t", columns=COLUMNS, location=str(tmp_path / "link"))
    (tmp_path / "precious" / "file").touch()
    ms.drop_table("web.t")
    assert (tmp_path / "precious" / "file").exists()


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive forgets the write ids of a table that is dropped")
def test_a_late_writer_of_a_dropped_table_cannot_get_its_write_id_again(ms: MetastoreClient, alerts: Table) -> None:
    late, next_ = ms.open_txns(2)
    assert ms.allocate_table_write_ids("web.alerts", [late])[0].write_id == 1
    ms.drop_table("web.alerts")
    ms.create_table("web.alerts", columns=COLUMNS)
    assert ms.allocate_table_write_ids("web.alerts", [next_])[0].write_id == 2
    ms.abort_txn(late)
    assert ms.get_valid_write_ids(["web.alerts"])[0].aborted == (1,)


@pytest.mark.only_on(["sqlite", "postgres"], because="folders are the server's business")
def test_a_folder_that_cannot_be_created_is_an_error_and_leaves_no_table(ms: MetastoreClient, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StreamingIOFailure, match="is a file, not a folder"):
        ms.create_table("web.t", columns=COLUMNS, location=str(tmp_path / "file" / "t"))
    assert ms.get_tables("web") == []


# -- where a warehouse may be ------------------------------------------------------------------------


@pytest.mark.postgres
def test_a_postgresql_metastore_takes_a_remote_warehouse_as_a_name(postgres_uri: str) -> None:
    with connect_metastore(postgres_uri, warehouse="gs://bucket/warehouse/", create=True) as ms:
        assert ms.create_database("web").location == "gs://bucket/warehouse/web.db"
        table = ms.create_table("web.t", columns=COLUMNS, partition_keys={"p": "int"})
        assert table.location == "gs://bucket/warehouse/web.db/t"
        (partition,) = ms.add_partitions("web.t", [["1"]])
        assert partition.location == "gs://bucket/warehouse/web.db/t/p=1"
        with pytest.raises(UnsupportedFeature, match="cannot be renamed"):
            ms.alter_table("web.t", replace(table, name=type(table.name)("web", "u")))
        ms.drop_database("web", cascade=True)
