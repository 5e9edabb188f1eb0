"""Small files that are read together, as one file in memory (see `joined_stripes`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.format.column_statistics import merge_column_statistics
from hive_ingest.orc.format.columns import OrcColumn, OrcKind, column_tree, column_types, text_bytes
from hive_ingest.orc.format.protobuf import WireError
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.reader.joined_stripes import JoinableFile, join_stripes, joinable_files
from hive_ingest.orc.reader.stripe_reader import StripeReader

#: Limits of files that are decoded together, and of what a thread reads ahead: bytes in files, rows, files.
JOINED_BYTES, JOINED_ROWS, JOINED_FILES = 2 << 20, 131_072, 128
#: And the most bytes of texts, except of a file alone: compressed, they may take a thousandth in the file.
_JOINED_TEXT_BYTES = 1 << 26
#: Kinds of columns whose smallest and largest values a reader needs.
_KINDS_WITH_LIMITS = frozenset({OrcKind.DATE, OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT})


class JoinedFiles(StripeReader):
    """Several files as one stripe. Its errors name the first of them: read them one by one for the right name."""

    def __init__(self, files: Sequence[JoinableFile], path: str) -> None:
        """
        Args:
            files: Files with equal keys, in the order of their rows.
            path: The first of them, for messages.

        Raises:
            CorruptFile: They cannot be joined.
        """
        try:
            content, tail = join_stripes(files)
        except WireError as error:
            raise CorruptFile(f"{path!r}, or a file after it, is damaged: {error}") from error
        super().__init__(pa.BufferReader(content), tail, path)
        self._files = files

    @cached_property
    def row(self) -> OrcColumn:
        """The table's columns as ORC has them, with the statistics that readers need."""
        try:
            statistics = tuple(
                self._statistics(number) if type_.kind in _KINDS_WITH_LIMITS else b""
                for number, type_ in enumerate(column_types(self.tail.footer.types))
            )
        except (WireError, IndexError) as error:
            raise CorruptFile(f"{self.path!r}, or a file after it, has damaged statistics: {error}") from error
        tail = replace(self.tail, footer=replace(self.tail.footer, statistics=statistics))
        return column_tree(tail, self.path).children[-1]

    def _statistics(self, number: int) -> bytes:
        return merge_column_statistics([file.tail.footer.statistics[number] for file in self._files])


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Consecutive files, and all of them as one where that is possible."""

    readers: tuple[AcidFileReader, ...]
    joined: JoinedFiles | None = None


def grouped(readers: Sequence[AcidFileReader]) -> Iterator[FileGroup]:
    """Open files in groups that can be read together, in their order."""
    if len(readers) == 1:
        yield FileGroup(tuple(readers))
        return
    group: list[AcidFileReader] = []
    joinable: list[JoinableFile] = []
    rows = texts = 0
    for reader, found in zip(readers, _joinable(readers), strict=True):
        size = _text_bytes(reader) if found else 0
        fits = texts + size <= _JOINED_TEXT_BYTES
        if group and not (found and joinable and fits and _fit(group[-1], reader, joinable[-1], found, rows)):
            yield _group(group, joinable)
            group, joinable, rows, texts = [], [], 0, 0
        group.append(reader)
        texts += size
        joinable += [found] if found else []
        rows += reader.tail.footer.rows
    if group:
        yield _group(group, joinable)


def _text_bytes(reader: AcidFileReader) -> int:
    try:
        return text_bytes(reader.tail)
    except (WireError, UnicodeDecodeError) as error:
        raise CorruptFile(f"{reader.path!r} has damaged statistics: {error}. Restore the file from a copy") from error


def _group(readers: Sequence[AcidFileReader], joinable: Sequence[JoinableFile]) -> FileGroup:
    joined = None
    if len(joinable) > 1:
        with suppress(CorruptFile):  # read one by one they give the rows before the damage, and name the file
            joined = JoinedFiles(joinable, readers[0].path)
    return FileGroup(tuple(readers), joined)


def _joinable(readers: Sequence[AcidFileReader]) -> list[JoinableFile | None]:
    return joinable_files(
        [(reader.verified_bytes if reader.file.is_small else None, reader.tail) for reader in readers]
    )


def _fit(last: AcidFileReader, reader: AcidFileReader, previous: JoinableFile, found: JoinableFile, rows: int) -> bool:
    return (
        found.key == previous.key
        and reader.file.check_write_ids == last.file.check_write_ids
        and rows + reader.tail.footer.rows <= JOINED_ROWS
    )


def shares(files: Iterable[FileToRead], *, first: int = 1) -> Iterator[tuple[FileToRead, ...]]:
    """Files in shares for one thread each: a large one alone, small ones together.

    Args:
        files: In the order of their rows.
        first: The most files of the first share. Few, for callers that stop early; later shares have more.
    """
    share: list[FileToRead] = []
    size, most = 0, first
    for file in files:
        if share and (not file.is_small or len(share) >= most or size + file.size_bytes > JOINED_BYTES):
            yield tuple(share)
            share, size, most = [], 0, min(JOINED_FILES, most * 8)
        share.append(file)
        size += file.size_bytes
        if not file.is_small:
            yield tuple(share)
            share, size = [], 0
    if share:
        yield tuple(share)
