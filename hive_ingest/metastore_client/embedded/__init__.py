"""The embedded metastore: Hive 4's transaction manager and a catalog in SQLite or PostgreSQL."""

from hive_ingest.metastore_client.embedded.client import EmbeddedMetastoreClient
from hive_ingest.metastore_client.embedded.housekeeping import HousekeepingResult
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions

__all__ = ["EmbeddedMetastoreClient", "EmbeddedOptions", "HousekeepingResult"]
