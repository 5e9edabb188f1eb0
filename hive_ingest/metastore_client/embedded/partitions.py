"""The catalog's partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hive_ingest.acid import partition_name
from hive_ingest.errors import AlreadyExists, InvalidOperation, NoSuchObject
from hive_ingest.metastore_client.ddl_locks import exclusive_lock, on_table
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.folder_tasks import clear_place, plan_removal
from hive_ingest.metastore_client.embedded.folders import is_inside, make_folders, refuse_acid_files
from hive_ingest.metastore_client.embedded.location_checks import refuse_shared_partitions
from hive_ingest.metastore_client.embedded.locks import Locks, require_lock
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.metastore_client.embedded.tables import (
    Tables,
    columns_from_json,
    columns_to_json,
    get_table_in,
)
from hive_ingest.metastore_client.embedded.write_ids import abort_writers
from hive_ingest.metastore_client.partition_filter import parse_filter
from hive_ingest.metastore_client.table_checks import MANAGED
from hive_ingest.model import DEFAULT_PARTITION_NAME, LockId, Partition, Table, TableName

_FROM_PARTITIONS = "SELECT PART_VALUES, LOCATION, COLUMNS, PARAMS, CREATE_TIME FROM PARTITIONS"
_GET = f"{_FROM_PARTITIONS} WHERE TBL_ID = :table_id AND PART_NAME = :partition"
_LIST = f"{_FROM_PARTITIONS} WHERE TBL_ID = :table_id ORDER BY PART_NAME"
_LIST_SOME = f"{_LIST} LIMIT :max_parts"
_BY_NAMES = f"{_FROM_PARTITIONS} WHERE TBL_ID = :table_id AND PART_NAME IN TEXT_LIST(:names) ORDER BY PART_NAME"
_NAMES = "SELECT PART_NAME FROM PARTITIONS WHERE TBL_ID = :table_id ORDER BY PART_NAME"
_NAMES_SOME = f"{_NAMES} LIMIT :max_parts"
_INSERT = """
    INSERT INTO PARTITIONS (TBL_ID, PART_NAME, PART_VALUES, LOCATION, COLUMNS, PARAMS, CREATE_TIME)
    VALUES (:table_id, :partition, :part_values, :location, :columns, :params, NOW_MS() / 1000)
"""
_UPDATE = """
    UPDATE PARTITIONS SET COLUMNS = :columns, PARAMS = :params WHERE TBL_ID = :table_id AND PART_NAME = :partition
"""
_DELETE = "DELETE FROM PARTITIONS WHERE TBL_ID = :table_id AND PART_NAME = :partition"
_DELETE_COMPACTIONS = (
    "DELETE FROM COMPACTION_QUEUE WHERE CQ_DATABASE = :database AND CQ_TABLE = :table AND CQ_PARTITION = :partition",
    """
    DELETE FROM COMPLETED_COMPACTIONS
    WHERE CC_DATABASE = :database AND CC_TABLE = :table AND CC_PARTITION = :partition
    """,
)


class Partitions:
    """The calls about partitions. Values are texts in the order of the keys; null and empty ones are the same."""

    def __init__(self, context: Context, locks: Locks, tables: Tables) -> None:
        self._context, self._locks, self._tables = context, locks, tables
        self._db = context.sessions

    def add_partitions(
        self,
        table: str | TableName,
        values: Sequence[Sequence[str]],
        *,
        if_not_exists: bool = False,
        allow_acid_files: bool = False,
    ) -> list[Partition]:
        """Register partitions by their text values, in key order, and make their folders; all or none.

        Raises NoSuchObject, AlreadyExists, InvalidOperation (an unpartitioned table, or ACID files in a folder unless
        `allow_acid_files`), ConfigurationError (not as many values as keys).
        """
        name = TableName.of(table)
        return self._db.run(lambda session: _add(session, name, values, if_not_exists, allow_acid_files))

    def get_partition(self, table: str | TableName, values: Sequence[str]) -> Partition:
        """Raises NoSuchObject."""
        found = self._tables.get_table(table)
        partition = _name(found, values)
        rows = self._db.query(_GET, table_id=found.id, partition=partition)
        if not rows:
            raise _no_such_partition(found, partition)
        return _partition(found, rows[0])

    def get_partitions_by_names(self, table: str | TableName, names: Sequence[str]) -> list[Partition]:
        """Those of `names` ("k=v/…", escaped) that exist, sorted by name."""
        found = self._tables.get_table(table)
        rows = self._db.query(_BY_NAMES, table_id=found.id, names=names)
        return [_partition(found, row) for row in rows]

    def list_partitions(self, table: str | TableName, *, max_parts: int = -1) -> list[Partition]:
        """All, or the first `max_parts`, sorted by name."""
        found = self._tables.get_table(table)
        return [_partition(found, row) for row in self._some(_LIST, _LIST_SOME, found, max_parts)]

    def list_partition_names(self, table: str | TableName, *, max_parts: int = -1) -> list[str]:
        """All, or the first `max_parts`, sorted."""
        return [row[0] for row in self._some(_NAMES, _NAMES_SOME, self._tables.get_table(table), max_parts)]

    def _some(self, everything: str, some: str, table: Table, max_parts: int) -> Sequence[Row]:
        if max_parts < 0:
            return self._db.query(everything, table_id=table.id)
        return self._db.query(some, table_id=table.id, max_parts=max_parts)

    def get_partitions_by_filter(self, table: str | TableName, filter: str, *, max_parts: int = -1) -> list[Partition]:
        """`filter` in the metastore's language: `country = "India" and (month > 3 or day like "1%")`.

        Raises ConfigurationError, which shows where the filter cannot be read.
        """
        found = self._tables.get_table(table)
        matches = parse_filter(filter, found.partition_keys)
        partitions = [_partition(found, row) for row in self._db.query(_LIST, table_id=found.id)]
        selected = [partition for partition in partitions if matches(partition.values)]
        return selected if max_parts < 0 else selected[:max_parts]

    def alter_partition(self, table: str | TableName, partition: Partition) -> None:
        """Replace columns and properties. Raises NoSuchObject, InvalidOperation (another location)."""
        name = TableName.of(table)
        self._db.run(lambda session: _alter(session, name, partition))

    def drop_partition(
        self,
        table: str | TableName,
        values: Sequence[str],
        *,
        delete_data: bool = True,
        if_exists: bool = False,
    ) -> None:
        """Drop under an EXCLUSIVE lock; the folder is removed after the commit, if it lies in the table's.

        Raises NoSuchObject, LockTimeout.
        """
        name = TableName.of(table)
        partition = _name(self._tables.get_table(name), values)
        what, wait = f"drop partition {partition} of {name}", self._context.options.ddl_lock_wait_seconds
        with exclusive_lock(self._locks, what, on_table(name, partition), wait_seconds=wait) as lock_id:
            self._db.run(lambda session: _drop(session, name, values, delete_data, if_exists, lock_id))
        self._context.folder_tasks.finish()


def _name(table: Table, values: Sequence[str | None]) -> str:
    if not table.is_partitioned:
        raise InvalidOperation(f"{table.name} is not partitioned")
    return partition_name([key.name for key in table.partition_keys], values)


def _no_such_partition(table: Table, partition: str) -> NoSuchObject:
    return NoSuchObject(f"{table.name} has no partition {partition!r}: add it first, or correct the values")


def _add(
    session: Session, name: TableName, values: Sequence[Sequence[str]], if_not_exists: bool, allow_acid_files: bool
) -> list[Partition]:
    table = get_table_in(session, name)
    wanted = {_name(table, each): tuple(value or DEFAULT_PARTITION_NAME for value in each) for each in values}
    if len(wanted) < len(values) and not if_not_exists:
        raise AlreadyExists(f"{name}: the same partition is named twice in one call")
    rows = session.rows(_BY_NAMES, table_id=table.id, names=wanted)
    present = {_name(table, partition.values): partition for partition in (_partition(table, row) for row in rows)}
    if present and not if_not_exists:
        raise AlreadyExists(f"{name} has the partition {min(present)!r} already: use it, or pass if_not_exists=True")
    new = [partition for partition in wanted if partition not in present]
    locations = {partition: f"{table.location.rstrip('/')}/{partition}" for partition in new}
    if new:
        _check_places(session, table, locations, allow_acid_files)
        make_folders(locations.values(), inside=table.location)
    columns = columns_to_json(table.columns)
    session.execute_many(
        _INSERT,
        [
            {
                "table_id": table.id,
                "partition": partition,
                "part_values": json.dumps(wanted[partition]),
                "location": locations[partition],
                "columns": columns,
                "params": "{}",
            }
            for partition in new
        ],
    )
    rows = session.rows(_BY_NAMES, table_id=table.id, names=wanted)
    return [_partition(table, row) for row in rows]


def _alter(session: Session, name: TableName, partition: Partition) -> None:
    table = get_table_in(session, name)
    wanted = _name(table, partition.values)
    row = session.row(_GET, table_id=table.id, partition=wanted)
    if row is None:
        raise _no_such_partition(table, wanted)
    if partition.location != row[1]:
        raise InvalidOperation(f"{name}: partition {wanted!r} keeps its location {row[1]}")
    new = {
        "columns": columns_to_json(partition.columns or table.columns),
        "params": json.dumps(dict(partition.properties)),
    }
    session.execute(_UPDATE, table_id=table.id, partition=wanted, **new)


def _check_places(session: Session, table: Table, locations: Mapping[str, str], allow_acid_files: bool) -> None:
    """New partitions get folders of their own, without any rows in them unless they are allowed."""
    refuse_shared_partitions(session, table.name, list(locations.values()))
    clear_place(session, locations.values())
    if table.is_transactional and not allow_acid_files:
        for partition, location in locations.items():
            refuse_acid_files(location, f"{table.name}, partition {partition}")


def _drop(
    session: Session, name: TableName, values: Sequence[str], delete_data: bool, if_exists: bool, lock_id: LockId
) -> None:
    require_lock(session, lock_id)
    table = get_table_in(session, name)
    partition = _name(table, values)
    row = session.row(_GET, table_id=table.id, partition=partition)
    if row is None:
        if if_exists:
            return
        raise _no_such_partition(table, partition)
    reason = f"partition {partition} of {name} was dropped while it was open"
    next_write_id = abort_writers(session, name, reason)
    session.execute(_DELETE, table_id=table.id, partition=partition)
    for statement in _DELETE_COMPACTIONS:
        session.execute(statement, database=name.database, table=name.table, partition=partition)
    if delete_data and table.table_type == MANAGED and is_inside(row[1], table.location):
        plan_removal(session, row[1], name, next_write_id, partition=partition)


def _partition(table: Table, row: Row) -> Partition:
    return Partition(
        table=table.name,
        values=tuple(json.loads(row[0])),
        location=row[1],
        columns=columns_from_json(row[2]),
        properties=json.loads(row[3]),
        create_time_seconds=row[4],
    )
