"""Lookups of names, and errors for missing ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hive_ingest.errors import NoSuchObject


def no_such_database(name: str) -> NoSuchObject:
    return NoSuchObject(f"there is no database {name.lower()!r}: create it first, with create_database")


def matching(names: Sequence[str], pattern: str) -> list[str]:
    """Those of `names` that match Hive's pattern without regard to case."""
    alternatives = "|".join(re.escape(part.strip()).replace(r"\*", ".*") for part in pattern.split("|"))
    wanted = re.compile(alternatives, re.IGNORECASE)
    return [name for name in names if wanted.fullmatch(name)]
