"""Faults in front of a service of Azure Storage: errors, lost requests and answers, and a count of all requests."""

from __future__ import annotations

import http.client
import select
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: Operations by method and by the parameter `comp`.
_OPERATIONS = {
    ("PUT", ""): "PutBlob",
    ("PUT", "block"): "PutBlock",
    ("PUT", "blocklist"): "PutBlockList",
    ("GET", ""): "GetBlob",
    ("GET", "list"): "ListBlobs",
    ("HEAD", ""): "GetBlobProperties",
    ("DELETE", ""): "DeleteBlob",
}
_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>a fault of the test</Message></Error>"
#: Headers that concern one connection.
_OF_CONNECTIONS = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})


@dataclass(slots=True)
class AzureFault:
    """What goes wrong with some requests.

    Attributes:
        operation: As Azure's REST API names it, such as `PutBlockList`.
        kind: `answer` (an error, and nothing is done), `lose request`, `lose answer` (it is done), `half an answer`, or
            `hang` until the client gives up.
        code: Of the error, for `answer`.
        status: Of the error, for `answer`.
        times: How many requests fail.
    """

    operation: str
    kind: str = "answer"
    code: str = ""
    status: int = 400
    times: int = 1


class FaultyProxy(ThreadingHTTPServer):
    """Passes requests to a service at `127.0.0.1:port`. Runs on threads of this process until `stop`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = port
        self._lock = threading.Lock()
        self._faults: list[AzureFault] = []
        self._requests: Counter[str] = Counter()
        threading.Thread(target=self.serve_forever, name="azure-faults", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def set_faults(self, *faults: AzureFault) -> None:
        """Replaces faults that have not happened, and counts requests from here."""
        with self._lock:
            self._faults = list(faults)
            self._requests.clear()

    def requests(self) -> dict[str, int]:
        """How often each operation was requested since `set_faults`."""
        with self._lock:
            return dict(self._requests)

    def next_fault(self, operation: str) -> AzureFault | None:
        """Of a request, which is counted."""
        with self._lock:
            self._requests[operation] += 1
            for fault in self._faults:
                if fault.operation == operation and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_PUT(self) -> None:
        self._serve()

    do_GET = do_HEAD = do_DELETE = do_POST = do_PUT

    def _serve(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        key = (self.command, query.get("comp", [""])[0])
        fault = self.server.next_fault(_OPERATIONS.get(key, " ".join(key)))
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = None if fault is None else fault.kind
        if kind == "hang":
            select.select([self.connection], [], [])  # until the client closes the connection
        if kind in ("hang", "lose request"):
            self._disconnect()
            return
        if fault is not None and kind == "answer":
            body = _ERROR.format(code=fault.code).encode()
            headers = [("x-ms-error-code", fault.code), ("Content-Type", "application/xml")]
            self._answer(fault.status, headers, body, len(body))
            return
        status, headers, body = self._ask(content)
        if kind == "lose answer":
            self._disconnect()
            return
        sent = body[: len(body) // 2] if kind == "half an answer" else body
        whole = len(body) if self.command != "HEAD" else int(dict(headers).get("content-length", 0))
        self._answer(status, headers, sent, whole)
        if kind == "half an answer":
            self._disconnect()

    def _ask(self, content: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "connection":
                    upstream.putheader(name, value)
            upstream.endheaders(content)
            answer = upstream.getresponse()
            return answer.status, [(name.lower(), value) for name, value in answer.getheaders()], answer.read()
        finally:
            upstream.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, whole: int) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_CONNECTIONS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(whole))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _disconnect(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
