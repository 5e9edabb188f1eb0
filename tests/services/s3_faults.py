"""Faults in front of an S3 service: errors, lost requests and answers, and a count of all requests."""

from __future__ import annotations

import io
import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

#: A POST of a list of faults replaces those that are left; a GET answers how often each operation was requested.
CONTROL = "/_control"

_App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
#: Operations by method and by what the query has.
_OPERATIONS = {
    ("PUT", "partNumber"): "UploadPart",
    ("POST", "uploads"): "CreateMultipartUpload",
    ("POST", "uploadId"): "CompleteMultipartUpload",
    ("DELETE", "uploadId"): "AbortMultipartUpload",
    ("GET", "uploadId"): "ListParts",
    ("GET", "uploads"): "ListMultipartUploads",
    ("GET", "list-type"): "ListObjectsV2",
    ("POST", "delete"): "DeleteObjects",
}
_PLAIN = {"PUT": "PutObject", "GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}
_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>a fault of the test</Message></Error>"


def operation_of(environ: dict[str, Any]) -> str:
    """The name of the operation that a request is, as S3's API has it."""
    method, query = environ["REQUEST_METHOD"], parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
    return next(
        (name for (wanted, key), name in _OPERATIONS.items() if method == wanted and key in query),
        _PLAIN.get(method, method),
    )


@dataclass(frozen=True, slots=True)
class S3Fault:
    """What goes wrong with some requests.

    Attributes:
        operation: Of S3's API, such as `CompleteMultipartUpload`.
        kind: `answer` (an error, and nothing is done), `lose request`, `lose answer` (it is done), `half an answer`, or
            `hang` until the client gives up.
        code: Of the error, for `answer`.
        status: Of the error, for `answer`.
        times: How many requests fail.
        key: Part of the key of those requests.
    """

    operation: str
    kind: str = "answer"
    code: str = ""
    status: int = 400
    times: int = 1
    key: str = ""


class FaultyService:
    """Passes requests to another application, one at a time: moto looks whether a name is free before it takes it."""

    def __init__(self, app: _App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._faults: list[dict[str, Any]] = []
        self._requests: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == CONTROL:
            return self._control(environ, start_response)
        operation = operation_of(environ)
        fault = self._next_fault(operation, unquote(environ["PATH_INFO"]))
        kind = None if fault is None else fault["kind"]
        if fault is not None and kind == "answer":
            start_response(f"{fault['status']} Fault", [("Content-Type", "application/xml")])
            return [_ERROR.format(code=fault["code"]).encode()]
        if kind == "hang":
            select.select([environ["werkzeug.socket"]], [], [])  # until the client closes the connection
        if kind in ("hang", "lose request"):
            return _disconnect(environ)
        if not _read_content(environ):
            return _disconnect(environ)
        with self._lock:
            body = b"".join(self._app(environ, start_response))
        if kind == "lose answer":
            return _disconnect(environ)
        return [body[: len(body) // 2]] if kind == "half an answer" else [body]

    def _next_fault(self, operation: str, path: str) -> dict[str, Any] | None:
        with self._lock:
            self._requests[operation] += 1
            for fault in self._faults:
                if fault["operation"] == operation and fault["key"] in path:
                    fault["times"] -= 1
                    self._faults = [each for each in self._faults if each["times"] > 0]
                    return fault
        return None

    def _control(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            if environ["REQUEST_METHOD"] == "POST":
                self._faults = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
                self._requests.clear()
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self._requests).encode()]


def _read_content(environ: dict[str, Any]) -> bool:
    """Read what the client sends, before the lock is taken: one that is stopped meanwhile delays no other.

    False if the client has gone before it has sent all.
    """
    if environ.get("wsgi.input_terminated"):
        content, is_complete = environ["wsgi.input"].read(), True
    else:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        content = environ["wsgi.input"].read(length) if length else b""
        is_complete = len(content) == length
    environ["wsgi.input"] = io.BytesIO(content)
    return is_complete


def _disconnect(environ: dict[str, Any]) -> Iterable[bytes]:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionError("the connection was closed by a fault of the test")
