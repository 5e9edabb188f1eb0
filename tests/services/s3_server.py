"""An S3 service in memory, moto's, with faults: `python -m tests.services.s3_server PORT`, for this machine alone."""

from __future__ import annotations

import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

from tests.services.s3_faults import FaultyService


def main(port: int) -> None:
    """Serve until the process is killed."""
    service = FaultyService(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", port, service, threaded=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
