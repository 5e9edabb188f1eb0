"""The catalog's tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hive_ingest.errors import AlreadyExists, NoSuchObject
from hive_ingest.metastore_client.ddl_locks import exclusive_lock, needs_exclusive_lock, on_table
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.folder_tasks import (
    clear_name,
    clear_place,
    follow_move,
    plan_move,
    plan_removal,
)
from hive_ingest.metastore_client.embedded.folders import make_folders, refuse_acid_files, require_free, require_movable
from hive_ingest.metastore_client.embedded.location_checks import refuse_overlap
from hive_ingest.metastore_client.embedded.locks import Locks, require_lock
from hive_ingest.metastore_client.embedded.lookups import matching, no_such_database
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.metastore_client.embedded.write_ids import abort_writers
from hive_ingest.metastore_client.locations import normal_location
from hive_ingest.metastore_client.table_checks import MANAGED, check_change, check_existing, new_table
from hive_ingest.metastore_client.table_columns import with_columns_added
from hive_ingest.model import Column, LockId, Table, TableName, columns_of

# One row for each property, so that a table and its properties are of the same moment.
_GET = """
    SELECT TBLS.TBL_ID, TBL_TYPE, OWNER, CREATE_TIME, LOCATION, COLUMNS, PARTITION_KEYS, BUCKET_COLUMNS, NUM_BUCKETS,
        SORT_COLUMNS, INPUT_FORMAT, OUTPUT_FORMAT, SERDE, PARAM_KEY, PARAM_VALUE
    FROM TBLS LEFT JOIN TABLE_PARAMS ON TABLE_PARAMS.TBL_ID = TBLS.TBL_ID
    WHERE DB_NAME = :database AND TBL_NAME = :table
"""
_LOCK = "SELECT TBL_ID FROM TBLS WHERE DB_NAME = :database AND TBL_NAME = :table FOR UPDATE"
_NAMES = "SELECT TBL_NAME FROM TBLS WHERE DB_NAME = :database ORDER BY TBL_NAME"
_DB_LOCATION = "SELECT DB_LOCATION_URI FROM DBS WHERE DB_NAME = :database FOR UPDATE"
_INSERT = """
    INSERT INTO TBLS
        (DB_NAME, TBL_NAME, TBL_TYPE, OWNER, CREATE_TIME, LOCATION, COLUMNS, PARTITION_KEYS, BUCKET_COLUMNS,
        NUM_BUCKETS, SORT_COLUMNS, INPUT_FORMAT, OUTPUT_FORMAT, SERDE)
    VALUES (:database, :table, :table_type, :owner, NOW_MS() / 1000, :location, :columns, :partition_keys,
        :bucket_columns, :num_buckets, :sort_columns, :input_format, :output_format, :serde)
    RETURNING TBL_ID, CREATE_TIME
"""
# What an ALTER TABLE cannot change is left out: the type, the partition keys and the buckets.
_UPDATE = """
    UPDATE TBLS
    SET DB_NAME = :database, TBL_NAME = :table, OWNER = :owner, LOCATION = :location, COLUMNS = :columns,
        SORT_COLUMNS = :sort_columns, INPUT_FORMAT = :input_format, OUTPUT_FORMAT = :output_format, SERDE = :serde
    WHERE TBL_ID = :table_id
"""
_DELETE = "DELETE FROM TBLS WHERE TBL_ID = :table_id"
_INSERT_PROPERTY = "INSERT INTO TABLE_PARAMS (TBL_ID, PARAM_KEY, PARAM_VALUE) VALUES (:table_id, :key, :new_value)"
_DELETE_PROPERTIES = "DELETE FROM TABLE_PARAMS WHERE TBL_ID = :table_id"
_DELETE_PARTITIONS = "DELETE FROM PARTITIONS WHERE TBL_ID = :table_id"
_PARTITION_LOCATIONS = "SELECT PART_NAME, LOCATION FROM PARTITIONS WHERE TBL_ID = :table_id"
# As ALTER TABLE … ADD COLUMNS … CASCADE does.
_SET_PARTITION_COLUMNS = "UPDATE PARTITIONS SET COLUMNS = :columns WHERE TBL_ID = :table_id"
_MOVE_PARTITION = "UPDATE PARTITIONS SET LOCATION = :location WHERE TBL_ID = :table_id AND PART_NAME = :partition"

# -- what the transaction manager knows about a table (Hive: AcidEventListener) ------------------------

_DELETE_COMPACTIONS = (
    "DELETE FROM COMPACTION_QUEUE WHERE CQ_DATABASE = :database AND CQ_TABLE = :table",
    "DELETE FROM COMPLETED_COMPACTIONS WHERE CC_DATABASE = :database AND CC_TABLE = :table",
)
_RENAME = tuple(
    f"""
    UPDATE {sql_table} SET {database} = :new_database, {table} = :new_table
    WHERE {database} = :database AND {table} = :table
    """
    for sql_table, database, table in (
        ("TXN_COMPONENTS", "TC_DATABASE", "TC_TABLE"),
        ("COMPLETED_TXN_COMPONENTS", "CTC_DATABASE", "CTC_TABLE"),
        ("WRITE_SET", "WS_DATABASE", "WS_TABLE"),
        ("TXN_TO_WRITE_ID", "T2W_DATABASE", "T2W_TABLE"),
        ("NEXT_WRITE_ID", "NWI_DATABASE", "NWI_TABLE"),
        ("HIVE_LOCKS", "HL_DB", "HL_TABLE"),
        ("COMPACTION_QUEUE", "CQ_DATABASE", "CQ_TABLE"),
        ("COMPLETED_COMPACTIONS", "CC_DATABASE", "CC_TABLE"),
        ("FOLDER_TASKS", "FT_DATABASE", "FT_TABLE"),
    )
)
# What a dropped table of the new name left.
_CLEAR_WRITE_IDS = (
    "DELETE FROM TXN_TO_WRITE_ID WHERE T2W_DATABASE = :database AND T2W_TABLE = :table",
    "DELETE FROM NEXT_WRITE_ID WHERE NWI_DATABASE = :database AND NWI_TABLE = :table",
)


class Tables:
    """The calls about tables."""

    def __init__(self, context: Context, locks: Locks) -> None:
        self._context, self._locks = context, locks
        self._db = context.sessions

    def create_table(self, table: str | TableName, *, if_not_exists: bool = False, **definition: Any) -> Table:
        """A managed ORC table, transactional unless `properties` say otherwise (`EXTERNAL=TRUE` makes it external).

        Raises AlreadyExists (with `if_not_exists` too, where columns, partition keys or buckets differ), NoSuchObject
        (the database), InvalidOperation (a column twice, a bad type, bad buckets, a location that is another table's or
        holds ACID files), StreamingIOFailure, UnsupportedFeature (a type of Hive that is not supported here).
        """
        new = new_table(table, **definition)
        if new.location:
            new = replace(new, location=normal_location(new.location))
        return self._db.run(lambda session: _create(session, new, if_not_exists))

    def get_table(self, table: str | TableName) -> Table:
        """Raises NoSuchObject."""
        name = TableName.of(table)
        return _table(name, self._db.query(_GET, database=name.database, table=name.table))

    def get_tables(self, database: str, pattern: str = "*") -> list[str]:
        """Names that match Hive's pattern (`*` any text, `|` alternatives), sorted."""
        return matching([row[0] for row in self._db.query(_NAMES, database=database.lower())], pattern)

    def alter_table(self, table: str | TableName, new: Table) -> Table:
        """Replace columns, properties, owner; rename when `new.name` differs. Returns what is stored.

        A rename, and any change of columns but adding some at the end, happens under an EXCLUSIVE lock. A rename moves
        the folder when it has the table's own name; if that fails after all, the lock stays until it is done. Raises
        NoSuchObject, LockTimeout, AlreadyExists (the new name), InvalidOperation (partition keys, buckets, location, or
        no longer transactional), StreamingIOFailure (the folder cannot be moved).
        """
        name = TableName.of(table)
        if not needs_exclusive_lock(self.get_table(name), new):
            return self._db.run(lambda session: _alter(session, name, new, None))
        with self._exclusive_lock(f"alter table {name}", name, new.name) as lock_id:
            changed = self._db.run(lambda session: _alter(session, name, new, lock_id))
            self._context.folder_tasks.finish()
            return changed

    def add_column(self, table: str | TableName, name: str, type: str, *, comment: str = "") -> Table:
        """Add a column after the others. Raises NoSuchObject, InvalidOperation."""
        return self.add_columns(table, [Column(name, type, comment)])

    def add_columns(
        self,
        table: str | TableName,
        columns: Mapping[str, str] | Sequence[Column],
        *,
        if_not_exists: bool = False,
    ) -> Table:
        """Add columns after the others, all or none. Raises NoSuchObject, InvalidOperation."""
        target = TableName.of(table)

        def work(session: Session) -> Table:
            found = get_table_in(session, target)
            wanted = with_columns_added(found, columns, if_not_exists=if_not_exists)
            if wanted == found:
                return found
            added = _alter(session, target, wanted, None)
            session.execute(_SET_PARTITION_COLUMNS, table_id=found.id, columns=columns_to_json(added.columns))
            return added

        return self._db.run(work)

    def drop_table(self, table: str | TableName, *, delete_data: bool = True, if_exists: bool = False) -> None:
        """Drop under an EXCLUSIVE lock; the folder is removed after the commit. Raises NoSuchObject, LockTimeout."""
        name = TableName.of(table)

        def work(session: Session) -> None:
            require_lock(session, lock_id)
            if not if_exists or session.row(_LOCK, database=name.database, table=name.table) is not None:
                drop_table_in(session, name, delete_data=delete_data)

        with self._exclusive_lock(f"drop table {name}", name) as lock_id:
            self._db.run(work)
        self._context.folder_tasks.finish()

    def _exclusive_lock(self, what: str, *names: TableName) -> AbstractContextManager[LockId]:
        components = [on_table(name) for name in dict.fromkeys(names)]
        wait = self._context.options.ddl_lock_wait_seconds
        return exclusive_lock(self._locks, what, *components, wait_seconds=wait)


def drop_table_in(session: Session, name: TableName, *, delete_data: bool = True) -> None:
    """Out of the catalog; what is to happen to its folder is planned. Raises NoSuchObject."""
    found = get_table_in(session, name)
    next_write_id = abort_writers(session, name, f"table {name} was dropped while it was open")
    for statement in (_DELETE_PARTITIONS, _DELETE_PROPERTIES, _DELETE):
        session.execute(statement, table_id=found.id)
    for statement in _DELETE_COMPACTIONS:
        session.execute(statement, database=name.database, table=name.table)
    if delete_data and found.table_type == MANAGED:
        plan_removal(session, found.location, name, next_write_id)


def get_table_in(session: Session, name: TableName) -> Table:
    """The table, whose row stays locked. Raises NoSuchObject."""
    of_table = {"database": name.database, "table": name.table}
    session.execute(_LOCK, **of_table)
    return _table(name, session.rows(_GET, **of_table))


def _create(session: Session, new: Table, if_not_exists: bool) -> Table:
    of_table = {"database": new.name.database, "table": new.name.table}
    parent = session.scalar(_DB_LOCATION, database=new.name.database)
    if parent is None:
        raise no_such_database(new.name.database)
    found = session.rows(_GET, **of_table)
    if found:
        if if_not_exists:
            existing = _table(new.name, found)
            check_existing(existing, new)
            return existing
        raise AlreadyExists(f"table {new.name} already exists: use it, or pass if_not_exists=True")
    location = new.location or f"{parent.rstrip('/')}/{new.name.table}"
    refuse_overlap(session, new.name, location)
    clear_place(session, [location])
    if new.is_transactional:
        refuse_acid_files(location, f"table {new.name}")
    make_folders([location], inside=None if new.location else parent)
    table_id, created = session.rows(_INSERT, **_all_fields(replace(new, location=location)))[0]
    _write_properties(session, table_id, new.properties)
    return replace(new, location=location, id=table_id, create_time_seconds=created)


def _alter(session: Session, name: TableName, new: Table, lock_id: LockId | None) -> Table:
    """`lock_id` is the EXCLUSIVE lock, where the change needs one."""
    old = get_table_in(session, name)
    changed = replace(
        new,
        id=old.id,
        create_time_seconds=old.create_time_seconds,
        location=new.location or old.location,
        columns=columns_of(new.columns),
    )
    check_change(old, changed)
    if needs_exclusive_lock(old, changed):
        require_lock(session, lock_id)
        abort_writers(session, name, f"table {name} was renamed, or its columns replaced, while it was open")
    if new.name != name:
        changed = replace(changed, location=_rename(session, old, new.name))
    session.execute(_UPDATE, table_id=old.id, **_changeable(changed))
    session.execute(_DELETE_PROPERTIES, table_id=old.id)
    _write_properties(session, old.id, changed.properties)
    if changed.location != old.location and lock_id is not None:
        plan_move(session, old.location, changed.location, lock_id)
    return changed


def _rename(session: Session, old: Table, new: TableName) -> str:
    """Rename everything that carries the table's name. Returns the new location."""
    parent = session.scalar(_DB_LOCATION, database=new.database)
    if parent is None:
        raise no_such_database(new.database)
    if session.row(_LOCK, database=new.database, table=new.table) is not None:
        raise AlreadyExists(f"table {new} already exists: drop it, or choose another name")
    clear_name(session, new)  # before the write ids of the old table count as those of the new name
    for statement in _CLEAR_WRITE_IDS:
        session.execute(statement, database=new.database, table=new.table)
    names = {"database": old.name.database, "table": old.name.table}
    for rename in _RENAME:
        session.execute(rename, **names, new_database=new.database, new_table=new.table)
    if old.location.rpartition("/")[2] != old.name.table:
        return old.location
    location = f"{parent.rstrip('/')}/{new.table}"
    refuse_overlap(session, new, location, table_id=old.id)
    clear_place(session, [location])
    require_free(location, f"table {new}")
    require_movable(old.location, location)
    follow_move(session, old.location, location)
    moved = [
        {"table_id": old.id, "partition": partition, "location": location + where[len(old.location) :]}
        for partition, where in session.rows(_PARTITION_LOCATIONS, table_id=old.id)
        if where.startswith(old.location + "/")
    ]
    session.execute_many(_MOVE_PARTITION, moved)
    return location


def _write_properties(session: Session, table_id: int, properties: Mapping[str, str]) -> None:
    rows = [{"table_id": table_id, "key": key, "new_value": value} for key, value in properties.items()]
    session.execute_many(_INSERT_PROPERTY, rows)


def _all_fields(table: Table) -> dict[str, Any]:
    """A table's fields as parameters of _INSERT."""
    return {
        **_changeable(table),
        "table_type": table.table_type,
        "partition_keys": columns_to_json(table.partition_keys),
        "bucket_columns": json.dumps(table.bucket_columns),
        "num_buckets": table.num_buckets,
    }


def _changeable(table: Table) -> dict[str, Any]:
    """What an ALTER TABLE may change, as parameters of _UPDATE."""
    return {
        "database": table.name.database,
        "table": table.name.table,
        "owner": table.owner,
        "location": table.location,
        "columns": columns_to_json(table.columns),
        "sort_columns": json.dumps(table.sort_columns),
        "input_format": table.input_format,
        "output_format": table.output_format,
        "serde": table.serde,
    }


def _table(name: TableName, rows: Sequence[Row]) -> Table:
    if not rows:
        raise NoSuchObject(f"there is no table {name}: create it first, or correct the name")
    row = rows[0]
    return Table(
        name=name,
        id=row[0],
        table_type=row[1],
        owner=row[2],
        create_time_seconds=row[3],
        location=row[4],
        columns=columns_from_json(row[5]),
        partition_keys=columns_from_json(row[6]),
        bucket_columns=tuple(json.loads(row[7])),
        num_buckets=row[8],
        sort_columns=tuple(json.loads(row[9])),
        input_format=row[10],
        output_format=row[11],
        serde=row[12],
        properties={key: value for *_, key, value in rows if key is not None},
    )


def columns_to_json(columns: Sequence[Column]) -> str:
    return json.dumps([[column.name, column.type, column.comment] for column in columns])


@lru_cache(maxsize=256)  # the partitions of a table have the same columns, as a rule
def columns_from_json(text: str) -> tuple[Column, ...]:
    return tuple(Column(*fields) for fields in json.loads(text))
