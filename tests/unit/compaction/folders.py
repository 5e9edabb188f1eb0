"""Folders of a partition as writers leave them, compacted and read without a metastore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.compaction import (
    KeptDelta,
    MergePlan,
    Merger,
    MergeResult,
    MergeSettings,
    merge,
    plan_major,
    plan_minor,
)
from hive_ingest.model import Column, Table, TableName, TxnId, WriteId
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.orc.writer.delete_writer import DeleteEventWriter
from hive_ingest.reader.partitions import PartitionToRead
from hive_ingest.reader.rows import Projection, Snapshot, read_partition
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import LocalStore, Location

STORE = LocalStore()
NAME = TableName("web", "t")
#: A row: its ROW__ID, then the values of its columns.
Row = tuple[tuple[int, int, int], tuple[Any, ...]]


def table_of(columns: dict[str, str], location: Path, **properties: str) -> Table:
    return Table(
        NAME,
        columns=tuple(Column(name, type_) for name, type_ in columns.items()),
        location=str(location),
        properties={"transactional": "true"} | properties,
    )


@dataclass
class Folder:
    """An unpartitioned table's folder; the columns can change while files are written."""

    path: Path
    columns: dict[str, str] = field(default_factory=lambda: {"id": "int", "text": "string"})
    properties: dict[str, str] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    high_water_mark: int = 0

    @property
    def table(self) -> Table:
        return table_of(self.columns, self.path, **self.properties)

    @property
    def location(self) -> Location:
        return Location.of(str(self.path))

    @property
    def valid_write_ids(self) -> ValidWriteIdList:
        return ValidWriteIdList(
            NAME, WriteId(self.high_water_mark), aborted=tuple(WriteId(i) for i in sorted(self.aborted))
        )

    # -- what writers do ---------------------------------------------------------------------------

    def insert(
        self,
        write_id: int,
        rows: Sequence[Sequence[Any]],
        *,
        bucket: int = 0,
        statement: int = 0,
        folder: str | None = None,
        first_row_id: int = 0,
        **options: Any,
    ) -> Path:
        self.high_water_mark = max(self.high_water_mark, write_id)
        schema = arrow_schema(self.table.columns)
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return self.insert_batch(
            write_id,
            batch,
            bucket=bucket,
            statement=statement,
            folder=folder,
            first_row_id=first_row_id,
            **options,
        )

    def insert_batch(
        self,
        write_id: int,
        batch: pa.RecordBatch,
        *,
        bucket: int = 0,
        statement: int = 0,
        folder: str | None = None,
        first_row_id: int = 0,
        **options: Any,
    ) -> Path:
        self.high_water_mark = max(self.high_water_mark, write_id)
        path = self.path / (folder or f"delta_{write_id:07d}_{write_id:07d}_{statement:04d}") / f"bucket_{bucket:05d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with AcidOrcWriter(
            STORE,
            str(path),
            schema=batch.schema,
            write_id=WriteId(write_id),
            bucket_property=encode_bucket(bucket, statement),
            first_row_id=first_row_id,
            sync=False,
            **options,
        ) as writer:
            writer.write(batch)
            writer.close()
        return path

    def delete(self, write_id: int, rows: Iterable[tuple[int, int, int]], *, bucket: int = 0, **options: Any) -> Path:
        self.high_water_mark = max(self.high_water_mark, write_id)
        path = self.path / f"delete_delta_{write_id:07d}_{write_id:07d}_0000" / f"bucket_{bucket:05d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with DeleteEventWriter(
            STORE, str(path), schema=arrow_schema(self.table.columns), write_id=WriteId(write_id), sync=False, **options
        ) as writer:
            writer.write(row_ids(sorted(rows)))
            writer.close()
        return path

    # -- compaction and reading --------------------------------------------------------------------

    def plan(self, kind: str, txn_id: int = 900, *, kept: KeptDelta | None = None) -> MergePlan | None:
        snapshot = self.location, self.valid_write_ids, ValidTxnList(TxnId(txn_id))
        if kind == "minor":
            return plan_minor(*snapshot, txn_id=TxnId(txn_id), kept=kept)
        return plan_major(*snapshot, txn_id=TxnId(txn_id))

    def compact(self, kind: str, txn_id: int = 900, **settings: Any) -> MergeResult | None:
        """Merge and publish; None where there was nothing to merge."""
        plan = self.plan(kind, txn_id)
        return None if plan is None else self.publish(self.merge(plan, **settings))

    def merge(self, plan: MergePlan, *, merger: Merger = merge, **settings: Any) -> MergeResult:
        progress = settings.pop("progress", None)
        staging = self.location / ".hive_ingest" / f"1_00000000_{0:032x}"
        options = MergeSettings(**({"fsync": False} | settings))
        return merger(plan, self.table, staging=staging, settings=options, progress=progress)

    def publish(self, result: MergeResult) -> MergeResult:
        for name in result.folders:
            (self.path / name).mkdir()
        for file in result.files:
            file.location.rename(self.location / file.folder_name / file.file_name)
        return result

    def rows(self, *, txn_id: int = 10**6) -> list[Row]:
        """What a reader sees, sorted by ROW__ID."""
        names = (*self.columns, "row__id")
        snapshot = Snapshot(self.valid_write_ids, ValidTxnList(TxnId(txn_id)))
        partition = PartitionToRead("", str(self.path), {})
        found = []
        for batch in read_partition(partition, Projection(self.table, names, None), snapshot):
            found += [tuple(row.values()) for row in batch.to_pylist()]
        return sorted((_row_id(row[-1]), row[:-1]) for row in found)

    @property
    def staged(self) -> list[str]:
        folder = self.path / ".hive_ingest"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def _row_id(value: dict[str, int]) -> tuple[int, int, int]:
    return value["writeid"], value["bucketid"], value["rowid"]


def row_ids(rows: Sequence[tuple[int, int, int]]) -> RowIds:
    import numpy as np

    write_ids, buckets, numbers = ([row[i] for row in rows] for i in range(3))
    return RowIds(np.array(write_ids, np.int64), np.array(buckets, np.int32), np.array(numbers, np.int64))


def tail_of(path: Path) -> OrcTail:
    with Location.of(str(path)).open_input() as source:
        return read_tail(source, str(path))
