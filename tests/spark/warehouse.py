"""A warehouse for one test, accessed through the data source and without Spark."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import hive_ingest as hi
from hive_ingest.model import TxnState
from hive_ingest.streaming.spark.data_source import HiveDataSource
from hive_ingest.transactions.staging import STAGING_FOLDER
from tests.support.tables import table_folder


def register(spark: SparkSession) -> None:
    """With a session that is one of several: Spark looks a format up in the one that is active."""
    session: Any = spark
    session._jvm.SparkSession.setActiveSession(session._jsparkSession)
    spark.dataSource.register(HiveDataSource)


class Warehouse:
    """In `folder`, with the database `web`. `client` is closed with `close`."""

    def __init__(self, metastore_uri: str, folder: str) -> None:
        self._place = {"metastore": metastore_uri, "warehouse": str(folder)}
        self.client = hi.connect_metastore(metastore_uri, warehouse=folder, create=True)
        self.client.create_database("web", if_not_exists=True)

    def close(self) -> None:
        self.client.close()
        if SparkContext._jvm is not None:
            SparkContext._jvm.SparkSession.clearActiveSession()

    def options(self, table: str, **more: object) -> dict[str, str]:
        return {**self._place, "table": table, **{name.replace("__", "."): str(value) for name, value in more.items()}}

    def write(self, df: DataFrame, table: str, mode: str = "append", **more: object) -> None:
        """`df.write.format("hive_ingest")`."""
        register(df.sparkSession)
        df.write.format("hive_ingest").options(**self.options(table, **more)).mode(mode).save()

    def read(self, spark: SparkSession, table: str, schema: Any = None, **more: object) -> DataFrame:
        """`spark.read.format("hive_ingest")`."""
        register(spark)
        reader = spark.read.format("hive_ingest").options(**self.options(table, **more))
        return (reader.schema(schema) if schema is not None else reader).load()

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows that are committed, read without Spark."""
        found: list[dict[str, Any]] = hi.read_table(self.client, table).to_pylist()
        return found

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.rows(table))

    def leftovers(self, table: str) -> list[str]:
        """Hidden files in the table's folder, and transactions that are open."""
        folder = table_folder(self.client, table) / STAGING_FOLDER
        files = [path.name for path in folder.iterdir()] if folder.exists() else []
        open_txns = [t for t in self.client.get_open_txns_info().transactions if t.state is TxnState.OPEN]
        return [*files, *(f"transaction {txn.id} of {txn.agent_info}" for txn in open_txns)]
