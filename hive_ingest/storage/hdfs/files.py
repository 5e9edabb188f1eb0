"""Files on HDFS: written in blocks, read by ranges."""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage.file_store import BytesLike, OutputFile
from hive_ingest.storage.hdfs.client import CALL_TIMEOUT_SECONDS, HdfsClient, is_answer_lost, is_of_datanodes
from hive_ingest.storage.remote_input import RemoteInputFile

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileWriter

#: By default a NameNode accepts no smaller blocks, so the size of a file's blocks matters only beyond it.
_SMALLEST_BLOCK_BYTES = 1 << 20
#: The pauses between two questions to the NameNode while a file is closed.
_FIRST_LOOK_SECONDS = 0.002
_LONGEST_LOOK_SECONDS = 0.05
#: How often a file is begun, each time on DataNodes that the NameNode draws.
_MAX_BEGINNINGS = 20


class HdfsOutputFile(OutputFile):
    """Data are sent to the DataNodes as they are written. With `sync`, closing waits until they are on disk.

    An hsync concerns the block that is being written, so there is one at the end of each block.
    """

    def __init__(self, client: HdfsClient, path: str, *, sync: bool) -> None:
        self.path = path
        self._client = client
        self._sync = sync
        self._size = 0
        self._synced = 0
        self._block_bytes = 0
        self._owner = os.getpid()
        self._file: FileWriter | None = None
        self._file = self._create()

    def _create(self) -> FileWriter:
        from hdfs_native import WriteOptions

        options = WriteOptions(overwrite=False, create_parent=False)
        return self._client.call("create", self.path, lambda hdfs: hdfs.create(self.path, options))

    @property
    def closed(self) -> bool:
        return self._file is None

    def tell(self) -> int:
        return self._size

    def write(self, data: BytesLike) -> int:
        if self._file is None:
            raise StreamingIOFailure(f"cannot write {self.path!r}: it is closed; create another file")
        view = memoryview(data).cast("B")
        rest = view
        while len(rest):
            part = rest[: self._room_in_block(len(rest))]
            # The client takes anything but bytes and bytearray byte by byte.
            content = data if isinstance(data, bytes | bytearray) and len(part) == len(view) else bytes(part)
            self._write(content)
            self._size += len(part)
            rest = rest[len(part) :]
            if self._sync and self._block_bytes and self._size % self._block_bytes == 0:
                self._hsync()
        return len(view)

    def _write(self, content: bytes | bytearray) -> None:
        """Write to the present block; the first bytes of a file to another file of its name where DataNodes fail.

        For minutes after a DataNode has died, the NameNode continues to assign blocks to it, and the client asks for no
        other one.
        """
        for left in reversed(range(_MAX_BEGINNINGS)):
            assert self._file is not None
            try:
                self._client.call("write", self.path, functools.partial(_write_to, self._file, content))
                return
            except StreamingIOFailure as failure:
                if self._size or not left or not is_of_datanodes(failure):
                    raise
            self._remove()
            self._file = self._create()

    def _room_in_block(self, wanted: int) -> int:
        """How many bytes may be written before the next hsync; at most `wanted`."""
        if not self._sync or self._size + wanted < _SMALLEST_BLOCK_BYTES:
            return wanted
        if not self._block_bytes:
            status = self._client.call("look at", self.path, lambda hdfs: hdfs.get_file_info(self.path), repeat=True)
            self._block_bytes = status.blocksize or sys.maxsize
        return min(wanted, self._block_bytes - self._size % self._block_bytes)

    def _hsync(self) -> None:
        file = self._file
        assert file is not None
        self._client.call("sync", self.path, lambda _: file.hsync(), repeat=True)
        self._synced = self._size

    def close(self) -> None:
        file = self._file
        if file is None:
            return
        with self._discarded_on_failure():
            if self._sync and self._size > self._synced:
                self._hsync()
            self._finish(file)
        self._file = None

    def _finish(self, file: FileWriter) -> None:
        """Close the file.

        The client usually asks the NameNode to complete it before a DataNode has reported the last block, and asks
        again half a second later. Meanwhile the NameNode is asked here for the length of the complete blocks. Once it
        is that of the file, recovering the lease closes the file at once. The client finds it closed when it asks
        again; nobody waits for that.
        """
        closing = self._client.begin("finish", self.path, lambda _: file.close())
        pause = _FIRST_LOOK_SECONDS
        while not closing.wait(pause):
            if self._is_reported() and self._recover_lease():
                return
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)
        try:
            closing.result()
        except StreamingIOFailure as failure:
            if not is_answer_lost(failure) or not self._is_finished_later():
                raise

    def _is_finished_later(self) -> bool:
        """Whether the file is closed with all its bytes, which the DataNodes have, once the NameNode answers again."""
        deadline = time.monotonic() + CALL_TIMEOUT_SECONDS
        while not self._recover_lease():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LONGEST_LOOK_SECONDS)
        return self._is_reported()

    def _is_reported(self) -> bool:
        """Whether all blocks are complete. Of a file that is not closed, the length is without an incomplete one."""
        try:
            size = self._client.call("look at", self.path, lambda hdfs: len(hdfs.read(self.path)), repeat=True)
        except StreamingIOFailure:
            return False  # closing the file fails too, or succeeds
        return size == self._size

    def _recover_lease(self) -> bool:
        """Whether the NameNode has closed the file. With an incomplete block it would first fence the writer."""
        try:
            return self._client.call("finish", self.path, lambda hdfs: hdfs.recover_lease(self.path), repeat=True)
        except StreamingIOFailure:
            return False

    def discard(self) -> None:
        if self._file is None:
            return
        # Not closed first: it would then look like a complete file.
        self._file = None
        self._remove()

    def _remove(self) -> None:
        self._client.call("remove", self.path, lambda hdfs: hdfs.delete(self.path, False), repeat=True)

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None and self._owner == os.getpid():
            warnings.warn(
                f"file {self.path!r} was neither closed nor discarded; it is incomplete and is removed",
                ResourceWarning,
                stacklevel=2,
            )
            self.discard()


def _write_to(file: FileWriter, content: bytes | bytearray, _: Client) -> int:
    return file.write(content)


class HdfsInputFile(RemoteInputFile):
    """A file object for Arrow."""

    def __init__(self, client: HdfsClient, path: str) -> None:
        super().__init__()
        self._client = client
        self._path = path
        self._file: FileReader = client.call("open", path, lambda hdfs: hdfs.read(path), repeat=True)
        self._size = len(self._file)

    def _read_range(self, start: int, length: int) -> bytes:
        # hdfs-native's reader panics beyond the end, so it is never asked for what lies there.
        data: bytes = self._client.call("read", self._path, lambda _: self._file.read_range(start, length))
        return data
