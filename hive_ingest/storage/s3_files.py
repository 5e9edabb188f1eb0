"""Files on S3: written in parts, read by ranges."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, Final

from hive_ingest.errors import PathNotFound, StreamingIOFailure
from hive_ingest.storage.file_store import BytesLike, OutputFile
from hive_ingest.storage.remote_input import RemoteInputFile
from hive_ingest.storage.s3_client import S3Client
from hive_ingest.storage.s3_upload import RECORD_TYPE, Upload

#: A file is read from its end first, so opening it brings that much: small files come whole, in one request.
_TAIL_BYTES: Final = 256 << 10
#: Parts double in size after so many, so that an object's 10,000 parts are enough for any.
_PARTS_OF_A_SIZE: Final = 1000


def key_of(path: str) -> str:
    """The key of a path."""
    return path.lstrip("/")


class S3OutputFile(OutputFile):
    """A file that is uploaded as it comes, one part in memory.

    One with a `target` is not completed by `close`: see `s3_upload`.
    """

    def __init__(
        self, client: S3Client, path: str, target: str | None, finished: Callable[[str, Upload], None]
    ) -> None:
        """
        Args:
            client: Of the bucket.
            path: Of the file.
            target: The name that it is going to be renamed to, if that is known.
            finished: Called by `close` with the path and the upload of a file that has a target.
        """
        self.path = path
        self._finished = finished
        self._client = client
        self._is_staged = target is not None
        self._size = 0
        self._pending = bytearray()
        self._owner = os.getpid()
        self._is_open = False
        self._upload: Upload | None = None
        if target is not None:
            self._upload = Upload.begin(client, target, key_of(target))
            try:
                client.put_new("create", path, key_of(path), self._upload.record.encoded(), RECORD_TYPE)
            except BaseException:
                self._upload.abort(path)
                raise
        self._is_open = True

    @property
    def closed(self) -> bool:
        return not self._is_open

    def tell(self) -> int:
        return self._size

    def write(self, data: BytesLike) -> int:
        if self.closed:
            raise StreamingIOFailure(f"cannot write {self.path!r}: it is closed; create another file")
        view = memoryview(data).cast("B")
        rest = view
        while len(rest):
            room = self._part_bytes - len(self._pending)
            self._pending += rest[:room]
            rest = rest[room:]
            if len(self._pending) == self._part_bytes:
                self._send()
        self._size += len(view)
        return len(view)

    @property
    def _part_bytes(self) -> int:
        sent = len(self._upload.parts) if self._upload else 0
        return int(self._client.options.part_bytes << (sent // _PARTS_OF_A_SIZE))

    def _send(self) -> None:
        if self._upload is None:
            self._upload = Upload.begin(self._client, self.path, key_of(self.path))
        self._upload.add(self.path, self._pending)
        self._pending = bytearray()

    def close(self) -> None:
        if self.closed:
            return
        with self._discarded_on_failure():
            self._finish()
        self._is_open = False

    def _finish(self) -> None:
        if self._upload is None:
            self._client.put_new("finish", self.path, key_of(self.path), self._pending)
            return
        if self._pending or not self._upload.parts:
            self._send()
        if self._is_staged:
            self._finished(self.path, self._upload)
        else:
            self._upload.complete("finish", self.path)

    def discard(self) -> None:
        if self.closed:
            return
        self._is_open = False
        if self._upload is not None:
            self._upload.abort(self.path)
        if self._is_staged:
            key = key_of(self.path)
            self._client.call("remove", self.path, lambda s3: s3.delete_object(Bucket=self._client.bucket, Key=key))

    def __del__(self) -> None:
        if getattr(self, "_is_open", False) and self._owner == os.getpid():
            warnings.warn(
                f"file {self.path!r} was neither closed nor discarded; it is incomplete and is removed",
                ResourceWarning,
                stacklevel=2,
            )
            self.discard()


class S3InputFile(RemoteInputFile):
    """A file as Arrow reads it."""

    def __init__(self, client: S3Client, path: str) -> None:
        super().__init__()
        self._client = client
        self._path = path
        self._size, self._tail = self._open()

    def _open(self) -> tuple[int, bytes]:
        """The size, and the end of the file."""
        try:
            answer, data = self._get(f"bytes=-{_TAIL_BYTES}")
        except PathNotFound:
            raise
        except StreamingIOFailure as failure:
            if "InvalidRange" not in str(failure):
                raise
            return 0, b""  # of an empty object
        if answer.get("ContentType") == RECORD_TYPE:
            raise StreamingIOFailure(f"cannot open {self._path!r}: it is not published yet, so it cannot be read")
        given = str(answer.get("ContentRange", ""))
        return (int(given.rpartition("/")[2]) if given else len(data)), data

    def _get(self, bytes_range: str) -> tuple[Any, bytes]:
        return self._client.get("read", self._path, key_of(self._path), Range=bytes_range)

    def _read_range(self, start: int, length: int) -> bytes:
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : start - tail_start + length]
        _, data = self._get(f"bytes={start}-{start + length - 1}")
        if len(data) != length:
            raise StreamingIOFailure(f"cannot read {self._path!r}: {len(data)} bytes of {length} came")
        return data
