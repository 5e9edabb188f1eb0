"""Checks that no two tables or partitions share a folder, or lie in each other's.

Each would read and remove the files of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from hive_ingest.errors import InvalidOperation
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.metastore_client.locations import local_path
from hive_ingest.model import DEFAULT_DATABASE, TableName

_OTHER_TABLES = """
    SELECT DB_NAME, TBL_NAME, LOCATION FROM TBLS
    WHERE TBL_ID <> :table_id AND (LOCATION IN TEXT_LIST(:here_and_above) OR substr(LOCATION, 1, :length) = :prefix)
    LIMIT 1
"""
_OTHER_PARTITIONS = """
    SELECT DB_NAME, TBL_NAME, PARTITIONS.LOCATION
    FROM PARTITIONS JOIN TBLS ON TBLS.TBL_ID = PARTITIONS.TBL_ID
    WHERE PARTITIONS.TBL_ID <> :table_id AND (
        PARTITIONS.LOCATION IN TEXT_LIST(:here_and_above) OR substr(PARTITIONS.LOCATION, 1, :length) = :prefix
    )
    LIMIT 1
"""
_DATABASES = """
    SELECT DB_NAME, DB_LOCATION_URI FROM DBS
    WHERE DB_LOCATION_URI = :location OR substr(DB_LOCATION_URI, 1, :length) = :prefix
    LIMIT 1
"""
# Two tables that are created at once, in two databases, would not find each other.
_ONE_AT_A_TIME = "SELECT DB_NAME FROM DBS WHERE DB_NAME = :database FOR UPDATE"
_PARTITIONS_AT = "SELECT PART_NAME, LOCATION FROM PARTITIONS WHERE LOCATION IN TEXT_LIST(:locations) LIMIT 1"


def refuse_overlap(session: Session, name: TableName, location: str, *, table_id: int = 0) -> None:
    """Check the location of a new or (by its id) renamed table.

    Until the transaction ends, no other one checks a location. Raises InvalidOperation.
    """
    session.execute(_ONE_AT_A_TIME, database=DEFAULT_DATABASE)
    for place in _spellings(location):
        parameters = {
            "here_and_above": [place, *_above(place)],
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
    """Check locations of new partitions, which lie in their table's folder. Raises InvalidOperation."""
    found = session.row(_PARTITIONS_AT, locations=locations)
    if found is not None:
        raise _overlap(name, found[1], f"the partition {found[0]}", found[1])


def _overlap(name: TableName, location: str, other: str, where: str) -> InvalidOperation:
    return InvalidOperation(
        f"{name} cannot lie at {location}: {other} lies at {where}, and the one would read and remove the files of "
        "the other. Choose another location"
    )


def _spellings(location: str) -> set[str]:
    """The location as written, and with symbolic links and `..` resolved."""
    path = local_path(location)
    return {location} if path is None else {location, f"file:{path.resolve()}"}


def _above(location: str) -> list[str]:
    scheme, colon, rest = location.partition(":")
    return [f"{scheme}{colon}{path}" for path in map(str, PurePosixPath(rest).parents)]
