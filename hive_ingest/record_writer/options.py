"""Checks of the options of record writers. Each raises ConfigurationError, which names the option."""

from __future__ import annotations

from typing import Literal

from hive_ingest.errors import ConfigurationError

#: What becomes of a record without a partition key; null is the default partition.
MissingPartitionKeys = Literal["fail", "null"]


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """The option must be one of a few words."""
    if value not in allowed:
        raise ConfigurationError(f"{name}={value!r} is not valid: use {' or '.join(map(repr, allowed))}")


def check_positive(name: str, value: int) -> None:
    """The option must be 1 or more."""
    if value < 1:
        raise ConfigurationError(f"{name}={value} is not valid: use 1 or more")
