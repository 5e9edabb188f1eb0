"""hive-ingest: stream records into Apache Hive's transactional tables from Python, exactly once."""

from hive_ingest.api import Scan, append, connect_metastore, read_table, scan
from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import StreamingError
from hive_ingest.record_writer import ArrowWriter, StrictDelimitedInputWriter, StrictJsonWriter

__version__ = "0.1.0"
__all__ = [
    "ArrowWriter",
    "Scan",
    "StreamingConnection",
    "StreamingError",
    "StrictDelimitedInputWriter",
    "StrictJsonWriter",
    "append",
    "connect_metastore",
    "read_table",
    "scan",
]
