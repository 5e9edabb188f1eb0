"""Catalog, transaction manager and compaction queue, embedded or real: `connect_metastore` gives a client of all.

Importing this package loads neither sqlalchemy nor a Thrift library; `connect_metastore` loads what the address needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hive_ingest.metastore_client.catalog import Catalog
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.metastore_client.compaction_queue import CompactionQueue
from hive_ingest.metastore_client.locations import local_path, normal_location
from hive_ingest.metastore_client.text_checks import check_text
from hive_ingest.metastore_client.transaction_manager import TransactionManager
from hive_ingest.metastore_client.wait_log import WAIT_LOGGER, WaitLog, describe_lock

__all__ = [
    "WAIT_LOGGER",
    "Catalog",
    "CompactionQueue",
    "MetastoreClient",
    "TransactionManager",
    "WaitLog",
    "check_text",
    "connect_metastore",
    "describe_lock",
    "explain_options",
    "local_path",
    "normal_location",
    "opened_metastore",
]


def connect_metastore(
    uri: str,
    *,
    warehouse: str | os.PathLike[str] | None = None,
    create: bool = False,
    keytab: str | os.PathLike[str] | None = None,
    principal: str = "",
    **options: object,
) -> MetastoreClient:
    """Open a metastore; with `create` an embedded one is made where there is none.

    An embedded metastore has a URI such as `sqlite:///relative.db`, `sqlite:////absolute/path.db` or
    `postgresql+psycopg://user:password@host:5432/database` (the password percent-encoded). Its options are numbers:
    `max_open_txns` (100000), `max_open_batch` (1000), `txn_timeout_seconds` (300), `aborted_txn_retention_seconds`
    (86400), `committed_txn_retention_seconds` (300), `housekeeping_interval_seconds` (60), `busy_timeout_seconds` (30),
    `statement_timeout_seconds` (60), `idle_in_transaction_timeout_seconds` (15), `ddl_lock_wait_seconds` (60).

    A real Hive Metastore, 3.1 to 4.x, has the URI `thrift://host:9083`, several of them separated by commas, or
    `thrift://` alone for those of `hive-site.xml` in `HIVE_CONF_DIR`. Its options: `connect_timeout_seconds` (10),
    `call_timeout_seconds` (60), `retry_seconds` (30), `uri_selection` ("random"), `authentication` ("none", "plain" or
    "kerberos"), `user`, `password`, `kerberos_principal`, `use_ssl`, `ssl_ca_file`: see docs/metastores.md.

    Args:
        uri: The metastore's address.
        warehouse: The folder of the databases: a local path or a `file:` URI; with PostgreSQL also a remote URI.
            By default the folder that the metastore was created with, and another one is an error; a new SQLite
            metastore takes `warehouse` beside its file. A real metastore has its own; where this is given, databases
            created here without a location are put into it.
        create: Whether to make a missing SQLite file, or the tables in an empty PostgreSQL database. Otherwise a
            mistyped address makes nothing.
        options: As above.

    Returns:
        A client, which threads may share.

    With `keytab`, the whole process authenticates with that keytab by Kerberos, to a metastore and to HDFS, as
    `principal` or as the first one in it, and its tickets are renewed for as long as it runs. A metastore needs
    `authentication="kerberos"` too.

    Raises:
        ConfigurationError: An invalid address, warehouse or option; an existing metastore has another warehouse; or the
            keytab cannot be used.
        MetastoreError: There is no metastore and `create` is false, or the server refuses the connection.
        MetastoreSchemaError: The database is not a metastore of ours, or newer than this version.
        MetastoreUnavailable: No connection.
        UnsupportedFeature: A server before Hive 3.
    """
    if keytab is not None or principal:
        from hive_ingest.kerberos import log_in

        log_in(os.fspath(keytab or ""), principal)
    place = None if warehouse is None else os.fspath(warehouse)
    if uri.startswith("thrift://"):
        from hive_ingest.metastore_client.thrift import ThriftMetastoreClient

        return ThriftMetastoreClient.connect(uri, normal_location(place) if place else "", options)
    from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
    from hive_ingest.metastore_client.embedded.options import EmbeddedOptions

    return EmbeddedMetastoreClient.connect(uri, place, EmbeddedOptions.load(options), create=create)


def explain_options(uri: str) -> dict[str, tuple[object, str]]:
    """The options of a real metastore beside its URI: their values, with passwords masked, and their sources.

    An embedded metastore has none: its options are arguments only.

    Raises:
        ConfigurationError: An option is not valid, or the URI stands for one in `hive-site.xml` that is missing.
    """
    if not uri.startswith("thrift://"):
        return {}
    from hive_ingest.metastore_client.thrift.options import ThriftOptions, uris_of_hive_site

    uris: dict[str, tuple[object, str]] = {}
    if uri == "thrift://":
        uris["uris"] = (uris_of_hive_site(), "hive-site.xml")
    return uris | ThriftOptions.explain()


@contextmanager
def opened_metastore(metastore: MetastoreClient | str) -> Iterator[MetastoreClient]:
    """A client, which stays open, or a new one of the metastore at a URI for the time of the block.

    Raises what `connect_metastore` raises.
    """
    if not isinstance(metastore, str):
        yield metastore
        return
    with connect_metastore(metastore) as client:
        yield client
