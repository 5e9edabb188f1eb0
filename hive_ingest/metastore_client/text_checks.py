"""Checks of texts that a metastore stores."""

from __future__ import annotations

from hive_ingest.errors import ConfigurationError


def check_text(what: str, value: object) -> None:
    """Check a text that the caller chose, before it is sent: not every database stores every string of Python.

    Args:
        what: What the error calls the value.
        value: The value.

    Raises:
        ConfigurationError: It is not a `str`, holds a NUL character, which PostgreSQL refuses, or half a surrogate
            pair, which UTF-8 cannot encode.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"{what} is {value!r}, a {type(value).__name__}: give text")
    if "\0" in value:
        raise ConfigurationError(f"{what}, {value!r}, has a NUL character, which a metastore cannot store: remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{what}, {value!r}, has half a surrogate pair at position {error.start}, which UTF-8 cannot encode: "
            "remove or replace it"
        ) from error
