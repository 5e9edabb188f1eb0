"""The Streaming V2 API: connections, their transactions, heartbeats and the progress of sinks."""

from hive_ingest.config import StreamingSettings
from hive_ingest.connection.activity import ConnectionActivity, open_connections
from hive_ingest.connection.bad_record_table import BAD_RECORD_COLUMNS, BadRecordTable
from hive_ingest.connection.bad_records import BadRecordHandler, BadRecordTarget, bad_record_handler
from hive_ingest.connection.checks import check_streamable, existing_table
from hive_ingest.connection.joined_transaction import JoinedTransaction, PreparedWrite, SharedTransaction
from hive_ingest.connection.open_transaction import CommitInfo
from hive_ingest.connection.progress import (
    PROGRESS_COLUMNS,
    PROGRESS_TABLE_SUFFIX,
    SourceProgress,
    progress_rows,
    progress_table_name,
    with_source_names,
)
from hive_ingest.connection.stats import ConnectionStats
from hive_ingest.connection.streaming_connection import StreamingConnection
from hive_ingest.connection.transaction import TransactionState

__all__ = [
    "BAD_RECORD_COLUMNS",
    "PROGRESS_COLUMNS",
    "PROGRESS_TABLE_SUFFIX",
    "BadRecordHandler",
    "BadRecordTable",
    "BadRecordTarget",
    "CommitInfo",
    "ConnectionActivity",
    "ConnectionStats",
    "JoinedTransaction",
    "PreparedWrite",
    "SharedTransaction",
    "SourceProgress",
    "StreamingConnection",
    "StreamingSettings",
    "TransactionState",
    "bad_record_handler",
    "check_streamable",
    "existing_table",
    "open_connections",
    "progress_rows",
    "progress_table_name",
    "with_source_names",
]
