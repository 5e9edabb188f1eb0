"""Bad records in a local file, as JSON lines."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from hive_ingest.record_writer import BadRecord, python_row
from hive_ingest.storage import AppendFile


class BadRecordFile:
    """A handler for `bad_records=` that appends each bad record to a local file, as a line of JSON.

    A line has the keys `file` and `line`, if `ingest_files` read the record, else `record` (its number in the
    transaction); `offset`, `reason`, and the record itself as `data`, or as `data_base64` where it is not UTF-8. The
    lines of a transaction are on the disk before it commits; those of one that was aborted and written again are
    there twice.

    Several connections may share an object, and several processes a file.

    Args:
        path: The file, which is created if it is missing.

    Raises:
        StreamingIOFailure: The file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = AppendFile(os.fspath(path))

    def handle(self, records: Sequence[BadRecord]) -> None:
        """Append the records. Raises StreamingIOFailure."""
        lines = [json.dumps(self.as_json(record), allow_nan=False, default=_in_json) for record in records]
        self._file.append("".join(f"{line}\n" for line in lines).encode())

    def flush(self) -> None:
        """Wait until all that was appended is on the disk. Raises StreamingIOFailure."""
        self._file.sync()

    def as_json(self, record: BadRecord) -> dict[str, Any]:
        """The line of a record, before it is encoded."""
        place = {"record": record.record} if record.file is None else {"file": record.file, "line": record.line}
        return {**place, "offset": record.byte_offset, "reason": record.reason, **data_as_json("data", record.data)}

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def data_as_json(name: str, data: Any) -> dict[str, Any]:
    """The record as a JSON field `name`; bytes that are not UTF-8 as base64, in `<name>_base64`."""
    if isinstance(data, bytes):
        try:
            return {name: data.decode("utf-8")}
        except UnicodeDecodeError:
            return {f"{name}_base64": base64.b64encode(data).decode()}
    if isinstance(data, pa.RecordBatch):
        data = python_row(data)
    try:
        json.dumps(data, allow_nan=False, default=_in_json)
    except (TypeError, ValueError, RecursionError):  # keys of other types, NaN, a circular reference
        return {name: repr(data)}
    return {name: data}


def _in_json(value: Any) -> Any:
    """Values of rows and objects that JSON has no type for, as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
