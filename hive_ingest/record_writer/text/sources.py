"""What `write()` of the text writers takes: text, buffers, paths, and streams, which are read in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hive_ingest.errors import StreamingIOFailure


def as_bytes(records: object) -> bytes | None:
    """Text or a buffer as bytes; None for anything else."""
    if isinstance(records, str):
        # A lone surrogate is not UTF-8: the record is reported when its block is parsed.
        return records.encode("utf-8", "surrogatepass")
    if isinstance(records, bytes | bytearray | memoryview):
        return bytes(records)
    return None


@contextmanager
def opened(path: os.PathLike[Any]) -> Iterator[Any]:
    """The file at a path, opened for reading.

    Raises:
        StreamingIOFailure: The file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise StreamingIOFailure(f"cannot read {os.fspath(path)!r}: {error}") from error


def pieces_of(file: Any, piece_bytes: int) -> Iterator[Any]:
    """What a stream returns until its end, in pieces of about `piece_bytes`.

    Raises:
        StreamingIOFailure: The stream cannot be read, or has no data for now.
    """
    while True:
        try:
            piece = file.read(piece_bytes)
            is_waiting = piece is None or (len(piece) == 0 and _is_waiting(file))
        except (OSError, ValueError) as error:
            raise StreamingIOFailure(f"cannot read {_name_of(file)}: {error}") from error
        if is_waiting:
            raise StreamingIOFailure(
                f"{_name_of(file)} is a non-blocking stream that has no data now, and may not have ended: make it "
                "blocking, or read it yourself and write what you have read"
            )
        if not len(piece):
            return
        yield piece


def _is_waiting(file: Any) -> bool:
    """Whether a text stream that returned no text is over a non-blocking stream that may still return some.

    `io.TextIOWrapper` returns "" in both cases; the underlying stream returns None if it is not at its end.
    """
    raw = getattr(getattr(file, "buffer", None), "raw", None)
    if raw is None or os.get_blocking(raw.fileno()):
        return False
    return bool(raw.read(1) != b"")


def _name_of(file: Any) -> str:
    name = getattr(file, "name", None)
    return repr(name) if isinstance(name, str) else f"a {type(file).__name__}"
