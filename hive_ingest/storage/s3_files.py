"""Files on S3: written in parts, read by ranges."""

from __future__ import annotations

import os
import uuid
import warnings
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage.file_store import BytesLike, OutputFile
from hive_ingest.storage.remote_input import RemoteInputFile
from hive_ingest.storage.s3_client import S3Client
from hive_ingest.storage.s3_paths import key_of
from hive_ingest.storage.s3_staged import StagedFiles
from hive_ingest.storage.s3_upload import RECORD_TYPE, SmallFile, Upload
from hive_ingest.storage.sync_threads import run_for_device

#: A file is read from its end first, so opening it brings that much: small files come whole, in one request.
_TAIL_BYTES: Final = 256 << 10
#: The largest file that is written under its hidden name and once more under its own, which takes two requests, not the
#: four of an upload.
SMALL_BYTES: Final = 1 << 20
#: Parts double in size after so many, so that an object's 10,000 parts are enough for any.
_PARTS_OF_A_SIZE: Final = 1000


class S3OutputFile(OutputFile):
    """A file that is uploaded as it is written: one part is sent while the next one is filled.

    One with a `target` is not visible there after `close`: a small file lies under its own path, or in memory alone, a
    larger one is an upload that is not completed (see `s3_upload`).
    """

    def __init__(
        self, client: S3Client, path: str, target: str | None, staged: StagedFiles, *, stays_here: bool = False
    ) -> None:
        """
        Args:
            client: Of the bucket.
            path: Of the file.
            target: The name that it is going to be renamed to, if that is known.
            staged: Gets a finished file that has a target.
            stays_here: Whether a file of less than one part stays in memory while `staged` has room for it.
        """
        self.path = path
        self._staged = staged
        self._stays_here = stays_here
        self._client = client
        self._target = target
        self._size = 0
        #: Options may be read again while the file is written.
        self._first_part_bytes = client.options.part_bytes
        self._pending = bytearray()
        self._owner = os.getpid()
        #: Begun by the thread that uploads the first part.
        self._upload: Upload | None = None
        self._sent_parts = 0
        self._sending: Future[None] | None = None
        #: Whether an object of this file may lie under its path, though a request for it may have failed.
        self._may_exist = False
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
        return int(self._first_part_bytes << (self._sent_parts // _PARTS_OF_A_SIZE))

    def _send(self) -> None:
        """Upload the pending part on another thread, after the part before it."""
        self._wait_until_sent()
        self._sending = run_for_device(f"s3-{self._client.bucket}", partial(self._add, *self._next_part()))

    def _next_part(self) -> tuple[int, bytearray]:
        """The number and the content of the pending part."""
        part, self._pending = self._pending, bytearray()
        self._sent_parts += 1
        return self._sent_parts, part

    def _add(self, number: int, part: bytearray) -> None:
        if self._upload is None:
            self._upload = self._begin()
        self._upload.add(self.path, number, part)

    def _begin(self) -> Upload:
        target = self.path if self._target is None else self._target
        upload = Upload.begin(self._client, target, key_of(target))
        if self._target is not None:
            try:
                self._put("create", upload.record.encoded(), content_type=RECORD_TYPE)
            except BaseException:
                upload.abort(self.path)
                raise
        return upload

    def _put(self, action: str, data: bytes | bytearray, token: str | None = None, content_type: str = "") -> None:
        """Create the object of this path. Raises PathExists."""
        self._may_exist = True
        try:
            self._client.put_new(action, self.path, key_of(self.path), data, token=token, content_type=content_type)
        except PathExists:
            self._may_exist = False
            raise

    def _wait_until_sent(self) -> None:
        if self._sending is not None:
            self._sending.result()  # an error is raised again: a part is missing from now on
            self._sending = None

    def close(self) -> None:
        if self.closed:
            return
        with self._discarded_on_failure():
            self._finish()
        self._is_open = False

    def _finish(self) -> None:
        if not self._sent_parts and self._finish_small(SmallFile(self._pending, uuid.uuid4().hex)):
            return
        upload = self._finish_parts()
        if self._target is not None:
            self._staged.add(self.path, upload)
        else:
            upload.complete("finish", self.path)

    def _finish_small(self, small: SmallFile) -> bool:
        """Returns whether the file needs no upload."""
        if self._stays_here and self._staged.keep(self.path, small):
            return True
        if self._target is None or len(small.content) <= SMALL_BYTES:
            self._put("finish", small.content, small.token)
            if self._target is not None:
                self._staged.add(self.path, small)
            return True
        return False

    def _finish_parts(self) -> Upload:
        """Upload the last part on this thread, beside the one before it."""
        if self._upload is None:
            self._wait_until_sent()
        if self._pending:
            self._add(*self._next_part())
        self._wait_until_sent()
        assert self._upload is not None
        return self._upload

    def discard(self) -> None:
        if self.closed:
            return
        self._is_open = False
        self._pending = bytearray()
        if self._sending is not None:
            wait([self._sending])  # what it uploads after the upload is aborted would stay
        if self._upload is not None:
            self._upload.abort(self.path)
        if self._may_exist:
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
