"""Hive tables as a Python data source of Spark: `format("hive_ingest")`.

    spark.dataSource.register(HiveDataSource)
    where = {"metastore": "sqlite:////data/metastore.db", "warehouse": "/data/warehouse", "table": "web.alerts"}

    df.write.format("hive_ingest").options(**where).mode("append").save()
    stream.writeStream.format("hive_ingest").options(**where).option("checkpointLocation", "/data/cp").start()
    spark.read.format("hive_ingest").options(**where).load()

Spark runs each step in a process of its own that imports this package: it must be installed on the driver and on the
executors. docs/spark.md describes the options, what is promised, and when `HiveSink` is the better choice.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from hive_ingest.streaming.spark.short_errors import short_errors
from hive_ingest.streaming.spark.source_options import read_options, stream_options, write_options
from hive_ingest.streaming.spark.source_reader import make_reader, table_schema
from hive_ingest.streaming.spark.source_writer import HiveBatchWriter, HiveStreamWriter


class HiveDataSource(DataSource):
    """Register it once with a session: `spark.dataSource.register(HiveDataSource)`. Spark makes its instances."""

    @classmethod
    def name(cls) -> str:
        """As in `format("hive_ingest")`."""
        return "hive_ingest"

    @short_errors
    def schema(self) -> StructType:
        """All columns, partition keys last, when the user names none."""
        return table_schema(read_options(self.options))

    @short_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """A snapshot of the table, only the columns of `schema`."""
        return make_reader(read_options(self.options), schema)

    @short_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """One transaction. "overwrite" is Hive's INSERT OVERWRITE: the table, or the partitions that have rows."""
        return HiveBatchWriter(write_options(self.options), schema, overwrite=overwrite)

    @short_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """One transaction for each micro-batch, with the progress in it. Only for output mode "append"."""
        return HiveStreamWriter(stream_options(self.options), schema, overwrite=overwrite)
