"""The transaction manager and catalog behind one protocol: `connect_metastore` gives a `MetastoreClient`."""

from __future__ import annotations

import os

from hive_ingest.metastore_client.client import MetastoreClient

__all__ = ["MetastoreClient", "connect_metastore"]


def connect_metastore(uri: str, *, warehouse: str | os.PathLike[str], **options: object) -> MetastoreClient:
    """Open a metastore, and make it first where there is none.

    `uri` is `sqlite:///relative.db`, `sqlite:////absolute/path.db` or
    `postgresql+psycopg://user:password@host:5432/database` (a password percent-encoded). `warehouse` is the folder in
    which databases lie: a local path or a `file:` URI, made if it is not there; with PostgreSQL also a remote URI.

    Options, each a number: `max_open_txns` (100000), `max_open_batch` (1000), `txn_timeout_seconds` (300),
    `aborted_txn_retention_seconds` (86400), `committed_txn_retention_seconds` (300), `housekeeping_interval_seconds`
    (60), `busy_timeout_seconds` (30).

    Raises ConfigurationError (an address, a warehouse or an option that cannot be meant), MetastoreSchemaError (the
    database is foreign, or newer than this version), MetastoreUnavailable.
    """
    # Here, not above: importing the package loads no sqlalchemy.
    from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
    from hive_ingest.metastore_client.embedded.options import embedded_options

    return EmbeddedMetastoreClient.connect(uri, os.fspath(warehouse), embedded_options(options))
