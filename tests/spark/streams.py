"""Streaming queries from one input into several tables, run by a separate driver or in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import hive_ingest as hi
from hive_ingest.streaming.spark import BatchStats, HiveSink
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.numbers import Input, Tables, assert_once
from tests.support.warehouses import warehouse_in

SCRIPT = Path(__file__).with_name("stream_job.py")


@dataclass
class Stream:
    """One query. Run by a driver, it is held at `point` of batch `batch_id`, or of each; without a point it is not."""

    table: str
    point: str | None = None
    batch_id: int | None = 1
    columns: str = "id, text, part"
    checkpoint: str = ""

    def __post_init__(self) -> None:
        self.checkpoint = self.checkpoint or self.table


class Streams:
    """In `folder`: the input, the checkpoints and the warehouse."""

    def __init__(self, folder: Path, uri: str, *, rows_per_file: int = 20, **metastore_options: Any) -> None:
        self.folder = folder
        self.input = Input(folder / "input", rows_per_file)
        self._uri = uri
        self._options = metastore_options
        self.client = hi.connect_metastore(self._uri, warehouse=warehouse_in(folder), **metastore_options, create=True)
        self.tables = Tables(self.client)
        self.streams: list[Stream] = []
        self._jobs = 0

    def close(self) -> None:
        self.client.close()

    def add(self, name: str, layout: str = "parts", **more: Any) -> Stream:
        """A new table, and a query into it."""
        stream = Stream(self.tables.create(name, layout), **more)
        self.streams.append(stream)
        return stream

    # -- in a driver of its own -------------------------------------------------------------------

    @property
    def resume_file(self) -> Path:
        """Held queries continue once this file, or this name with `-<batch>`, exists."""
        return self.folder / "go-on"

    def drive(
        self,
        start_driver: Callable[..., Driver],
        installation: Installation,
        *,
        conf: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        sink: Mapping[str, Any] | None = None,
    ) -> Driver:
        """Run all queries in one driver, at the same time."""
        self._jobs += 1
        path = self.folder / f"job-{self._jobs}.json"
        job = {
            "metastore": self._uri,
            "warehouse": warehouse_in(self.folder),
            "metastore_options": self._options,
            "resume_file": str(self.resume_file),
            "conf": dict(conf or {}),
            "streams": [self._spec(stream, dict(sink or {})) for stream in self.streams],
        }
        path.write_text(json.dumps(job))
        return start_driver(installation, SCRIPT, path, environ=environ)

    def _spec(self, stream: Stream, sink: dict[str, Any]) -> dict[str, Any]:
        hold = {"point": stream.point, "batch_id": stream.batch_id} if stream.point is not None else {}
        return {
            "table": stream.table,
            "input": str(self.input.folder),
            "checkpoint": self.checkpoint(stream),
            "columns": stream.columns,
            "sink": sink,
            **hold,
        }

    def wait_until_held(self, driver: Driver) -> None:
        """Fails by name when a query never comes to its point."""
        for stream in self.streams:
            if stream.point is not None:
                driver.wait_for(f"held {stream.table} {stream.point} {stream.batch_id}", 300)

    def release(self, batch_id: int | None = None) -> None:
        """Let held queries continue; with `batch_id`, those held in that batch."""
        file = self.resume_file
        sign = file if batch_id is None else file.with_name(f"{file.name}-{batch_id}")
        sign.touch()

    # -- in this process ---------------------------------------------------------------------------

    def start(self, spark: SparkSession, stream: Stream, **options: Any) -> StreamingQuery:
        rows = self.input.read_stream(spark, stream.columns)
        sink = HiveSink(metastore=self.client, table=stream.table, **options)
        return sink.start(rows, checkpoint=self.checkpoint(stream), trigger={"availableNow": True})

    def run(self, spark: SparkSession, stream: Stream, **options: Any) -> list[BatchStats]:
        """One query, until its input is used up; raises what it fails with."""
        batches: list[BatchStats] = []
        self.start(spark, stream, on_batch=batches.append, **options).awaitTermination()
        return batches

    def run_all(self, spark: SparkSession, **options: Any) -> None:
        """All queries, at the same time."""
        for query in [self.start(spark, stream, **options) for stream in self.streams]:
            query.awaitTermination()

    # -- what is there -----------------------------------------------------------------------------

    def checkpoint(self, stream: Stream) -> str:
        return str(self.folder / "checkpoints" / stream.checkpoint)

    def forget_last_commit(self, stream: Stream) -> int:
        """Make Spark forget that its last batch is done, as if it had died before. Returns that batch."""
        commits = Path(self.checkpoint(stream), "commits")
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink()
        return last

    def ids(self, stream: Stream) -> list[int]:
        return self.tables.ids(stream.table)

    def assert_all_once(self) -> None:
        for stream in self.streams:
            assert_once(self.ids(stream), self.input.ids)


@contextmanager
def streams_in(folder: Path, uri: str, **options: Any) -> Iterator[Streams]:
    folder.mkdir(exist_ok=True)
    streams = Streams(folder, uri, **options)
    try:
        yield streams
    finally:
        streams.close()
