"""The text of a file, from any byte on: as it is stored, or uncompressed.

A compressed file can only be read forwards. Its offsets are those in the uncompressed text, so a position in it stays
valid when lines are appended as a further member, and a transaction continues where the last one ended without
uncompressing the beginning again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import pyarrow as pa

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage import Location, io_errors
from hive_ingest.streaming.files.read_ahead import ReadAhead

#: Bytes at the start of a file, and before an offset, that make up its fingerprint.
_FINGERPRINT_BYTES: Final = 4096
_SKIPPED_BYTES: Final = 1 << 20
#: Smaller than the blocks of files: a pipe may be slow, and none of its records is used before its block is complete.
_PIPE_BLOCK_BYTES: Final = 1 << 20
#: Arrow's names of the compressions, by the end of a file's name.
_SUFFIXES: Final = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
#: The path of the standard input.
STDIN: Final = "-"
_BZ2_BLOCKS: Final = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")
_MAGIC_BYTES: Final = 10


class Text(Protocol):
    """The text of a file. Errors are StreamingIOFailure, and name the file."""

    @property
    def size_bytes(self) -> int:
        """The size of the file as it is stored."""
        ...

    def stored_bytes(self, offset: int) -> int:
        """About how much of the stored file comes before an offset."""
        ...

    def starts_with(self, prefix: bytes) -> bool:
        """Whether the text begins so."""
        ...

    def blocks(self, offset: int, block_bytes: int) -> Iterator[bytes]:
        """The text from an offset on, in blocks."""
        ...

    def readable_bytes(self) -> int:
        """The size of the text; of a compressed file that is not whole, of what can be read of it. Reads all of it."""
        ...

    def ends_at(self, offset: int) -> bool:
        """Whether no text follows an offset that was read before."""
        ...

    def fingerprint(self, offset: int) -> tuple[str, bytes] | None:
        """A digest of some of the text before an offset, and its last bytes; None if the text is shorter."""
        ...

    def keep_from(self, offset: int | None) -> None:
        """Until the next call, what is read from an offset on can be read again, in a pipe too. None: no longer."""
        ...

    def rewind(self) -> None:
        """Close what is open; the text will be read from its start. A pipe stays where it is."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


def text_of(file: Location, name: str) -> Text:
    """The text of a file, by its first bytes and the end of its name.

    Raises:
        StreamingIOFailure: The file cannot be read, or is not what its name says.
    """
    if name == STDIN:
        if sys.stdin is None:
            raise StreamingIOFailure("the standard input is closed: redirect a file or a pipe to it")
        return PipeText(sys.stdin.buffer, "standard input", is_ours=False)
    if _is_pipe(name):
        with io_errors("read", name):
            return PipeText(open(name, "rb"), name, is_ours=True)
    stored = StoredFile(file, name)
    codec = _codec(stored.head[:_MAGIC_BYTES])
    named = next((codec for suffix, codec in _SUFFIXES.items() if file.name.lower().endswith(suffix)), None)
    if named is not None and codec != named and stored.size_bytes:
        raise StreamingIOFailure(
            f"{name!r} is not compressed by {named}, as its name says, but {f'by {codec}' if codec else 'plain'}: "
            "rename it, or check that it was copied whole"
        )
    return PlainText(stored) if codec is None else CompressedText(stored, codec)


def _is_pipe(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False  # missing, or in another file system
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def _codec(start: bytes) -> str | None:
    """The compression that a file begins with."""
    if start.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    return "bz2" if start.startswith(b"BZh") and start[4:] in _BZ2_BLOCKS else None


class StoredFile:
    """A file that is opened by its name several times, and must be the same file each time.

    A log may be renamed, or copied and emptied, between two calls. Its name then stands for other lines, which must not
    be committed as those of the file that was chosen.

    Attributes:
        name: The file, as errors name it.
        size_bytes: The size that it had first.
        head: Its first bytes.

    Raises:
        StreamingIOFailure: It cannot be read.
    """

    def __init__(self, file: Location, name: str) -> None:
        self._file = file
        self.name = name
        with io_errors("read", name), file.open_input() as stored:
            self.size_bytes: int = stored.size()
            self.head: bytes = stored.read(min(self.size_bytes, _FINGERPRINT_BYTES))

    def open(self) -> pa.NativeFile:
        """For random reads; the caller closes it. Raises StreamingIOFailure if the file does not begin as it did."""
        with io_errors("read", self.name):
            stored = self._file.open_input()
            if stored.read(len(self.head)) == self.head:
                stored.seek(0)
                return stored
            stored.close()
        raise replaced(self.name)


def replaced(name: str) -> StreamingIOFailure:
    """The error to raise when a file is not the one that was chosen."""
    return StreamingIOFailure(
        f"{name!r} was replaced, edited or truncated while it was read: nothing of the transaction is committed. Run "
        "again; while files are read, only append to them"
    )


class PlainText:
    """A file that is stored as it is."""

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self.size_bytes = file.size_bytes

    def stored_bytes(self, offset: int) -> int:
        """The offset."""
        return offset

    def starts_with(self, prefix: bytes) -> bool:
        """Whether the file began so when it was opened first."""
        return self._file.head.startswith(prefix)

    def blocks(self, offset: int, block_bytes: int) -> Iterator[bytes]:
        """The text from an offset on, in blocks."""
        with self._open() as file:
            file.seek(offset)
            while block := file.read(block_bytes):
                yield block

    def readable_bytes(self) -> int:
        """The size of the file."""
        return self.size_bytes

    def ends_at(self, offset: int) -> bool:
        """Whether the file had that size when it was opened first."""
        return offset >= self.size_bytes

    def fingerprint(self, offset: int) -> tuple[str, bytes] | None:
        """A digest of some of the text before an offset, and its last bytes; None if the file is shorter now."""
        length = min(offset, _FINGERPRINT_BYTES)
        with self._open() as file:
            if file.size() < offset:
                return None
            start, end = file.read_at(length, 0), file.read_at(length, offset - length)
        return _digest(start, end), end

    def keep_from(self, offset: int | None) -> None:
        """Any offset can be read again."""

    def rewind(self) -> None:
        """Nothing is open between two calls."""

    def close(self) -> None:
        """Nothing is open between two calls."""

    @contextmanager
    def _open(self) -> Iterator[pa.NativeFile]:
        with io_errors("read", self._file.name), self._file.open() as file:
            yield file


class _StreamedText(ABC):
    """A text that is read forwards. Small steps back cost nothing; others begin at the start."""

    def __init__(self, name: str) -> None:
        self._name = name
        #: The size of the text, once its end was read.
        self._text_bytes: int | None = None
        self._text: Any = None
        #: The first bytes of the text, the last ones that were read, and where these start and end.
        self._head = self._window = b""
        self._start = self._end = 0
        self._kept_from: int | None = None

    @abstractmethod
    def _open(self) -> Any:
        """A stream at the start of the text."""

    def starts_with(self, prefix: bytes) -> bool:
        """Whether the text begins so."""
        return next(self.blocks(0, len(prefix)), b"").startswith(prefix)

    def blocks(self, offset: int, block_bytes: int) -> Iterator[bytes]:
        """The text from an offset on, in blocks."""
        self._go_to(offset, block_bytes)
        if offset < self._end:
            yield self._window[offset - self._start :]
        while block := self._next(block_bytes):
            yield block

    def ends_at(self, offset: int) -> bool:
        """Whether no text follows an offset that was read before."""
        if self._text_bytes is not None:
            return offset >= self._text_bytes
        self._go_to(offset)
        return self._end <= offset and not self._next(_SKIPPED_BYTES)

    def fingerprint(self, offset: int) -> tuple[str, bytes] | None:
        """A digest of some of the text before an offset, and its last bytes; None if the text is shorter."""
        self._go_to(offset)
        if self._end < offset:
            return None
        length = min(offset, _FINGERPRINT_BYTES)
        end = self._window[offset - length - self._start : offset - self._start]
        return _digest(self._head[:length], end), end

    def keep_from(self, offset: int | None) -> None:
        """Until the next call, what is read from an offset on stays in memory, with what a fingerprint needs."""
        self._kept_from = offset

    def close(self) -> None:
        """Close the stream. It is opened again when more of the text is needed."""
        self._text = None

    def _go_to(self, offset: int, block_bytes: int = _SKIPPED_BYTES) -> None:
        """Read until the window has the offset and what a fingerprint needs before it."""
        if max(offset - _FINGERPRINT_BYTES, 0) < self._start:
            self._restart()
        while self._end < offset and self._next(block_bytes):
            pass

    def _next(self, block_bytes: int) -> bytes:
        """The next block of the text, empty at the end."""
        if self._end == self._text_bytes:
            return b""
        with io_errors("read", self._name):
            if self._text is None:
                self._text = self._open()
            block: bytes = self._text.read(block_bytes)
        if not block:
            self._text_bytes = self._end
            self.close()
            self._keep(_FINGERPRINT_BYTES)  # the next step is a fingerprint; many files may have ended
            return b""
        self._head += block[: _FINGERPRINT_BYTES - len(self._head)]
        self._keep(_FINGERPRINT_BYTES)
        self._window += block
        self._end += len(block)
        return block

    def _keep(self, count: int) -> None:
        """Keep the last bytes of the window."""
        if self._kept_from is not None:
            count += max(self._end - self._kept_from, 0)
        self._window = self._window[-count:]
        self._start = self._end - len(self._window)

    def _restart(self) -> None:
        """Begin at the start the next time."""
        self.close()
        self._head = self._window = b""
        self._start = self._end = 0


class CompressedText(_StreamedText):
    """A compressed file, of any number of members."""

    def __init__(self, file: StoredFile, codec: str) -> None:
        super().__init__(file.name)
        self._file = file
        self._codec = codec
        self._stored: pa.NativeFile | None = None
        self.size_bytes = file.size_bytes

    def stored_bytes(self, offset: int) -> int:
        """How much of the stored file was read; all of it at the end."""
        if not offset or self._stored is None:
            return 0
        if self._stored.closed or offset == self._text_bytes:  # it is closed once the end of the text was read
            return self.size_bytes
        return min(int(self._stored.tell()), self.size_bytes)

    def readable_bytes(self) -> int:
        """The size of the text, or of what can be read of a file that is not whole."""
        with suppress(StreamingIOFailure):
            while self._next(_SKIPPED_BYTES):
                pass
        return self._end

    def rewind(self) -> None:
        """Close what is open; the text will be read from its start."""
        self._restart()

    def ends_at(self, offset: int) -> bool:
        """Whether no text follows an offset that was read before."""
        if offset or self._text_bytes is not None:
            return super().ends_at(offset)
        is_empty = not self._next(1)
        self._restart()  # many files may wait for their turn: none of them stays open
        return is_empty

    def close(self) -> None:
        """Close the stream. It is opened again when more of the text is needed."""
        if self._text is not None:
            self._text.close()
        super().close()

    def _open(self) -> ReadAhead:
        self._stored = self._file.open()
        return ReadAhead(pa.CompressedInputStream(self._stored, self._codec))


class PipeText(_StreamedText):
    """A pipe, plain or compressed, which is read once. Its size is what was read so far."""

    def __init__(self, pipe: Any, name: str, *, is_ours: bool) -> None:
        super().__init__(name)
        self._pipe = pipe
        self._is_ours = is_ours
        self._is_begun = False

    def blocks(self, offset: int, block_bytes: int) -> Iterator[bytes]:
        """The text from an offset on, in blocks of at most 1 MiB."""
        return super().blocks(offset, min(block_bytes, _PIPE_BLOCK_BYTES))

    def readable_bytes(self) -> int:
        """The bytes of the text that were read: a pipe is read only once."""
        return self._end

    def rewind(self) -> None:
        """A pipe stays where it is."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the text that were read."""
        return self._end

    def stored_bytes(self, offset: int) -> int:
        """The offset."""
        return offset

    def _open(self) -> Any:
        if self._is_begun:
            raise StreamingIOFailure(f"{self._name!r} is a pipe, which cannot be read a second time: run again with it")
        self._is_begun = True
        codec = _codec(self._pipe.peek(_MAGIC_BYTES)[:_MAGIC_BYTES])
        return self._pipe if codec is None else pa.CompressedInputStream(pa.PythonFile(self._pipe, mode="r"), codec)

    def close(self) -> None:
        """Close the pipe, unless it is the standard input."""
        super().close()
        if self._is_ours:
            self._pipe.close()


def _digest(start: bytes, end: bytes) -> str:
    digest = hashlib.sha256(start)
    digest.update(end)
    return digest.hexdigest()[:32]
