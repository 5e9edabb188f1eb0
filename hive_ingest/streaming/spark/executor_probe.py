"""What is asked of the Python of the executors, before tasks run there.

This module is sent to executors as code (`cloudpickle.register_pickle_by_value`), because they may lack this package.
So its function imports what it needs itself, and only the standard library must be there.
"""

from __future__ import annotations


def describe_python(location: str) -> str:
    """Describe the Python that runs this.

    Args:
        location: The folder of the table that tasks are going to write.

    Returns:
        JSON with `host`, `executable`, `python` and, as far as they could be found out, `hive_ingest`, `pyarrow` and
        `finds_table`. Where something failed, `failed` is "import" or "warehouse", and `error` says why.
    """
    import importlib
    import json
    import platform
    import socket
    import sys

    found: dict[str, object] = {
        "host": socket.gethostname(),
        "executable": sys.executable,
        "python": platform.python_version(),
    }
    step = "import"
    try:
        found["hive_ingest"] = importlib.import_module("hive_ingest").__version__
        import pyarrow as pa

        found["pyarrow"] = pa.__version__
        from hive_ingest.storage import Location
        from hive_ingest.streaming.spark import tasks  # noqa: F401 (what tasks are unpickled from)

        step = "warehouse"
        found["finds_table"] = Location.of(location).exists()
    except Exception as error:  # noqa: BLE001 (whatever an incomplete environment raises)
        found["failed"] = step
        found["error"] = f"{type(error).__name__}: {error}"
    return json.dumps(found)
