"""Bad records of files, passed on with their files and lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from hive_ingest.connection import BadRecordHandler, BadRecordTable, BadRecordTarget, bad_record_handler
from hive_ingest.record_writer import BadRecord
from hive_ingest.streaming.bad_record_file import BadRecordFile
from hive_ingest.streaming.files.spans import Spans


@contextmanager
def located_bad_records(
    target: BadRecordTarget | str | os.PathLike[str] | None, spans: Spans
) -> Iterator[BadRecordHandler | BadRecordTable | None]:
    """A handler that passes on bad records with their files and lines, or a table that has them."""
    with ExitStack() as stack:
        if isinstance(target, str | os.PathLike):
            target = stack.enter_context(BadRecordFile(target))
        if target is None:
            yield None
        elif isinstance(target, BadRecordTable):
            yield replace(target, located=lambda bad: _located(bad, spans))
        else:
            yield _LocatedBadRecords(bad_record_handler(target), spans)


class _LocatedBadRecords:
    """Adds the file and the line to bad records."""

    def __init__(self, handler: BadRecordHandler, spans: Spans) -> None:
        self._handler = handler
        self._spans = spans

    def handle(self, records: Sequence[BadRecord]) -> None:
        self._handler.handle([_located(record, self._spans) for record in records])

    def flush(self) -> None:
        self._handler.flush()


def _located(bad: BadRecord, spans: Spans) -> BadRecord:
    file, line, offset = spans.place(bad.record, bad.byte_offset)
    return replace(bad, file=file, line=line, byte_offset=offset)
