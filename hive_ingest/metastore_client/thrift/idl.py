"""The structures and calls of `hive_metastore.thrift`, loaded at first use."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("hive_metastore.thrift")


@functools.cache
def idl() -> Any:
    """The module that thriftpy2 creates from the file: a class for each structure, enum and exception."""
    import thriftpy2

    return thriftpy2.load(str(_FILE), module_name="hive_ingest_hive_metastore_thrift")
