"""Numbered migrations from an empty database to the tables of this version."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Table
from sqlalchemy.schema import CreateIndex, CreateTable

from hive_ingest.errors import MetastoreError, MetastoreSchemaError
from hive_ingest.metastore_client.embedded import schema as t
from hive_ingest.metastore_client.embedded.backends import Backend
from hive_ingest.metastore_client.embedded.sessions import Row, Session, Sessions

#: Every table of version 1. A later step names the ones that it adds; this list does not change.
_VERSION_1_TABLES = (
    t.NEXT_TXN_ID,
    t.TXNS,
    t.MIN_HISTORY_LEVEL,
    t.TXN_COMPONENTS,
    t.COMPLETED_TXN_COMPONENTS,
    t.WRITE_SET,
    t.NEXT_WRITE_ID,
    t.TXN_TO_WRITE_ID,
    t.NEXT_LOCK_ID,
    t.HIVE_LOCKS,
    t.NEXT_COMPACTION_QUEUE_ID,
    t.COMPACTION_QUEUE,
    t.COMPLETED_COMPACTIONS,
    t.HOUSEKEEPING_LEASE,
    t.SCHEMA_VERSION,
    t.DBS,
    t.TBLS,
    t.TABLE_PARAMS,
    t.PARTITIONS,
)

# Ids start at 1; 0 means "none" to Hive.
_FIRST_ROWS = (
    "INSERT INTO NEXT_TXN_ID (NTXN_NEXT) VALUES (1)",
    "INSERT INTO NEXT_LOCK_ID (NL_NEXT) VALUES (1)",
    "INSERT INTO NEXT_COMPACTION_QUEUE_ID (NCQ_NEXT) VALUES (1)",
    "INSERT INTO HOUSEKEEPING_LEASE (HKL_NAME, HKL_HOLDER, HKL_EXPIRES, HKL_DUE) VALUES ('housekeeper', '', 0, 0)",
    "INSERT INTO HIVE_INGEST_SCHEMA (VERSION) VALUES (0)",
)
_INSERT_DEFAULT_DATABASE = """
    INSERT INTO DBS (DB_NAME, DB_LOCATION_URI, DB_COMMENT, DB_PARAMS)
    VALUES ('default', :warehouse, 'Default Hive database', '{}')
"""
_INSERT_METASTORE_ID = "INSERT INTO HIVE_INGEST_METASTORE_ID (MI_UUID) VALUES (:uuid)"
GET_METASTORE_ID = "SELECT MI_UUID FROM HIVE_INGEST_METASTORE_ID"
_GET_VERSION = "SELECT VERSION FROM HIVE_INGEST_SCHEMA"
_SET_VERSION = "UPDATE HIVE_INGEST_SCHEMA SET VERSION = :version"


def _version_1(session: Session, warehouse: str) -> None:
    _create_tables(session, *_VERSION_1_TABLES)
    for table in _VERSION_1_TABLES:
        _create_indexes(session, table)
    for statement in _FIRST_ROWS:
        session.execute(statement)
    session.execute(_INSERT_DEFAULT_DATABASE, warehouse=warehouse)


def _version_2(session: Session, warehouse: str) -> None:
    """An identity, folders that are still to be moved or removed, and an index to find overlapping locations by."""
    _create_tables(session, t.METASTORE_ID, t.FOLDER_TASKS)
    _create_indexes(session, t.PARTITIONS)
    session.execute(_INSERT_METASTORE_ID, uuid=str(uuid.uuid4()))


def _create_tables(session: Session, *tables: Table) -> None:
    for table in tables:
        session.execute_ddl(CreateTable(table))


def _create_indexes(session: Session, table: Table) -> None:
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        session.execute_ddl(CreateIndex(index, if_not_exists=True))


MIGRATIONS: Mapping[int, Callable[[Session, str], None]] = {1: _version_1, 2: _version_2}
LATEST_VERSION = max(MIGRATIONS)


def open_schema(sessions: Sessions, new_warehouse: Callable[[], str] | None) -> None:
    """Create the tables in an empty database, or bring those of an older version up to date.

    Args:
        sessions: Of the database.
        new_warehouse: Makes and gives the folder in which the database `default` lies; None creates nothing.

    Raises:
        MetastoreError: The database is empty, and nothing is to be created.
        MetastoreSchemaError: The database is not ours, or of a newer version; nothing is changed then.
    """
    backend = sessions.backend
    names = _table_names(sessions.execute_sql(backend.list_tables))
    if not names:
        if new_warehouse is None:
            raise no_metastore(f"{backend.uri} is an empty database")
        if backend.prepare_empty:
            sessions.execute_sql(backend.prepare_empty)
    if t.SCHEMA_VERSION.name not in names or sessions.query(_GET_VERSION) != [(LATEST_VERSION,)]:
        sessions.run(lambda session: _migrate(session, backend, new_warehouse))


def no_metastore(found: str) -> MetastoreError:
    """The error for an address at which there is no metastore."""
    return MetastoreError(f"no metastore: {found}. Correct the address, or create one there with create=True")


def _table_names(rows: Sequence[Row]) -> set[str]:
    return {row[0] for row in rows}


def _migrate(session: Session, backend: Backend, new_warehouse: Callable[[], str] | None) -> None:
    where = backend.uri
    if backend.lock_schema:
        session.execute_sql(backend.lock_schema)
    names = _table_names(session.execute_sql(backend.list_tables))
    version = session.scalar(_GET_VERSION) if t.SCHEMA_VERSION.name in names else None
    if version is None and names:
        raise MetastoreSchemaError(
            f"{where} holds other tables ({', '.join(sorted(names)[:3])} …) and no metastore of hive-ingest: "
            "give the address of a new or an empty database"
        )
    if version is not None and version > LATEST_VERSION:
        raise MetastoreSchemaError(
            f"{where} is of version {version}, and this hive-ingest knows up to {LATEST_VERSION}: upgrade hive-ingest"
        )
    if version is None and new_warehouse is None:
        raise no_metastore(f"{where} is an empty database")
    warehouse = new_warehouse() if version is None and new_warehouse else ""
    for step in range((version or 0) + 1, LATEST_VERSION + 1):
        MIGRATIONS[step](session, warehouse)
        session.execute(_SET_VERSION, version=step)
