"""An S3 service in memory: moto's. Run as `python -m tests.services.s3_server PORT`, on this machine alone.

One request is handled at a time: moto looks whether a name is free before it takes it, and S3 does both in one step.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


def main(port: int) -> None:
    """Serve until the process is killed."""
    dispatch = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def one_at_a_time(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with lock:
            return list(dispatch(environ, start_response))

    run_simple("127.0.0.1", port, one_at_a_time, threaded=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
