"""Files on Azure Storage: written in blocks, read by ranges.

A file that is to be renamed is uploaded in blocks under its later name, and they are not committed. No listing shows
such a blob and nothing can read it. To rename is to commit the list of its blocks, provided that no blob has the name.
Blocks that nobody commits cannot be removed; the service removes them after a week, or when others are committed.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hive_ingest.errors import PathExists, StreamingIOFailure
from hive_ingest.storage.azure.client import TOKEN, AzureClient, is_folder
from hive_ingest.storage.objects.paths import key_of
from hive_ingest.storage.objects.records import RECORD_TYPE, Record
from hive_ingest.storage.objects.staged import SmallFile, StagedFiles
from hive_ingest.storage.objects.uploaded_file import UploadedFile
from hive_ingest.storage.remote_input import RemoteInputFile

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient

#: So much is read when a file is opened: small files come whole, in one request.
_FIRST_BYTES: Final = 256 << 10
#: The largest file that is written under its hidden name and once more under its own.
SMALL_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Blocks(Record):
    """All blocks of a file, not committed: what any process needs to commit them.

    Attributes:
        key: The name that the blob gets.
        token: Of the blob; the names of its blocks begin with it, so other writers do not replace them.
        count: Of blocks.
        size_bytes: Of the file.
    """

    key: str
    token: str
    count: int
    size_bytes: int

    def commit(self, client: AzureClient, action: str, path: str) -> None:
        """Make them a blob. Raises PathExists; the existing blob stays as it is."""

        def commit(blob: BlobClient) -> None:
            from azure.core import MatchConditions
            from azure.storage.blob import BlobBlock

            blob.commit_block_list(
                [BlobBlock(block_name(self.token, number)) for number in range(1, self.count + 1)],
                metadata={TOKEN: self.token},
                match_condition=MatchConditions.IfMissing,
            )

        client.take_name(action, path, self.key, self.token, commit)


def block_name(token: str, number: int) -> str:
    """All blocks of a blob have names of one length, those of other writers too."""
    return f"{token}-{number:06d}"


class AzureOutputFile(UploadedFile):
    """A file that is uploaded as it is written.

    One with a `target` is not visible there after `close`: a small file lies under its own path, or in memory alone; a
    larger one is blocks that are not committed, and under its own path, for other processes, the record of them.
    """

    def __init__(
        self,
        client: AzureClient,
        path: str,
        target: str | None,
        staged: StagedFiles[Blocks],
        *,
        stays_here: bool = False,
    ) -> None:
        """
        Args:
            client: Of the container.
            path: Of the file.
            target: The name that it is going to be renamed to, if that is known.
            staged: Gets a finished file that has a target.
            stays_here: Whether this process renames it: a file of less than one block then stays in memory while
                `staged` has room for it.
        """
        super().__init__(path, f"azure-{client.authority}", client.options.part_bytes)
        self._client = client
        self._target = target
        self._staged = staged
        self._stays_here = stays_here
        self._token = uuid.uuid4().hex
        #: Whether a blob of this file may lie under its path, though a request for it may have failed.
        self._may_exist = False

    @property
    def _key(self) -> str:
        return key_of(self.path if self._target is None else self._target)

    def _add(self, number: int, part: bytearray) -> None:
        name = block_name(self._token, number)
        self._client.call_blob(
            "write", self.path, self._key, lambda blob: blob.stage_block(name, bytes(part), length=len(part))
        )

    def _finish(self) -> None:
        if not self._sent_parts and self._finish_small(SmallFile(self._pending, self._token)):
            return
        if self._pending:
            self._add(*self._next_part())
        self._wait_until_sent()
        blocks = Blocks(self._key, self._token, self._sent_parts, self._size)
        if self._target is None:
            blocks.commit(self._client, "finish", self.path)
            return
        self._put(blocks.encoded(), uuid.uuid4().hex, RECORD_TYPE)
        self._staged.add(self.path, blocks)

    def _finish_small(self, small: SmallFile) -> bool:
        """Returns whether the file needs no blocks."""
        if self._stays_here and self._staged.keep(self.path, small):
            return True
        if self._target is None or len(small.content) <= SMALL_BYTES:
            self._put(small.content, small.token)
            if self._target is not None:
                self._staged.add(self.path, small)
            return True
        return False

    def _put(self, data: bytes | bytearray, token: str, content_type: str = "application/octet-stream") -> None:
        """Create the blob of this path. Raises PathExists."""
        self._may_exist = True
        try:
            self._client.put_new("finish", self.path, key_of(self.path), data, token=token, content_type=content_type)
        except PathExists:
            self._may_exist = False
            raise

    def _withdraw(self) -> None:
        if self._may_exist:
            self._client.delete(self.path, key_of(self.path))


class AzureInputFile(RemoteInputFile):
    """A file as Arrow reads it."""

    def __init__(self, client: AzureClient, path: str) -> None:
        super().__init__()
        self._client = client
        self._path = path
        self._start, self._size, properties = self._read(0, _FIRST_BYTES)
        if properties.content_settings.content_type == RECORD_TYPE:
            raise StreamingIOFailure(f"cannot open {self._path!r}: it is not published yet, so it cannot be read")
        if is_folder(properties.metadata):
            raise StreamingIOFailure(f"cannot open {self._path!r}: it is a folder, not a file: check the location")
        self._tail = b""

    def _read(self, start: int, length: int) -> tuple[bytes, int, Any]:
        return self._client.read("read", self._path, key_of(self._path), start, length)

    def _read_range(self, start: int, length: int) -> bytes:
        if start + length <= len(self._start):
            return self._start[start : start + length]
        tail_start = self._size - _FIRST_BYTES
        if start >= tail_start:
            self._tail = self._tail or self._exactly(tail_start, _FIRST_BYTES)
            return self._tail[start - tail_start : start - tail_start + length]
        return self._exactly(start, length)

    def _exactly(self, start: int, length: int) -> bytes:
        data, _, _ = self._read(start, length)
        if len(data) != length:
            raise StreamingIOFailure(f"cannot read {self._path!r}: {len(data)} bytes of {length} came")
        return data
