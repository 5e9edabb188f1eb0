"""Opens the files of a folder for a reader; small files are opened before they are requested, many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice

import pyarrow as pa

from hive_ingest.errors import StreamingError
from hive_ingest.orc.in_order import in_order
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead, read_small_file
from hive_ingest.orc.reader.joined_files import FileGroup, grouped, shares
from hive_ingest.storage import FileStore

THREAD_NAME = "hive-ingest-read"
#: Threads that read, and shares of files that are read and opened before the reader requests them. One thread opens:
#: that holds the interpreter's lock, so more threads would only slow each other down. The reader's thread decodes.
_READING_THREADS, _SHARES_AHEAD = 2, 1


@dataclass(frozen=True, slots=True)
class _Share:
    """Neighbouring files, or one large file. `data` are the bytes of those that could be read."""

    files: tuple[FileToRead, ...]
    data: tuple[pa.Buffer | None, ...] = ()
    error: StreamingError | None = None


@dataclass(frozen=True, slots=True)
class _Opened:
    groups: tuple[FileGroup, ...]
    error: StreamingError | None


def open_ahead(store: FileStore, files: Iterable[FileToRead], *, verify_checksums: bool = True) -> Iterator[FileGroup]:
    """The files in order, in groups that can be read at once.

    A group may be used until the next one is requested. The first file is opened alone, and nothing after it before
    the second group is requested: a caller may stop there. An error is raised in place of its file.

    Raises:
        CorruptFile, StreamingIOFailure: As `AcidFileReader`.
    """
    opener = _Opener(store, verify_checksums)
    work = shares(files)
    for share in islice(work, 1):
        yield from opener.groups(opener.open(opener.read(share)))
    rest = list(islice(work, 2))
    if len(rest) < 2:  # a few files are not worth a thread
        for share in rest:
            yield from opener.groups(opener.open(opener.read(share)))
        return
    # No `with` block: it would wait for the threads, perhaps in a garbage collection on one of them.
    threads = ThreadPoolExecutor(_READING_THREADS + 1, THREAD_NAME)
    try:
        read = (share for _, share in in_order(threads, _READING_THREADS, opener.read, chain(rest, work)))
        for _, opened in in_order(threads, _SHARES_AHEAD, opener.open, read):
            yield from opener.groups(opened)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class _Opener:
    def __init__(self, store: FileStore, verify_checksums: bool) -> None:
        self._store = store
        self._verify_checksums = verify_checksums

    def read(self, files: tuple[FileToRead, ...]) -> _Share:
        data: list[pa.Buffer | None] = []
        try:
            data.extend(read_small_file(self._store, file) if file.is_small else None for file in files)
        except StreamingError as error:
            return _Share(files, tuple(data), error)
        return _Share(files, tuple(data))

    def open(self, share: _Share) -> _Opened | FileToRead:
        """Groups of small files; a large file is opened only when it is reached."""
        if len(share.files) == 1 and not share.files[0].is_small:
            return share.files[0]
        readers: list[AcidFileReader] = []
        try:
            readers.extend(self._reader(file, data) for file, data in zip(share.files, share.data, strict=False))
        except StreamingError as error:
            return _Opened(tuple(grouped(readers)), error)
        return _Opened(tuple(grouped(readers)), share.error)

    def groups(self, opened: _Opened | FileToRead) -> Iterator[FileGroup]:
        if isinstance(opened, FileToRead):
            with self._reader(opened, None) as reader:
                yield FileGroup((reader,))
            return
        yield from opened.groups
        if opened.error is not None:
            raise opened.error

    def _reader(self, file: FileToRead, data: pa.Buffer | None) -> AcidFileReader:
        return AcidFileReader(self._store, file, data=data, verify_checksums=self._verify_checksums)
