"""Calls to HDFS with a timeout, and what their errors mean.

The client is hdfs-native, which needs neither a JVM nor Hadoop's libraries. It has no timeouts of its own: it repeats a
call to a NameNode that is down for minutes. So calls run on threads of their own, and one that takes too long is
abandoned on its thread. (Its asynchronous calls could be cancelled, but panic during a failover, 0.14.7.)
It does not repeat a call whose answer is lost with the connection, as when the NameNode is restarted.
"""

from __future__ import annotations

import atexit
import os
import queue
import re
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.identity import hadoop_user
from hive_ingest.kerberos import ticket_remedy

if TYPE_CHECKING:
    from hdfs_native import Client

T = TypeVar("T")

#: The longest wait for one call. Writing or reading a file takes many calls.
CALL_TIMEOUT_SECONDS = 60.0
#: How long the end of the process waits for calls that nobody awaits.
_EXIT_SECONDS = 5.0
#: Of a NameNode that is a standby, and of one of a pair that is being started.
_REFUSED_FOR_NOW = ("StandbyException", "RetriableException")
#: Says a single NameNode of the safe mode of its start, and not of one that an administrator has turned on.
_STARTING = "Safe mode will be turned off automatically"
#: The pause between two calls while no NameNode is active, or one refuses the ticket.
_REFUSAL_PAUSE_SECONDS = 0.25
#: How often a NameNode may refuse a ticket in one call. It takes one for a replay if many connections are opened within
#: a microsecond, and one that expires on the way is renewed. Hadoop's clients try this often, too.
_MAX_REFUSED_TICKETS = 5
#: What hdfs-native says of a call whose connection broke. The call may have taken effect.
_ANSWER_LOST = "RPC listener disconnected"
#: How hdfs-native's errors about DataNodes that have failed begin. A connection that fails is an OSError.
_OF_DATANODES = "DataTransferError("
_REFUSED_TICKET = "javax.security.sasl.SaslException"
#: Of a delegation token that has ended, or was not renewed in time.
_REFUSED_TOKEN = "SecretManager$InvalidToken"
_TOKENS, _KEYTAB = "HADOOP_TOKEN_FILE_LOCATION", "KRB5_CLIENT_KTNAME"
_REMOTE = re.compile(r'RPCError\("(?:[\w.]+\.)?([\w$]+)", "(.*)"\)', re.DOTALL)

#: What to do about an error, by the simple name of Hadoop's exception.
_REMEDIES = {
    "AccessControlException": "permission denied: give this user the right to read and write there",
    "SafeModeException": "the NameNode is in safe mode: wait until it has left it (hdfs dfsadmin -safemode get)",
    "NSQuotaExceededException": "the name quota is used up: remove files, or raise it (hdfs dfsadmin -setQuota)",
    "DSQuotaExceededException": "the space quota is used up: free some space, or raise it "
    "(hdfs dfsadmin -setSpaceQuota)",
    "QuotaByStorageTypeExceededException": "the quota of its storage type is used up: free some space, or raise it",
    "ParentNotDirectoryException": "a part of the path is a file, not a folder: check the location",
    "PathIsNotEmptyDirectoryException": "the folder is not empty",
    "FSLimitException$PathComponentTooLongException": "the name is too long for HDFS: use shorter partition values",
    "FSLimitException$MaxDirectoryItemsExceededException": "the folder holds as many names as HDFS allows: compact "
    "the table, or raise dfs.namenode.fs-limits.max-directory-items",
    "StandbyException": "this NameNode is a standby: name both in hdfs-site.xml, and the name service in the location",
    "InvalidPathException": "HDFS allows no name of this kind, such as one with a ':': use another location",
    "SnapshotException": "HDFS neither removes nor renames a folder while it keeps a snapshot of it: delete its "
    "snapshots (hdfs lsSnapshottableDir, hdfs dfs -deleteSnapshot)",
    "SnapshotAccessControlException": "a snapshot can only be read",
    "LeaseExpiredException": "the file was removed, or closed by another client, while it was written",
    "UnresolvedPathException": "a part of the path is a symbolic link, which is not followed",
}


#: The first process that used HDFS. In a forked child, what hdfs-native shares between its clients hangs.
_process: int | None = None
#: Set when a call has ended; with those of calls that ended a moment ago.
_ends: weakref.WeakSet[threading.Event] = weakref.WeakSet()


@atexit.register
def await_calls() -> None:
    """Wait for calls that nobody awaits, at most five seconds; called at the end of the process.

    Python ends threads that come back to it after its end, and hdfs-native then aborts the process.
    """
    deadline = time.monotonic() + _EXIT_SECONDS
    for is_done in [*_ends] if _process == os.getpid() else ():
        is_done.wait(max(deadline - time.monotonic(), 0.0))


class HdfsClient:
    """A client of one name service, for one process.

    Methods raise StreamingIOFailure (PathNotFound, PathExists), are safe from several threads, and refuse a forked
    child (UnsupportedFeature).
    """

    def __init__(self, url: str, *, timeout_seconds: float = CALL_TIMEOUT_SECONDS) -> None:
        self._url = url
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._connected: Client | None = None
        self._idle: list[_Caller] = []

    def call(self, action: str, path: str, function: Callable[[Client], T], *, repeat: bool = False) -> T:
        """The result of one call.

        Args:
            action: What the call does, as a verb, for errors.
            path: The path, for errors.
            function: Makes the call.
            repeat: Whether to make the call again if its answer is lost. It may have taken effect then.
        """
        return self.begin(action, path, function, repeat=repeat).result()

    def begin(self, action: str, path: str, function: Callable[[Client], T], *, repeat: bool = False) -> HdfsCall[T]:
        """Begin the same call without waiting for it."""
        client = self._client()
        try:
            caller = self._idle.pop()
        except IndexError:
            caller = _Caller(self._idle)
        deadline = time.monotonic() + self._timeout
        task = _Task(lambda: _until_accepted(lambda: function(client), deadline, repeat=repeat))
        _ends.add(task.is_done)
        caller.tasks.put(task)
        late = (
            f"cannot {action} {path!r}: no answer from {self._url} within {self._timeout:.0f} s. Check that the "
            "NameNode and the DataNodes run and can be reached; the call may have taken effect"
        )
        return HdfsCall(action, path, task, deadline, late)

    def _client(self) -> Client:
        global _process
        if _process is None:
            _process = os.getpid()
        if _process != os.getpid():
            raise UnsupportedFeature(
                f"{self._url}: this process was forked from one that uses HDFS, whose client does not survive a fork: "
                "start processes by the method 'spawn' (multiprocessing.get_context('spawn'))"
            )
        if self._connected is None:
            with self._lock:
                if self._connected is None:
                    self._connected = self._connect()
        return self._connected

    def _connect(self) -> Client:
        try:
            from hdfs_native import Client
        except ImportError as error:
            raise UnsupportedFeature(
                f"{self._url} is on HDFS: install its client (pip install 'hive-ingest[hdfs]')"
            ) from error
        if user := hadoop_user():
            os.environ["HADOOP_USER_NAME"] = user  # there alone the client looks
        try:
            return Client(self._url)
        except (OSError, RuntimeError, ValueError) as error:
            raise hdfs_failure("open", self._url, error) from error

    def __getstate__(self) -> Any:
        raise TypeError("a client of HDFS belongs to its process: pass the location's URI on")


@dataclass(slots=True)
class _Task:
    #: None once the call has ended.
    function: Callable[[], Any] | None
    is_done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class HdfsCall(Generic[T]):
    """A call that was begun. Nobody has to wait for it."""

    _action: str
    _path: str
    _task: _Task
    _deadline: float
    _late: str

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so long. Returns whether `result` would not wait."""
        rest = self._deadline - time.monotonic()
        return self._task.is_done.wait(min(seconds, max(rest, 0.0))) or rest <= seconds

    def result(self) -> T:
        """Raises StreamingIOFailure (PathNotFound, PathExists), also after the timeout."""
        if not self._task.is_done.wait(max(self._deadline - time.monotonic(), 0.0)):
            raise StreamingIOFailure(self._late)
        error = self._task.error
        if isinstance(error, OSError | RuntimeError | ValueError):
            raise hdfs_failure(self._action, self._path, error) from error
        if error is not None:
            raise error
        result: T = self._task.result
        return result


class _Caller:
    """A daemon thread that makes calls, one at a time, and is idle after each, also after one that nobody awaits."""

    def __init__(self, idle: list[_Caller]) -> None:
        self._idle = idle
        self.tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="hive-ingest-hdfs", daemon=True).start()

    def _run(self) -> None:
        while True:
            task = self.tasks.get()
            assert task.function is not None
            try:
                task.result = task.function()
            except BaseException as error:  # noqa: BLE001  # the thread that waits raises it
                task.error = error.with_traceback(None)
            # Freed before the end of the call is reported: a file that is freed closes itself, which is a call, too.
            task.function = None
            self._idle.append(self)
            task.is_done.set()
            del task  # otherwise the caller's data would be kept until the next call


def _until_accepted(function: Callable[[], T], deadline: float, *, repeat: bool) -> T:
    """Call until one of the NameNodes is active and accepts the ticket. A call that is refused has no effect.

    Ends before the deadline, at which nobody waits for it any longer, so that the last refusal is what is raised.
    """
    refused_tickets, has_set_tokens_aside = 0, False
    while True:
        try:
            return function()
        except (OSError, RuntimeError) as error:
            text = str(error)
            refused_tickets += _REFUSED_TICKET in text
            if _REFUSED_TOKEN in text and not has_set_tokens_aside and _set_tokens_aside():
                has_set_tokens_aside = True
                continue
            again = _is_worth_another_try(text, refused_tickets) or (repeat and _ANSWER_LOST in text)
            if not again or time.monotonic() + 2 * _REFUSAL_PAUSE_SECONDS > deadline:
                raise
        time.sleep(_REFUSAL_PAUSE_SECONDS)


def _set_tokens_aside() -> bool:
    """Have this process use its keytab from now on. Returns whether it has one.

    The client looks for tokens whenever it connects. It prefers them to tickets, until a minute before the end of their
    life, and does not know whether they were renewed.
    """
    if not os.path.exists(os.environ.get(_KEYTAB, "").removeprefix("FILE:")):
        return False
    os.environ.pop(_TOKENS, None)
    return True


def _is_worth_another_try(text: str, refused_tickets: int) -> bool:
    remote = _REMOTE.match(text)
    if remote is not None and (remote[1] in _REFUSED_FOR_NOW or _STARTING in remote[2]):
        return True
    return _REFUSED_TICKET in text and refused_tickets < _MAX_REFUSED_TICKETS


def is_answer_lost(failure: StreamingIOFailure) -> bool:
    """Whether the connection broke before the NameNode's answer came, so that the call may have taken effect."""
    return failure.__cause__ is not None and _ANSWER_LOST in str(failure.__cause__)


def is_of_datanodes(failure: StreamingIOFailure) -> bool:
    """Whether a DataNode cannot be reached or has failed, not the NameNode."""
    cause = failure.__cause__
    if isinstance(cause, OSError):
        return not isinstance(cause, FileNotFoundError | FileExistsError) and not is_answer_lost(failure)
    return str(cause).startswith(_OF_DATANODES)


def hdfs_failure(action: str, path: str, error: Exception) -> StreamingIOFailure:
    """The error to raise `from` one of hdfs-native."""
    text = str(error).partition("\n")[0].partition("\\n")[0]
    if _REFUSED_TOKEN in text:
        return StreamingIOFailure(
            f"cannot {action} {path!r}: the delegation tokens in {_TOKENS} have ended, or were not renewed ({text}): "
            f"get new ones, or name a keytab in {_KEYTAB}"
        )
    if isinstance(error, FileExistsError):
        return PathExists(f"cannot {action} {path!r}: it exists already and is never replaced ({text})")
    if isinstance(error, FileNotFoundError) and "is not a file" in text:
        return StreamingIOFailure(f"cannot {action} {path!r}: it is a folder, not a file: check the location")
    if isinstance(error, FileNotFoundError):
        return PathNotFound(f"cannot {action} {path!r}: no such file or folder ({text})")
    remote = _REMOTE.match(str(error))
    if remote is None:
        why = _connection_failure(text) or _kerberos_failure(str(error)) or _viewfs_failure(str(error)) or text
        return StreamingIOFailure(f"cannot {action} {path!r}: {why}")
    why = remote[2].partition("\\n")[0]
    remedy = _REMEDIES.get(remote[1])
    kind = PathExists if remote[1] == "AlreadyBeingCreatedException" else StreamingIOFailure
    return kind(f"cannot {action} {path!r}: {remedy} ({why})" if remedy else f"cannot {action} {path!r}: {why}")


def _connection_failure(text: str) -> str | None:
    """What is wrong, and what to do about it, if a NameNode or a DataNode cannot be reached."""
    if _ANSWER_LOST in text:
        return f"the connection to the NameNode broke ({text}), and the call may have taken effect: check that it runs"
    if text.startswith("Connection refused"):
        return f"a DataNode cannot be reached ({text}): check that the DataNodes run (hdfs dfsadmin -report)"
    if text.startswith(_OF_DATANODES):
        return f"a DataNode has failed ({text}): write the transaction again, and see hdfs dfsadmin -report"
    return None


def _kerberos_failure(text: str) -> str | None:
    """What is wrong, and what to do about it, if it is about Kerberos."""
    if text.startswith("GSSAPIError("):
        quoted = text.partition(', "')[2].rpartition('"')[0]
        return f"Kerberos authentication failed: {quoted or text}. {ticket_remedy()}"
    if _REFUSED_TICKET in text:
        return (
            f"the NameNode refuses the Kerberos ticket of this process ({text}): compare the clocks of both machines, "
            "and see its log"
        )
    if "Failed to load libgssapi_krb" in text:
        return (
            "Kerberos needs the system library libgssapi_krb5.so.2: install it with 'apt-get install libgssapi-krb5-2' "
            "or 'dnf install krb5-libs'"
        )
    return None


def _viewfs_failure(text: str) -> str | None:
    """What is wrong, and what to do about it, if it is about the mount table of a viewfs."""
    if "No viewfs fallback mount found" in text:
        return (
            "core-site.xml in HADOOP_CONF_DIR has no mount table of this name with a fallback, which the client needs: "
            "set fs.viewfs.mounttable.NAME.linkFallback beside its links"
        )
    return None
