"""Files as the sources of a sink: what a file is, and which positions belong to it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import ConfigurationError, SinkConflict
from hive_ingest.record_writer import CsvWriter, RecordWriter, check_choice
from hive_ingest.storage import Location
from hive_ingest.streaming.files.line_file import MAX_LINE_BYTES, LineFile
from hive_ingest.streaming.files.patterns import matching_files
from hive_ingest.streaming.files.texts import STDIN

_log = logging.getLogger(__name__)

SourceKey = Literal["path", "name", "content"]
UnfinishedLine = Literal["commit", "wait"]

#: Each file of a call has a lock and a progress row in every transaction.
MAX_FILES = 1_000
#: With `source_key="content"`, the bytes by which a file is recognised.
KEY_BYTES: Final = 1_024


def sources_of(
    paths: Iterable[str | os.PathLike[str]],
    record_writer: RecordWriter,
    *,
    source_key: SourceKey,
    waits_for_newline: bool,
) -> tuple[dict[str, LineFile], tuple[str, ...]]:
    """The files by their keys, and the paths of those that are too short to have one.

    Raises:
        ConfigurationError: Two files have one key, there are none or too many, the choice is unknown, or the writer
            divides text by another delimiter.
        StreamingIOFailure: A file cannot be opened.
    """
    check_choice("source_key", source_key, get_args(SourceKey))
    if not getattr(record_writer, "splits_at_newlines", True):
        raise ConfigurationError(
            "a file is divided into records at newlines: give the record writer neither line_delimiter nor "
            "line_delimiter_pattern, or write the file through a StreamingConnection"
        )
    csv = record_writer if isinstance(record_writer, CsvWriter) else None
    max_line_bytes = getattr(record_writer, "max_record_bytes", MAX_LINE_BYTES)
    files: dict[str, LineFile] = {}
    by_path: dict[str, LineFile] = {}
    too_short: list[str] = []
    for path in matching_files(paths):
        file = LineFile(path, max_line_bytes=max_line_bytes, csv=csv, waits_for_newline=waits_for_newline)
        key = key_of(file, source_key)
        if key is None:
            too_short.append(path)
            file.close()
            continue
        other = by_path.setdefault(_path_of(file), file)
        if other is not file and source_key == "name":
            raise ConfigurationError(f"{file.location!r} is the same file as {other.location!r}: {_REMEDIES['path']}")
        files[key] = _longer_copy(files[key], file, source_key) if key in files else file
    found = len(files) + len(too_short)
    if not 1 <= found <= MAX_FILES:
        raise ConfigurationError(f"{found} files: give 1 to {MAX_FILES} in one call")
    if too_short:
        _log.warning(
            "%s has fewer than %d bytes, too few to recognise it by its content: it is left for a later run",
            ", ".join(map(repr, too_short)),
            KEY_BYTES,
        )
    return files, tuple(too_short)


def _longer_copy(one: LineFile, other: LineFile, source_key: SourceKey) -> LineFile:
    """Of two files with one content, the one with more text: a log is copied, or compressed, before it is emptied.

    Raises:
        ConfigurationError: They are not copies, or their key is not the content.
    """
    if source_key == "content":
        # A log whose compression is about to end has the same text, but cannot be read to its end yet.
        short, long = sorted((one, other), key=lambda file: (file.readable_bytes(), file.size_bytes))
        if long.begins_like(short):
            short.close()
            return long
    raise ConfigurationError(
        f"{one.location!r} and {other.location!r} have the same {source_key}, which identifies a file: "
        f"{_REMEDIES[source_key]}"
    )


_REMEDIES: Final[Mapping[SourceKey, str]] = {
    "path": "give it once, and none of the links to it",
    "name": "rename one of them, or use source_key='path'",
    "content": "use source_key='path' for files that begin with the same bytes and differ later",
}


def key_of(file: LineFile, source_key: SourceKey) -> str | None:
    """The name of the source under which the positions of a file are kept; None for one that is too short."""
    if file.location == STDIN:
        return file.name
    if source_key == "name":
        return file.name
    if source_key == "path":
        return _path_of(file)
    digest = file.beginning_digest(KEY_BYTES)
    return None if digest is None else f"content:{digest}"


def _path_of(file: LineFile) -> str:
    """The absolute path. On the local file system, a file and the links to it have one, whatever the working folder."""
    path = str(Location.of(file.location)).removeprefix("file:")
    return os.path.realpath(path) if path.startswith("/") else path


def refuse_other_keys(files: Mapping[str, LineFile], connection: StreamingConnection) -> None:
    """Refuse a file that has positions under its name, from a run with source_key="name", and none under its key.

    Raises:
        SinkConflict: Its records would be written again.
    """
    others = set(connection.other_sources)
    for key, file in files.items():
        if key != file.name and file.name in others and connection.progress[key] is None:
            raise SinkConflict(
                f"{file.location!r} has no position of its own, but its sink has one of a file named {file.name!r}: if "
                "that is this file, use source_key='name'; otherwise use another sink name"
            )
