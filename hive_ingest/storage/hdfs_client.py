"""Calls to HDFS, with a time limit, and what their errors mean.

The client is hdfs-native, which needs neither a JVM nor Hadoop's libraries. It has no time limits of its own: a call to
a NameNode that is down is repeated for minutes. Its asynchronous calls can be cancelled, so they run in an event loop
on a thread of this process, and a call that takes too long is abandoned.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature

if TYPE_CHECKING:
    from hdfs_native import AsyncClient

T = TypeVar("T")

#: The longest wait for one call. A file of this library is written and read by many.
CALL_TIMEOUT_SECONDS = 60.0
_REMOTE = re.compile(r'RPCError\("(?:[\w.]+\.)?([\w$]+)", "(.*)"\)', re.DOTALL)

#: By the simple name of Hadoop's exception.
_REMEDIES = {
    "AccessControlException": "permission denied: give this user the right to read and write there",
    "SafeModeException": "the NameNode is in safe mode: wait until it has left it (hdfs dfsadmin -safemode get)",
    "NSQuotaExceededException": "the quota of names is used up: remove files, or raise it (hdfs dfsadmin -setQuota)",
    "DSQuotaExceededException": "the space quota is used up: free some space, or raise it "
    "(hdfs dfsadmin -setSpaceQuota)",
    "QuotaByStorageTypeExceededException": "the quota of its storage type is used up: free some space, or raise it",
    "ParentNotDirectoryException": "a part of the path is a file, not a folder: check the location",
    "PathIsNotEmptyDirectoryException": "the folder is not empty",
    "FSLimitException$PathComponentTooLongException": "the name is too long for HDFS: use shorter partition values",
    "FSLimitException$MaxDirectoryItemsExceededException": "the folder holds as many names as HDFS allows: compact "
    "the table, or raise dfs.namenode.fs-limits.max-directory-items",
    "StandbyException": "this NameNode is a standby: name both in hdfs-site.xml, and the name service in the location",
    "LeaseExpiredException": "the file was removed, or closed by another client, while it was written",
    "UnresolvedPathException": "a part of the path is a symbolic link, which is not followed",
}


class HdfsClient:
    """One name service, for one process: a fork gets a connection of its own.

    Methods raise StreamingIOFailure (PathNotFound, PathExists) and are safe from several threads.
    """

    def __init__(self, url: str, *, timeout_seconds: float = CALL_TIMEOUT_SECONDS) -> None:
        self._url = url
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._pid = -1
        self._connected: AsyncClient
        self._loop: asyncio.AbstractEventLoop

    def call(self, action: str, path: str, function: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """The result of one call, which `action` and `path` name in an error."""
        client, loop = self._of_this_process()

        async def run() -> T:
            return await asyncio.wait_for(function(client), self._timeout)

        try:
            return asyncio.run_coroutine_threadsafe(run(), loop).result()
        except TimeoutError:
            raise StreamingIOFailure(
                f"cannot {action} {path!r}: no answer from {self._url} within {self._timeout:.0f} s. Check that the "
                "NameNode and the DataNodes run and can be reached; the call may have taken effect"
            ) from None
        except (OSError, RuntimeError, ValueError) as error:
            raise hdfs_failure(action, path, error) from error

    def _of_this_process(self) -> tuple[AsyncClient, asyncio.AbstractEventLoop]:
        if self._pid != os.getpid():
            with self._lock:
                if self._pid != os.getpid():
                    self._connect()
        return self._connected, self._loop

    def _connect(self) -> None:
        try:
            from hdfs_native import AsyncClient
        except ImportError as error:
            raise UnsupportedFeature(
                f"{self._url} is on HDFS: install its client (pip install 'hive-ingest[hdfs]')"
            ) from error
        try:
            self._connected = AsyncClient(self._url)
        except (OSError, RuntimeError, ValueError) as error:
            raise hdfs_failure("open", self._url, error) from error
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="hive-ingest-hdfs", daemon=True).start()
        self._pid = os.getpid()

    def __getstate__(self) -> Any:
        raise TypeError("a client of HDFS belongs to its process: pass the location's URI on")


def hdfs_failure(action: str, path: str, error: Exception) -> StreamingIOFailure:
    """The error to raise `from` one of hdfs-native."""
    text = str(error).partition("\n")[0].partition("\\n")[0]
    if isinstance(error, FileExistsError):
        return PathExists(f"cannot {action} {path!r}: it exists already and is never replaced ({text})")
    if isinstance(error, FileNotFoundError) and "is not a file" in text:
        return StreamingIOFailure(f"cannot {action} {path!r}: it is a folder, not a file: check the location")
    if isinstance(error, FileNotFoundError):
        return PathNotFound(f"cannot {action} {path!r}: no such file or folder ({text})")
    remote = _REMOTE.match(str(error))
    if remote is None:
        return StreamingIOFailure(f"cannot {action} {path!r}: {text}")
    why = remote[2].partition("\\n")[0]
    remedy = _REMEDIES.get(remote[1])
    kind = PathExists if remote[1] == "AlreadyBeingCreatedException" else StreamingIOFailure
    return kind(f"cannot {action} {path!r}: {remedy} ({why})" if remedy else f"cannot {action} {path!r}: {why}")
