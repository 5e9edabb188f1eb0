"""A TCP proxy before a metastore that breaks one call on purpose: before, within or after it took effect."""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_STRICT_CALL = b"\x80\x01\x00\x01"
_FRAME_LENGTH_BYTES = 4
_CHUNK = 1 << 16


class Fault(enum.Enum):
    """What happens to a call; afterwards the connection is closed."""

    REQUEST_CUT = "the server never sees the request"
    REQUEST_HALF = "the server sees half of the request"
    REQUEST_LATE = "the server sees the request after the client's timeout"
    ANSWER_CUT = "the client sees nothing of the answer"
    ANSWER_HALF = "the client sees half of the answer"
    ANSWER_LATE = "the answer comes after the client's timeout"


class FaultyProxy:
    """Passes everything on to `port` of this machine until a fault is armed; each fault happens once."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._armed: tuple[str, Fault] | None = None
        self._on_fault: Callable[[], None] = lambda: None
        self._connections: list[socket.socket] = []
        #: The calls that were seen, in order.
        self.calls: list[str] = []
        #: The call that a fault has hit.
        self.hit: str | None = None
        self.refuses = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    def arm(self, call: str, fault: Fault, on_fault: Callable[[], None] = lambda: None) -> None:
        """Break the next `call`. `on_fault` is called when request or answer is cut, before the client notices."""
        self._on_fault = on_fault
        self._armed, self.hit = (call, fault), None

    def cut(self) -> None:
        """Close all connections, and refuse new ones until `restore`."""
        self.refuses = True
        for connection in self._connections:
            _close(connection)

    def restore(self) -> None:
        self.refuses = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = None if self.refuses else self._reach_server()
            if server is None:
                _close(client)
                continue
            self._connections += [client, server]
            link = _Link(self, client, server)
            threading.Thread(target=link.pass_requests, daemon=True).start()
            threading.Thread(target=link.pass_answers, daemon=True).start()

    def _reach_server(self) -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            return None  # it has been killed

    def take_fault(self, call: str) -> Fault | None:
        """The fault for this call, which is disarmed by it."""
        self.calls.append(call)
        if self._armed is None or self._armed[0] != call:
            return None
        (_, fault), self._armed, self.hit = self._armed, None, call
        return fault

    def on_fault(self) -> None:
        self._on_fault()


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: FaultyProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._on_answer: Fault | None = None

    def pass_requests(self) -> None:
        try:
            while data := self._client.recv(_CHUNK):
                call = _call_of(data)
                fault = self._proxy.take_fault(call) if call is not None else None
                if fault is Fault.REQUEST_CUT:
                    self._proxy.on_fault()
                    break
                if fault is Fault.REQUEST_HALF:
                    self._server.sendall(data[: len(data) // 2])
                    break
                if fault is Fault.REQUEST_LATE:
                    time.sleep(LATE_SECONDS)
                self._on_answer = fault
                self._server.sendall(data)
        except OSError:
            pass
        self._close()

    def pass_answers(self) -> None:
        try:
            while data := self._server.recv(_CHUNK):
                fault = self._on_answer
                if fault is Fault.ANSWER_CUT:
                    self._proxy.on_fault()
                    break
                if fault is Fault.ANSWER_HALF:
                    self._client.sendall(data[: len(data) // 2])
                    break
                if fault is Fault.ANSWER_LATE:
                    time.sleep(LATE_SECONDS)
                self._client.sendall(data)
        except OSError:
            pass
        self._close()

    def _close(self) -> None:
        _close(self._client)
        _close(self._server)


#: More than the call timeout of the clients under test.
LATE_SECONDS = 1.6


def _call_of(data: bytes) -> str | None:
    """The name of the call that begins here, if one does. SASL without encryption puts a length before it."""
    for request in (data, data[_FRAME_LENGTH_BYTES:]):
        if request.startswith(_STRICT_CALL):
            length = int.from_bytes(request[4:8])
            return request[8 : 8 + length].decode()
    return None


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
