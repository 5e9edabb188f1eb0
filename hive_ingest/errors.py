"""The hierarchy of errors, with Hive's names.

    StreamingError                         base class of all errors of this package
    ├── ConfigurationError                 an invalid option or URI
    ├── StreamingConnectionError           a connection cannot be made as asked (Java: ConnectionError)
    │   ├── InvalidTable                   the table cannot be streamed into
    │   └── ConnectionMisuse               another thread, a forked process, a closed connection
    ├── InvalidTransactionState            a call that is not legal in the present state
    ├── TransactionError                   the transaction manager refused the call
    │   ├── NoSuchTxn                      never opened, or no longer remembered
    │   ├── TxnAborted                     aborted; says by whom and why, where that is known
    │   ├── TxnOpen                        an unlock inside a transaction
    │   ├── TooManyOpenTxns                `max_open_txns` is reached
    │   ├── NoSuchLock                     a lock that is not there (any more)
    │   ├── NoSuchCompaction               a compaction that is not in the queue, or is another worker's
    │   ├── LockTimeout                    the lock was not granted in time
    │   │   └── SinkInUse                  another live owner holds a source of the sink
    │   ├── SinkConflict                   the sink's progress does not fit what the caller owns
    │   └── CommitOutcomeUnknown           the response was lost, the outcome is unknown
    ├── SerializationError                 a record that its table cannot hold
    │   └── TooManyBadRecords              more bad records were skipped than the limits allow
    ├── PartitionCreationFailed            new partitions could not be registered
    ├── StreamingIOFailure                 the file system refused the operation
    │   ├── PathNotFound                   a file or folder that should be there is not
    │   ├── PathExists                     a file or folder that should be new already exists
    │   ├── CorruptFile                    a damaged file, or one that is not what its name says
    │   └── IncompatibleStripes            files that cannot be joined by copying their stripes
    ├── KafkaFailure                       Kafka refused the call, or cannot be reached
    │   ├── KafkaUnavailable               no broker answered in time
    │   └── OffsetLoss                     a topic does not continue where the table's position is
    ├── SchemaRegistryUnavailable          no schema registry answered
    ├── UnsupportedFeature                 legal in Hive, not (yet) possible here
    └── MetastoreError                     the catalog refused the call (Java: MetaException)
        ├── NoSuchObject                   no such database, table or partition
        ├── AlreadyExists                  the object already exists
        ├── InvalidOperation               the object exists but does not allow the operation
        ├── MetastoreUnavailable           no connection, or it broke during a call
        └── MetastoreSchemaError           not a metastore of this package, or of a newer version

Every message says what is wrong, where, and what to do. An error raised while cleaning up never hides
the first one.
"""

from __future__ import annotations


class StreamingError(Exception):
    """Base class of all errors of this package (Java: `StreamingException`)."""


class ConfigurationError(StreamingError):
    """An invalid option or URI: correct it as the message says."""


class StreamingConnectionError(StreamingError):
    """A connection cannot be made as asked (Java: `ConnectionError`)."""


class InvalidTable(StreamingConnectionError):
    """The table cannot be streamed into; the message says which property is in the way."""


class ConnectionMisuse(StreamingConnectionError):
    """A connection used from another thread, after a fork, after close, or for another transaction's files."""


class InvalidTransactionState(StreamingError):
    """A call that is not legal in the present state; the message names the state and the remedy."""


class TransactionError(StreamingError):
    """The transaction manager refused; begin a new transaction."""


class NoSuchTxn(TransactionError):
    """The transaction was never opened, or is no longer remembered (Java: `NoSuchTxnException`)."""


class TxnAborted(TransactionError):
    """The transaction is aborted; nothing of it is visible (Java: `TxnAbortedException`)."""


class TxnOpen(TransactionError):
    """A lock inside a transaction ends with it: commit or abort instead (Java: `TxnOpenException`)."""


class TooManyOpenTxns(TransactionError):
    """`hive.max.open.txns` is reached: commit or abort some of those that are open."""


class NoSuchLock(TransactionError):
    """The lock is not there, or no longer (Java: `NoSuchLockException`)."""


class NoSuchCompaction(TransactionError):
    """The compaction is not in the queue, or no longer the caller's (Java: `NoSuchCompactionException`)."""


class LockTimeout(TransactionError):
    """The lock was not granted in time; the message names who holds it."""


class SinkInUse(LockTimeout):
    """Another live owner holds a source of the sink; the message names it."""


class SinkConflict(TransactionError):
    """The sink's progress does not fit: another table, another query, or a position that was committed before."""


class CommitOutcomeUnknown(TransactionError):
    """The response to a commit was lost, and the metastore can no longer say whether the commit took effect.

    Rows are either all visible or none is: read the table, or use a sink, whose progress decides.
    """

    def __init__(self, message: str, *, txn_id: int, write_id: int, folders: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.txn_id = txn_id
        self.write_id = write_id
        self.folders = folders


class SerializationError(StreamingError):
    """A record that its table cannot hold (Java: `SerializationError`).

    `record` is counted from 0 from the beginning of the transaction, and so is `byte_offset`, where it is known.
    """

    def __init__(self, message: str, *, record: int | None = None, byte_offset: int | None = None) -> None:
        super().__init__(message)
        self.record = record
        self.byte_offset = byte_offset


class TooManyBadRecords(SerializationError):
    """More bad records were skipped than `max_bad_records` or `max_bad_record_share` allows."""


class PartitionCreationFailed(StreamingError):
    """New partitions could not be registered; nothing was published."""


class StreamingIOFailure(StreamingError):
    """The file system refused (Java: `StreamingIOFailure`)."""


class PathNotFound(StreamingIOFailure):
    """A file or folder that should be there is missing: somebody removed it, or its file system is not mounted."""


class PathExists(StreamingIOFailure):
    """A file or folder that should be new already exists; it was not changed."""


class CorruptFile(StreamingIOFailure):
    """A file is damaged, or is not what its name says; the message names the file."""


class IncompatibleStripes(StreamingIOFailure):
    """Files that cannot be joined by copying their stripes; the message says what differs."""


class KafkaFailure(StreamingError):
    """Kafka refused the call, or cannot be reached; the message says which of the two, and where."""


class KafkaUnavailable(KafkaFailure):
    """No broker answered in time; the message says for what. An ingest tries again for `retry_seconds`."""


class OffsetLoss(KafkaFailure):
    """The messages after a table's position are not in the topic; the error says what has happened."""


class SchemaRegistryUnavailable(StreamingError):
    """No schema registry could be reached, or none gave a valid answer; the message says which one and why."""


class UnsupportedFeature(StreamingError):
    """Legal in Hive, not possible here; the message names a workaround, if there is one."""


class MetastoreError(StreamingError):
    """The catalog refused (Java: `MetaException`)."""


class NoSuchObject(MetastoreError):
    """No such database, table or partition (Java: `NoSuchObjectException`)."""


class AlreadyExists(MetastoreError):
    """The object already exists (Java: `AlreadyExistsException`)."""


class InvalidOperation(MetastoreError):
    """The object exists but does not allow the operation (Java: `InvalidOperationException`)."""


class MetastoreUnavailable(MetastoreError):
    """No connection to the metastore, or it broke during a call."""


class MetastoreSchemaError(MetastoreError):
    """The database is not a metastore of this package, or was made by a newer version of it."""
