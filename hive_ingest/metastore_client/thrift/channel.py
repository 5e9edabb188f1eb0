"""Calls to any server that answers: connects, fails over, and repeats calls that are safe to repeat.

A call whose request may have reached a server is repeated only if the caller declares it idempotent.
Connecting is always retried, because nothing has been sent yet.
"""

from __future__ import annotations

import logging
import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import tenacity

from hive_ingest.errors import ConnectionMisuse, MetastoreError, MetastoreUnavailable, StreamingError
from hive_ingest.metastore_client.thrift.addresses import Address
from hive_ingest.metastore_client.thrift.failures import ConnectionClosed, NoResponse
from hive_ingest.metastore_client.thrift.options import ThriftOptions
from hive_ingest.metastore_client.thrift.versions import ServerVersion, parse_version
from hive_ingest.metastore_client.thrift.wire import Wire

_log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
#: How often a server may close the connection during one call before the call counts as failed in the server.
_MAX_CLOSED_CONNECTIONS = 3


#: Idle connections that are kept open. Concurrent calls open further ones, which are closed afterwards.
_IDLE_WIRES = 4


class Channel:
    """Connections to the servers of one metastore. Threads may share it: each call uses its own connection."""

    def __init__(self, addresses: Sequence[Address], options: ThriftOptions) -> None:
        self.addresses = tuple(addresses)
        self.options = options
        order = list(addresses)
        if options.uri_selection == "random":
            random.shuffle(order)
        self._order = tuple(order)
        # Without a lock: append and pop of a deque are atomic, and a finalizer may make a call inside another one.
        self._idle: deque[Wire] = deque()
        self._version: ServerVersion | None = None
        self._pid = os.getpid()
        self._is_closed = False

    @property
    def version(self) -> ServerVersion:
        """The version of the connected server. Connects if necessary."""
        self._release(self._take(self.options.retry_seconds, self.options.connect_timeout_seconds))
        assert self._version is not None
        return self._version

    def call(
        self,
        name: str,
        *arguments: Any,
        is_repeatable: bool,
        timeout_seconds: float | None = None,
        retry_seconds: float | None = None,
    ) -> Any:
        """Make a call and return the response. Raises the server's error, or MetastoreUnavailable.

        After MetastoreUnavailable a call that is not repeatable may or may not have taken effect.
        """
        timeout = min(timeout_seconds or self.options.call_timeout_seconds, self.options.call_timeout_seconds)
        retry = self.options.retry_seconds if retry_seconds is None else retry_seconds
        if not is_repeatable:
            return self._once(name, arguments, timeout, retry)
        times_closed = 0

        def attempt() -> Any:
            nonlocal times_closed
            try:
                return self._once(name, arguments, timeout, 0)
            except ConnectionClosed as error:
                times_closed += 1
                version = self._version
                if times_closed == _MAX_CLOSED_CONNECTIONS and version and version.closes_connection_on_errors:
                    raise MetastoreError(
                        f"the metastore closed the connection {times_closed} times on {name}: Hive 3 does so when a "
                        "call fails inside it, so see its log"
                    ) from error
                raise

        return _retrying(retry)(attempt)

    def _once(self, name: str, arguments: tuple[Any, ...], timeout_seconds: float, retry_seconds: float) -> Any:
        wire = self._take(retry_seconds, min(timeout_seconds, self.options.connect_timeout_seconds))
        try:
            answer = wire.call(name, arguments, timeout_seconds)
        except NoResponse:
            wire.close()
            raise
        except StreamingError:
            self._release(wire)  # a response arrived, so the connection is still usable
            raise
        except BaseException:
            wire.close()  # interrupted: the response would be taken for that of the next call
            raise
        self._release(wire)
        return answer

    # -- connecting --------------------------------------------------------------------------------

    def _take(self, retry_seconds: float, timeout_seconds: float) -> Wire:
        """A connection for one call: the one that was used last, or a new one."""
        if self._is_closed:
            raise ConnectionMisuse("this metastore client is closed: connect again")
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._drop_idle()  # the parent process continues to use them
        while (wire := self._pop()) is not None:
            if not wire.is_stale():
                return wire
            wire.close()
        opened: Wire
        opened, self._version = _retrying(retry_seconds)(lambda: self._open_any(timeout_seconds))
        return opened

    def _pop(self) -> Wire | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _release(self, wire: Wire) -> None:
        if len(self._idle) >= _IDLE_WIRES:
            wire.close()
            return
        self._idle.append(wire)
        if self._is_closed:
            self._drop_idle()

    def _open_any(self, timeout_seconds: float) -> tuple[Wire, ServerVersion]:
        """Connect to one of the servers, starting with the one that answered last."""
        failures = []
        order = self._order
        for number, address in enumerate(order):
            try:
                found = self._open(address, timeout_seconds)
            except MetastoreUnavailable as error:
                failures.append(error)
                continue
            self._order = order[number:] + order[:number]
            return found
        reported = "; ".join(map(str, failures))
        raise MetastoreUnavailable(
            f"no metastore can be reached: {reported}. Check the addresses, and that the service runs"
        ) from failures[-1]

    def _open(self, address: Address, timeout_seconds: float) -> tuple[Wire, ServerVersion]:
        wire = Wire.open(address, self.options, timeout_seconds)
        try:
            if self.options.authentication == "none":
                # With metastore.execute.setugi the server creates folders as this user.
                wire.call("set_ugi", (self.options.effective_user, []), timeout_seconds)
            return wire, parse_version(wire.call("getVersion", (), timeout_seconds))
        except BaseException:
            wire.close()
            raise

    def _drop_idle(self) -> None:
        while (wire := self._pop()) is not None:
            wire.close()

    def close(self) -> None:
        """Close idle connections. Idempotent. A call of another thread still finishes."""
        self._is_closed = True
        self._drop_idle()


def _retrying(seconds: float) -> Callable[[Callable[[], Any]], Any]:
    """Retry after MetastoreUnavailable for this many seconds, then raise the last error."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(MetastoreUnavailable),
        wait=tenacity.wait_exponential(multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS)
        + tenacity.wait_random(0, _FIRST_PAUSE_SECONDS),
        stop=tenacity.stop_after_delay(seconds) if seconds > 0 else tenacity.stop_after_attempt(1),
        before_sleep=tenacity.before_sleep_log(_log, logging.INFO),
        reraise=True,
    )
