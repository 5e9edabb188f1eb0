"""Set how far a file counts as committed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from hive_ingest.config import StreamingSettings
from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import TableName
from hive_ingest.record_writer import ArrowWriter, RecordWriter
from hive_ingest.streaming.files.line_file import FilePosition, LineFile
from hive_ingest.streaming.files.sources import SourceKey, refuse_other_keys, sources_of
from hive_ingest.streaming.sinks import sink_exists

SeekTarget = int | Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class FileSeek:
    """What was changed: the positions of a source before and after; None: it had none."""

    source: str
    before: FilePosition | None
    after: FilePosition


def seek_file(
    metastore: MetastoreClient | str,
    table: str | TableName,
    path: str,
    *,
    to_record: SeekTarget,
    record_writer: RecordWriter,
    sink: str | None = None,
    source_key: SourceKey = "path",
    header_lines: int = 0,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> FileSeek:
    """Set after which record of a file `ingest_files` continues. Records may then be written again, or left out.

    Args:
        metastore: A client, or the URI of a metastore.
        table: `"database.table"`.
        path: The file as it is now; it may have been edited since it was ingested.
        to_record: The number of records that count as committed, header not included; "start"; or "end", before a
            last line without its newline.
        record_writer: Tells CSV, whose records may have newlines in them, from lines.
        sink: The sink; by default the table's name.
        source_key: As in `ingest_files`.
        header_lines: As in `ingest_files`.
        settings: Of the connection.
        dry_run: Only return what would be changed. Errors are those of the change itself.

    Raises:
        ConfigurationError: It is not one file, has fewer records, or cannot be recognised.
        SinkInUse, LockTimeout: A transaction that writes from this file is open.
        SinkConflict: The positions of the sink are not those of files.
    """
    files, too_short = sources_of([path], record_writer, source_key=source_key, waits_for_newline=to_record == "end")
    if len(files) + len(too_short) > 1:
        raise ConfigurationError(f"{path!r} stands for several files: give one")
    if too_short:
        raise ConfigurationError(f"{path!r} is too short to be recognised by its content: use source_key='path'")
    ((source, file),) = files.items()
    name = TableName.of(table)
    sink = sink or name.table
    with closing(file), opened_metastore(metastore) as client:
        after = _position(file, to_record, header_lines)
        if dry_run and not sink_exists(client, name.database, sink):
            return FileSeek(source, None, after)
        with StreamingConnection.connect(
            client,
            table=name,
            record_writer=ArrowWriter(),
            agent_info="hive-ingest sinks seek-file",
            settings=settings,
            sink=sink,
            sources=[source],
        ) as connection:
            before: list[FilePosition | None] = [None]

            def choose(progress: Mapping[str, Any]) -> dict[str, Any]:
                refuse_other_keys(files, connection)
                last = progress[source]
                before[0] = FilePosition.from_json(source, last.position) if last is not None else None
                return {} if dry_run else {source: after.to_json()}

            connection.seek(choose)
    return FileSeek(source, before[0], after)


def _position(file: LineFile, to_record: SeekTarget, header_lines: int) -> FilePosition:
    if to_record == "start" or to_record == 0:
        return FilePosition()
    beginning = file.beginning(header_lines)
    offset, records, inner = beginning.offset, 0, 0
    most = 2**62 if to_record == "end" else to_record
    if not isinstance(most, int) or most < 0:
        raise ConfigurationError(f"to_record={to_record!r}: give a number of records, 'start' or 'end'")
    for block in file.records(offset, most, beginning.header):
        newlines = block.inner_newlines()
        offset += len(block.text)
        records += block.count
        inner += int(newlines[-1]) if newlines is not None else 0
    if to_record not in ("end", records):
        raise ConfigurationError(f"{file.location!r} has {records} records: to_record={to_record} is after its end")
    # The lines before the records may still be incomplete where none follows.
    return file.position(offset, records, inner) if records else FilePosition()
