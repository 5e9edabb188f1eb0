"""Numbered rows that are written to tables: lost and duplicate rows are found by their ids."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hive_ingest as hi
from hive_ingest.errors import TxnAborted
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.transactions.staging import STAGING_FOLDER
from tests.support.tables import table_folder

COLUMNS = {"id": "bigint", "text": "string"}
SCHEMA = "id bigint, text string, part string"
#: Layouts of a table, by name. All but "plain" and "buckets" have the partition key `part`.
LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "parts": {"partition_keys": {"part": "string"}},
    "buckets": {"bucket_columns": ["id"], "num_buckets": 3},
    "both": {"partition_keys": {"part": "string"}, "bucket_columns": ["id"], "num_buckets": 3},
}

#: What a call raises whose task has failed in Java. Spark does not convert all of these errors, and then a sink does.
FAILED_IN_JAVA = (PySparkException, Py4JJavaError, TxnAborted)


def row(number: int) -> dict[str, Any]:
    return {"id": number, "text": f"row {number}", "part": f"p{number % 3}"}


def numbered(spark: SparkSession, start: int, stop: int, tasks: int = 2) -> DataFrame:
    """The rows of these numbers."""
    return spark.range(start, stop, 1, tasks).selectExpr("id", "concat('row ', id) text", "concat('p', id % 3) part")


class Input:
    """A folder of JSON files for a file source, two a batch, each with `rows` numbers that go on from file to file."""

    def __init__(self, folder: Path, rows: int = 20) -> None:
        self.folder = folder
        self._rows = rows
        self._files = 0
        self._first_time = time.time() - 3600
        folder.mkdir()

    def add_batches(self, batches: int) -> None:
        for _ in range(2 * batches):
            numbers = range(self._files * self._rows, (self._files + 1) * self._rows)
            text = "".join(f"{json.dumps(row(number))}\n" for number in numbers)
            hidden = self.folder / f".{self._files}"
            hidden.write_text(text)
            modified = self._first_time + self._files  # the source takes the oldest first
            os.utime(hidden, (modified, modified))
            hidden.rename(self.folder / f"{self._files:04}.json")
            self._files += 1

    @property
    def ids(self) -> list[int]:
        return list(range(self._files * self._rows))

    def read_stream(self, spark: SparkSession, columns: str = "id, text, part") -> DataFrame:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).json(str(self.folder))
        return stream.selectExpr(*columns.split(", "))


class Tables:
    """The tables of a test, in the database `web`."""

    def __init__(self, client: MetastoreClient) -> None:
        self.client = client
        client.create_database("web", if_not_exists=True)

    def create(self, name: str, layout: str = "parts", **more: Any) -> str:
        """`web.<name>`"""
        self.client.create_table(f"web.{name}", columns=COLUMNS, **LAYOUTS[layout], **more)
        return f"web.{name}"

    def ids(self, table: str) -> list[int]:
        """Numbers of all visible rows, sorted; each row must have kept its text and its partition."""
        found = hi.read_table(self.client, table).to_pylist()
        for values in found:
            expected = row(values["id"])
            assert values == {name: expected[name] for name in values}
        return sorted(values["id"] for values in found)

    def root(self, table: str) -> Path:
        return table_folder(self.client, table)

    def files(self, table: str) -> list[str]:
        """Bucket files of the table, visible or not, by their path in its folder."""
        root = self.root(table)
        return sorted(str(path.relative_to(root)) for path in root.rglob("bucket_*"))

    def hidden(self, table: str) -> list[str]:
        """What writers have left under hidden names, in the table's folder."""
        folder = self.root(table) / STAGING_FOLDER
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def assert_once(found: list[int], expected: list[int]) -> None:
    """Assert that every id occurs once; the message names lost and duplicate ids."""
    twice = [number for number, count in Counter(found).items() if count > 1]
    lost, foreign = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    wrong = {"lost": lost[:9], "more than once": twice[:9], "never sent": foreign[:9]}
    assert not any(wrong.values()), wrong
