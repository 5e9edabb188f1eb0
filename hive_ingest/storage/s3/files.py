"""Files on S3: written in parts, read by ranges."""

from __future__ import annotations

import uuid
from typing import Any, Final

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage.objects.paths import key_of
from hive_ingest.storage.objects.records import RECORD_TYPE
from hive_ingest.storage.objects.staged import SmallFile, StagedFiles
from hive_ingest.storage.objects.uploaded_file import UploadedFile
from hive_ingest.storage.remote_input import RemoteInputFile
from hive_ingest.storage.s3.client import S3Client
from hive_ingest.storage.s3.upload import Upload

#: A file is read from its end first, so opening it brings that much: small files come whole, in one request.
_TAIL_BYTES: Final = 256 << 10
#: The largest file that is written under its hidden name and once more under its own, which takes two requests, not the
#: four of an upload.
SMALL_BYTES: Final = 1 << 20


class S3OutputFile(UploadedFile):
    """A file that is uploaded as it is written.

    One with a `target` is not visible there after `close`: a small file lies under its own path, or in memory alone, a
    larger one is an upload that is not completed (see `upload`).
    """

    def __init__(
        self, client: S3Client, path: str, target: str | None, staged: StagedFiles[Upload], *, stays_here: bool = False
    ) -> None:
        """
        Args:
            client: Of the bucket.
            path: Of the file.
            target: The name that it is going to be renamed to, if that is known.
            staged: Gets a finished file that has a target.
            stays_here: Whether a file of less than one part stays in memory while `staged` has room for it.
        """
        # The size of parts is that of now: options may be read again while the file is written.
        super().__init__(path, f"s3-{client.bucket}", client.options.part_bytes)
        self._staged = staged
        self._stays_here = stays_here
        self._client = client
        self._target = target
        #: Begun by the thread that uploads the first part.
        self._upload: Upload | None = None
        #: Whether an object of this file may lie under its path, though a request for it may have failed.
        self._may_exist = False

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

    def _withdraw(self) -> None:
        if self._upload is not None:
            self._upload.abort(self.path)
        if self._may_exist:
            key = key_of(self.path)
            self._client.call("remove", self.path, lambda s3: s3.delete_object(Bucket=self._client.bucket, Key=key))


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
