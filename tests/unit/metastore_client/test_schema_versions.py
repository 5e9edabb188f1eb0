"""Migrations, and databases that are not ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hive_ingest.errors import MetastoreSchemaError, MetastoreUnavailable
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.metastore_client.embedded import migrations, schema


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metastore.db"


def connect(file: Path) -> None:
    connect_metastore(f"sqlite:///{file}", warehouse=file.parent / "warehouse", create=True).close()


def execute(file: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(file)
    try:
        with connection:
            return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_a_new_metastore_has_every_table(file: Path) -> None:
    connect(file)
    names = {row[0] for row in execute(file, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names >= set(schema.METADATA.tables)
    assert execute(file, 'SELECT "VERSION" FROM "HIVE_INGEST_SCHEMA"') == [(2,)]
    assert execute(file, "PRAGMA journal_mode") == [("wal",)]


def test_a_second_connection_changes_nothing(file: Path) -> None:
    connect(file)
    execute(file, 'UPDATE "DBS" SET "DB_COMMENT" = \'mine\'')
    connect(file)
    assert execute(file, 'SELECT "DB_COMMENT" FROM "DBS"') == [("mine",)]


def test_an_older_version_is_brought_up_step_by_step(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(file)
    monkeypatch.setattr(
        migrations,
        "MIGRATIONS",
        {
            **migrations.MIGRATIONS,
            3: lambda session, _: session.execute_sql("CREATE TABLE two (x)"),
            4: lambda session, _: session.execute_sql("ALTER TABLE two ADD COLUMN y"),
        },
    )
    monkeypatch.setattr(migrations, "LATEST_VERSION", 4)
    connect(file)
    assert execute(file, 'SELECT "VERSION" FROM "HIVE_INGEST_SCHEMA"') == [(4,)]
    assert execute(file, "SELECT x, y FROM two") == []


def test_a_failed_migration_leaves_the_previous_version(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(file)

    def fail(session: object, _: str) -> None:
        session.execute_sql("CREATE TABLE two (x)")  # type: ignore[attr-defined]
        raise MetastoreUnavailable("the power is gone")

    monkeypatch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, 3: fail})
    monkeypatch.setattr(migrations, "LATEST_VERSION", 3)
    with pytest.raises(MetastoreUnavailable, match="the power is gone"):
        connect(file)
    assert execute(file, 'SELECT "VERSION" FROM "HIVE_INGEST_SCHEMA"') == [(2,)]
    assert execute(file, "SELECT name FROM sqlite_master WHERE name = 'two'") == []


def test_a_newer_version_is_refused(file: Path) -> None:
    connect(file)
    execute(file, 'UPDATE "HIVE_INGEST_SCHEMA" SET "VERSION" = 99')
    with pytest.raises(MetastoreSchemaError, match=r"version 99.*upgrade"):
        connect(file)


def test_a_foreign_database_is_refused_and_left_as_it_is(file: Path) -> None:
    execute(file, "CREATE TABLE songs (title)")
    before = file.read_bytes()
    with pytest.raises(MetastoreSchemaError, match=r"songs.*empty database"):
        connect(file)
    assert file.read_bytes() == before


def test_a_file_that_is_not_a_database_is_refused(file: Path) -> None:
    file.write_bytes(b"not a database " * 100)
    with pytest.raises(MetastoreSchemaError, match="is not a metastore"):
        connect(file)


def test_a_folder_where_the_file_should_be_is_an_error(file: Path) -> None:
    file.mkdir()
    with pytest.raises(MetastoreUnavailable, match="unable to open"):
        connect(file)


def test_parents_of_the_file_and_the_warehouse_are_created(tmp_path: Path) -> None:
    connect_metastore(f"sqlite:///{tmp_path}/a/b/metastore.db", warehouse=tmp_path / "c" / "d", create=True).close()
    assert (tmp_path / "a/b/metastore.db").is_file()
    assert (tmp_path / "c/d").is_dir()


def test_a_metastore_of_version_1_gets_an_id_and_keeps_its_tables(file: Path) -> None:
    with connect_metastore(f"sqlite:///{file}", create=True) as client:
        client.create_table("t", columns={"id": "int"})
    for table in ("HIVE_INGEST_METASTORE_ID", "FOLDER_TASKS"):
        execute(file, f'DROP TABLE "{table}"')
    execute(file, 'DROP INDEX "PART_LOCATION_IDX"')
    execute(file, 'UPDATE "HIVE_INGEST_SCHEMA" SET "VERSION" = 1')
    with connect_metastore(f"sqlite:///{file}") as client:
        assert len(client.metastore_id) == 36
        client.drop_table("t")
        assert client.get_tables("default") == []
    assert execute(file, "SELECT count(*) FROM sqlite_master WHERE name = 'PART_LOCATION_IDX'") == [(1,)]
