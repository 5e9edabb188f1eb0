"""A repository at a local address.

Java trusts only the certificates that its runtime brings, and knows no proxy and no password. Python
has them from the machine it runs on, so Java's tools ask here, and Python asks the repository.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.services.maven import Repository


@contextmanager
def relay(repository: Repository) -> Iterator[str]:
    """The local address of `repository` while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(repository))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="maven-relay", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(repository: Repository) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._forward("GET")

        def do_HEAD(self) -> None:
            self._forward("HEAD")

        def _forward(self, method: str) -> None:
            try:
                status, body = repository.request(self.path.lstrip("/"), method=method)
            except OSError as error:
                self.send_error(502, explain=str(error))
                return
            self.send_response(status)
            if method == "GET":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
