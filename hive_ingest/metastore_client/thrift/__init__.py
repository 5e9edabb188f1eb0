"""A real Hive Metastore, 3.1 to 4.x, over Thrift."""

from hive_ingest.metastore_client.thrift.client import ThriftMetastoreClient

__all__ = ["ThriftMetastoreClient"]
