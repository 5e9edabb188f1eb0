"""No two tables or partitions share a folder, or lie in each other's.

The one would read and remove the files of the other.
"""

# ruff: noqa: SIM300 - columns are written in capitals, and so taken for constants

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath

from sqlalchemy import bindparam, func, or_, select
from sqlalchemy.sql.expression import ColumnElement

from hive_ingest.errors import InvalidOperation
from hive_ingest.metastore_client.embedded import schema as t
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.metastore_client.embedded.sql import text_in
from hive_ingest.metastore_client.locations import local_path
from hive_ingest.model import TableName

_TBL, _PART, _DB = t.TBLS.c, t.PARTITIONS.c, t.DBS.c


def _below(column: ColumnElement[str]) -> ColumnElement[bool]:
    return func.substr(column, 1, bindparam("length")) == bindparam("prefix")


_OTHER_TABLES = (
    select(_TBL.DB_NAME, _TBL.TBL_NAME, _TBL.LOCATION)
    .where(_TBL.TBL_ID != bindparam("table_id"), or_(text_in(_TBL.LOCATION, "here_and_above"), _below(_TBL.LOCATION)))
    .limit(1)
)
_OTHER_PARTITIONS = (
    select(_TBL.DB_NAME, _TBL.TBL_NAME, _PART.LOCATION)
    .join(t.TBLS, _TBL.TBL_ID == _PART.TBL_ID)
    .where(
        _PART.TBL_ID != bindparam("table_id"), or_(text_in(_PART.LOCATION, "here_and_above"), _below(_PART.LOCATION))
    )
    .limit(1)
)
_DATABASES = (
    select(_DB.DB_NAME, _DB.DB_LOCATION_URI)
    .where(or_(_DB.DB_LOCATION_URI == bindparam("location"), _below(_DB.DB_LOCATION_URI)))
    .limit(1)
)
_PARTITIONS_AT = select(_PART.PART_NAME, _PART.LOCATION).where(text_in(_PART.LOCATION, "locations")).limit(1)


def refuse_overlap(session: Session, name: TableName, location: str, *, table_id: int = 0) -> None:
    """Of a table, new or (by its id) renamed. Raises InvalidOperation."""
    for place in _spellings(location):
        parameters = {
            "here_and_above": json.dumps([place, *_above(place)]),
            "length": len(place) + 1,
            "prefix": place + "/",
        }
        for statement in (_OTHER_TABLES, _OTHER_PARTITIONS):
            found = session.row(statement, table_id=table_id, **parameters)
            if found is not None:
                raise _overlap(name, location, f"table {found[0]}.{found[1]}", found[2])
        database = session.row(_DATABASES, location=place, length=len(place) + 1, prefix=place + "/")
        if database is not None:
            raise _overlap(name, location, f"the database {database[0]}", database[1])


def refuse_shared_partitions(session: Session, name: TableName, locations: Sequence[str]) -> None:
    """Of new partitions, which lie in their table's folder and so in no other's. Raises InvalidOperation."""
    found = session.row(_PARTITIONS_AT, locations=json.dumps(list(locations)))
    if found is not None:
        raise _overlap(name, found[1], f"the partition {found[0]}", found[1])


def _overlap(name: TableName, location: str, other: str, where: str) -> InvalidOperation:
    return InvalidOperation(
        f"{name} cannot lie at {location}: {other} lies at {where}, and the one would read and remove the files of "
        "the other. Choose another location"
    )


def _spellings(location: str) -> set[str]:
    """As it is written, and without symbolic links and `..`."""
    path = local_path(location)
    return {location} if path is None else {location, f"file:{path.resolve()}"}


def _above(location: str) -> list[str]:
    scheme, colon, rest = location.partition(":")
    return [f"{scheme}{colon}{path}" for path in map(str, PurePosixPath(rest).parents)]
