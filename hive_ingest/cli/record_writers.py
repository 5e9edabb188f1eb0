"""The record writer of a format, from options by the names of its arguments."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hive_ingest.record_writer import RecordWriter


class MessageFormat(enum.StrEnum):
    """Format of messages."""

    JSON = "json"
    DELIMITED = "delimited"


def writer_options(format: str) -> tuple[str, ...]:
    """The names of the options that a format has."""
    return tuple(inspect.signature(_class_of(format)).parameters)


def new_record_writer(format: str, options: Mapping[str, Any]) -> RecordWriter:
    """The writer of a format.

    Raises:
        ConfigurationError: An invalid value.
    """
    writer: RecordWriter = _class_of(format)(**options)
    return writer


def _class_of(format: str) -> Any:
    from hive_ingest.record_writer import StrictDelimitedInputWriter, StrictJsonWriter

    return {MessageFormat.JSON: StrictJsonWriter, MessageFormat.DELIMITED: StrictDelimitedInputWriter}[
        MessageFormat(format)
    ]
