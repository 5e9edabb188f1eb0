"""The HTTP server of `/metrics` and `/health`."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import weakref
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from hive_ingest.errors import ConfigurationError
from hive_ingest.metrics.health import Health

_log = logging.getLogger(__name__)
#: A client that sends its request, or takes the answer, more slowly is cut off.
_CLIENT_SECONDS = 10.0
_POLL_SECONDS = 0.2


class MetricsServer:
    """Answers on threads of its own until `close`. `Metrics.serve` starts it."""

    def __init__(self, registry: CollectorRegistry, health: Callable[[], Health], port: int, host: str) -> None:
        """Listen, and start the thread.

        Raises:
            ConfigurationError: The port is in use, or the host is not an address of this machine.
        """
        self._server = _listen(registry, health, port, host)
        _listening.add(self._server)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="hive-ingest-metrics", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port, also where a free one was asked for by 0."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where the pages are, such as `http://127.0.0.1:9400`."""
        return url_of(str(self._server.server_address[0]), self.port)

    def close(self) -> None:
        """Stop listening. Idempotent."""
        if self._server in _listening and self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        _listening.discard(self._server)
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def url_of(host: str, port: int) -> str:
    """The URL of an address; one of IPv6 is in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, registry: CollectorRegistry, health: Callable[[], Health], family: socket.AddressFamily, address: Any
    ) -> None:
        self.registry = registry
        self.health = health
        self.address_family = family
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is not reported on stderr."""
        _log.debug("answering %s failed", client_address, exc_info=True)


def _listen(registry: CollectorRegistry, health: Callable[[], Health], port: int, host: str) -> _Server:
    if not 0 <= port < 1 << 16:
        raise ConfigurationError(f"metrics cannot be served on port={port}: give a number up to 65535, or 0 for any")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return _Server(registry, health, family, address)
    except OSError as error:
        raise ConfigurationError(
            f"metrics cannot be served on port={port} of host={host!r}: {error}. Choose a free port, and an address "
            "of this machine"
        ) from error


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CLIENT_SECONDS
    server_version = "hive-ingest"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            match path:
                case "/metrics":
                    encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                    self._send(HTTPStatus.OK, content_type, encode(self.server.registry))
                case "/health":
                    health = self.server.health()
                    status = HTTPStatus.OK if health.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
                    self._send(status, "application/json", json.dumps(health.to_json(), indent=1).encode() + b"\n")
                case _:
                    self._send(HTTPStatus.NOT_FOUND, "text/plain", b"see /metrics and /health\n")
        except OSError:
            raise  # the client has gone
        except Exception:  # noqa: BLE001 (the monitoring sees the status, the log has the reason)
            _log.exception("%s cannot be answered", path)
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"see the log of the process\n")

    do_HEAD = do_GET

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests come every few seconds."""
        _log.debug(format, *args)


#: Those that listen, for forks.
_listening: weakref.WeakSet[_Server] = weakref.WeakSet()


def _forked() -> None:
    """A forked child has no thread that answers, and would keep the port."""
    for server in [*_listening]:
        server.socket.close()
    _listening.clear()


os.register_at_fork(after_in_child=_forked)
