"""Google Cloud Storage in memory: `python -m tests.services.gcs_server PORT`, for this machine alone.

The emulator checks no preconditions (`ifGenerationMatch`), has no multipart uploads, and lists everything at once. So
it shows what is read, and nothing of what a writer would have to rely on.
"""

from __future__ import annotations

import sys

from gcp_storage_emulator.server import create_server


def main(port: int) -> None:
    """Serve until the process is killed."""
    create_server("127.0.0.1", port, in_memory=True).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
