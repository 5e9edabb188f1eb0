"""Lookups of names, and errors for missing ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hive_ingest.errors import ConfigurationError, NoSuchObject
from hive_ingest.metastore_client.embedded.sessions import Sessions
from hive_ingest.metastore_client.locations import local_path, normal_location


def no_such_database(name: str) -> NoSuchObject:
    return NoSuchObject(f"there is no database {name.lower()!r}: create it first")


def matching(names: Sequence[str], pattern: str) -> list[str]:
    """Those of `names` that match Hive's pattern without regard to case."""
    alternatives = "|".join(re.escape(part.strip()).replace(r"\*", ".*") for part in pattern.split("|"))
    wanted = re.compile(alternatives, re.IGNORECASE)
    return [name for name in names if wanted.fullmatch(name)]


def own_location(sessions: Sessions, location: str) -> str:
    """A location as Hive writes it. Raises ConfigurationError: not on this machine, under SQLite."""
    normal = normal_location(location)
    if sessions.backend.uri.is_sqlite and local_path(normal) is None:
        raise ConfigurationError(f"a SQLite metastore serves one machine, and {normal!r} is not on it")
    return normal
