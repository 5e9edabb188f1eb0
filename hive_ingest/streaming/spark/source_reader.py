"""Reading through `format("hive_ingest")`: planned once, with the metastore; read by tasks, without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from hive_ingest.connection import existing_table
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table
from hive_ingest.reader import ROW_ID_COLUMN, Split, check_readable, plan_scan
from hive_ingest.streaming.spark.pushed_filters import all_of, to_expression
from hive_ingest.streaming.spark.short_errors import short_errors, short_errors_of
from hive_ingest.streaming.spark.source_options import ReadOptions
from hive_ingest.streaming.spark.types import spark_type

_AGENT_INFO = "hive-ingest spark data source"
_ROW_ID_TYPE: Final = StructType(
    [StructField("writeid", LongType()), StructField("bucketid", IntegerType()), StructField("rowid", LongType())]
)
#: Rows that go to Spark at once.
_BATCH_ROWS: Final = 65_536


def table_schema(options: ReadOptions) -> StructType:
    """The data columns, then the partition keys, then `row__id` if it is asked for."""
    with options.connect_metastore() as client:
        schema = _full_schema(existing_table(client, options.table))
    return schema if options.row_ids else StructType(schema.fields[:-1])


def make_reader(options: ReadOptions, schema: StructType) -> DataSourceReader:
    """Raises ConfigurationError for columns that the table lacks or has in another type; UnsupportedFeature."""
    if not options.push_filters:
        return HiveReader(options, schema)
    if not hasattr(datasource, "Filter"):
        raise ConfigurationError("push_filters needs pyspark 4.1 or newer: use the option 'where'")
    return FilteringHiveReader(options, schema)


@dataclass(repr=False)
class SplitPartition(InputPartition):
    """What one task reads."""

    split: Split


class HiveReader(DataSourceReader):
    """One snapshot of a table, taken when Spark plans the query."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters: list[Any] = []
        with options.connect_metastore() as client:
            self._table = existing_table(client, options.table)
        check_readable(self._table)
        _check_schema(schema, self._table)

    @short_errors
    def partitions(self) -> list[InputPartition]:
        """Raises LockTimeout, and what else `plan_scan` raises."""
        with self._options.connect_metastore() as client:
            return [SplitPartition(split) for split in self._plan(client)]

    def _plan(self, client: MetastoreClient) -> list[Split]:
        names = [field.name.lower() for field in self._schema]
        return plan_scan(
            client,
            self._options.table,
            columns=[name for name in names if name != ROW_ID_COLUMN],
            where=self._options.where,
            filter=all_of(self._filters),
            row_ids=ROW_ID_COLUMN in names,
            split_bytes=self._options.split_bytes,
            lock_wait_seconds=self._options.lock_wait_seconds,
            agent_info=_AGENT_INFO,
        )

    @short_errors_of
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises StreamingIOFailure when a file of the snapshot is gone, CorruptFile, UnsupportedFeature."""
        if not isinstance(partition, SplitPartition):
            return  # Spark's stand-in for a table without files
        shape = to_arrow_schema(self._schema)
        for batch in partition.split.read():
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield _shaped(batch.slice(start, _BATCH_ROWS), shape)


class FilteringHiveReader(HiveReader):
    """Takes the filters of the query too. Spark refuses a reader with this method unless the session pushes filters."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Those that Spark must apply itself."""
        columns = {column.name: column.type for column in (*self._table.columns, *self._table.partition_keys)}
        for filter in filters:
            expression = to_expression(filter, columns)
            if expression is None:
                yield filter
            else:
                self._filters.append(expression)


# -- the schema ------------------------------------------------------------------------------------


def _full_schema(table: Table) -> StructType:
    columns = [StructField(c.name, spark_type(c.type)) for c in (*table.columns, *table.partition_keys)]
    return StructType([*columns, StructField(ROW_ID_COLUMN, _ROW_ID_TYPE)])


def _check_schema(schema: StructType, table: Table) -> None:
    """The schema that Spark asks for names columns of the table, each once, in the types that they are read as."""
    known = {field.name: field for field in _full_schema(table)}
    names = [field.name.lower() for field in schema]
    problems = [f"{name!r} is there twice, case aside" for name in sorted({n for n in names if names.count(n) > 1})]
    problems += [problem for field in schema for problem in _misfits(field, known)]
    if not names:
        problems.append("it has no column")
    if problems:
        raise ConfigurationError(f"the schema to read {table.name} by does not fit: {'; '.join(problems)}")


def _misfits(field: StructField, known: Mapping[str, StructField]) -> Iterator[str]:
    found = known.get(field.name.lower())
    if found is None:
        yield f"{field.name!r} is not a column: choose from {', '.join(known)}"
    elif field.dataType != found.dataType:
        yield (
            f"{field.name!r} is read as {found.dataType.simpleString()}, not {field.dataType.simpleString()}: ask for "
            "that, and cast the column in Spark"
        )
    elif not field.nullable:
        yield f"{field.name!r} may be null in Hive: leave out NOT NULL"


def _shaped(batch: pa.RecordBatch, shape: pa.Schema) -> pa.RecordBatch:
    """In Spark's Arrow types. Its timestamps have microseconds: what is finer is cut off, as by its own readers."""
    columns = [batch.column(field.name.lower()).cast(field.type, safe=False) for field in shape]
    return pa.RecordBatch.from_arrays(columns, schema=shape)
