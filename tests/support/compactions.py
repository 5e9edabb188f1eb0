"""Tables that are written, deleted from and compacted by the roles under test, on an embedded metastore."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

import hive_ingest as hi
from hive_ingest.compaction import (
    Cleaner,
    CleanerSettings,
    CleanResult,
    CompactionPolicy,
    Initiated,
    Initiator,
    JobSettings,
    MergeSettings,
    Worker,
    WorkResult,
)
from hive_ingest.compaction.kept_delta import MAY_KEEP
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    CompactionInfo,
    CompactionResponse,
    CompactionState,
    CompactionType,
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    TableName,
    TxnId,
    WriteId,
)
from hive_ingest.orc import RowIds
from hive_ingest.orc.writer.delete_writer import DeleteEventWriter
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import Location
from tests.support.metastores import connect_in
from tests.support.rows import rows
from tests.support.tables import create_table, full_name, table_folder

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
NO_GRACE = CleanerSettings(aborted_grace_seconds=0)
FAST = JobSettings(merge=MergeSettings(fsync=False), lock_wait_seconds=2)
#: A row id: write id, bucket property, row number.
RowId = tuple[int, int, int]


def connect_quietly(folder: Path, uri: str | None = None) -> EmbeddedMetastoreClient:
    """A client that runs housekeeping only on request, and keeps ended transactions no longer than necessary."""
    client = connect_in(folder, uri, housekeeping_interval_seconds=1e6, aborted_txn_retention_seconds=0.001)
    assert isinstance(client, EmbeddedMetastoreClient)
    client.run_housekeeping()
    return client


class Compacted:
    """One table and what happens to it."""

    def __init__(self, client: Any, table: str = "t", **layout: Any) -> None:
        self.client = client
        self.name = TableName.of(full_name(table))
        create_table(client, table, {"id": "int", "text": "string"}, **layout)
        self.folder = table_folder(client, table)
        self.is_partitioned = bool(layout.get("partition_keys"))

    # -- what writers do ---------------------------------------------------------------------------

    def insert(self, *ids: int, part: str | None = None, overwrite: bool = False) -> None:
        """One transaction; of a partitioned table the partition key is `part`."""
        data = rows(ids, text=[f"row {i}" for i in ids], part=part)
        with hi.StreamingConnection.connect(
            self.client,
            table=self.name,
            record_writer=hi.ArrowWriter(),
            settings={"fsync": False},
            overwrite=overwrite,
        ) as connection:
            connection.begin_transaction()
            connection.write(data)
            connection.commit_transaction()

    def inserts(self, first: int, last: int, *, part: str | None = None) -> None:
        """One transaction for each id."""
        for i in range(first, last + 1):
            self.insert(i, part=part)

    def begin(self, part: str | None = None) -> tuple[TxnId, WriteId]:
        """A writing transaction with a write id, left open."""
        (txn_id,) = self.client.open_txns()
        write_id = self.client.allocate_table_write_ids(self.name, [txn_id])[0].write_id
        component = LockComponent(
            LockType.SHARED_READ,
            LockLevel.PARTITION if part else LockLevel.TABLE,
            self.name.database,
            self.name.table,
            f"part={part}" if part else None,
            operation_type=DataOperationType.UPDATE,
        )
        self.client.lock(LockRequest((component,), txn_id))
        return txn_id, write_id

    def delete(self, *row_ids: RowId, part: str | None = None) -> WriteId:
        """Delete events of these rows, in one transaction."""
        txn_id, write_id = self.begin(part)
        self.write_delete_events(write_id, row_ids, part=part)
        self.client.commit_txn(txn_id)
        return write_id

    def write_delete_events(self, write_id: WriteId, row_ids: Iterable[RowId], *, part: str | None = None) -> None:
        columns = [np.array(values) for values in zip(*sorted(row_ids), strict=True)]
        found = RowIds(columns[0].astype(np.int64), columns[1].astype(np.int32), columns[2].astype(np.int64))
        folder = Location.of(str(self.place(part))) / f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
        folder.make_folder()
        file = folder / "bucket_00000"
        schema = arrow_schema(self.client.get_table(self.name).columns)
        with DeleteEventWriter(file.store, file.path, schema=schema, write_id=write_id, sync=False) as writer:
            writer.write(found)
            writer.close()

    def aborted_insert(self, *ids: int, part: str | None = None) -> WriteId:
        """Rows that were published by a transaction that aborted then, as a killed writer leaves them."""
        before = set(self.folders(part))
        self.insert(*ids, part=part)
        (name,) = set(self.folders(part)) - before
        txn_id, write_id = self.begin(part)
        old = self.place(part) / name
        new = self.place(part) / f"delta_{write_id:07d}_{write_id:07d}_0000"
        old.rename(new)
        self.client.abort_txn(txn_id)
        return write_id

    def put_original(self, name: str, *ids: int, part: str | None = None) -> None:
        """A file without the ACID columns, as a table has it that was made transactional later."""
        path = self.place(part) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            orc.write_table(pa.table({"id": pa.array(ids, pa.int32()), "text": [f"row {i}" for i in ids]}), file)

    # -- what compaction does ----------------------------------------------------------------------

    def request(
        self, kind: CompactionType = MINOR, *, part: str | None = None, may_keep_large_delta: bool = False
    ) -> CompactionResponse:
        """As an initiator does if a large delta may be kept."""
        partition = f"part={part}" if part else None
        answer: CompactionResponse = self.client.compact(
            self.name,
            compaction_type=kind,
            partition_name=partition,
            properties={MAY_KEEP: "true"} if may_keep_large_delta else None,
        )
        return answer

    def compact(self, kind: CompactionType = MINOR, *, part: str | None = None) -> WorkResult:
        """Request it, and work until it is done."""
        assert self.request(kind, part=part).accepted
        return self.work()

    def work(self, settings: JobSettings = FAST, *, client: Any = None) -> WorkResult:
        result = Worker(client or self.client, settings, version="0.1").run_once()
        assert result is not None
        return result

    def clean(self, settings: CleanerSettings = NO_GRACE, *, client: Any = None) -> list[CleanResult]:
        return Cleaner(client or self.client, settings).run_once()

    # -- what is there -----------------------------------------------------------------------------

    def place(self, part: str | None = None) -> Path:
        return self.folder / f"part={part}" if part else self.folder

    def folders(self, part: str | None = None) -> list[str]:
        """The ACID folders, by name, with the transaction of a compaction as `_vN`."""
        place = self.place(part)
        found = [path.name for path in place.iterdir() if path.name.startswith(("base_", "delta_", "delete_delta_"))]
        return sorted(found) if place.exists() else []

    def short_folders(self, part: str | None = None) -> list[str]:
        """Such as `delta_1_4_v` and `base_3`: without padding, statement and compaction transaction."""
        return sorted(_short(name) for name in self.folders(part))

    def rows(self) -> list[tuple[Any, ...]]:
        """Every visible row with its ROW__ID, sorted."""
        found = hi.read_table(self.client, self.name, row_ids=True).to_pylist()
        return sorted((tuple(row.pop("row__id").values()), *row.values()) for row in found)

    def ids(self) -> list[int]:
        return [row[1] for row in self.rows()]

    def row_id(self, number: int) -> RowId:
        """The ROW__ID of the row with this id."""
        found: RowId = next(row[0] for row in self.rows() if row[1] == number)
        return found

    def history(self) -> list[CompactionInfo]:
        """Queue and history, newest first."""
        found: list[CompactionInfo] = self.client.show_compactions(self.name)
        return found

    def states(self) -> list[CompactionState]:
        """Of queue and history, newest first."""
        return [info.state for info in self.history() if info.type is not CompactionType.ABORT_TXN_CLEANUP]


def initiate(table: Compacted, policy: CompactionPolicy | None = None, **options: Any) -> list[Initiated]:
    """One round of an initiator, by Hive's thresholds unless others are given."""
    client = options.pop("client", table.client)
    return Initiator(client, policy or CompactionPolicy.hive(), version="0.1", **options).run_once()


def requested(table: Compacted) -> list[tuple[str | None, CompactionType]]:
    """Partition and type of each request that no worker has taken, newest first."""
    return [(info.partition_name, info.type) for info in table.history() if info.state is CompactionState.INITIATED]


def _short(name: str) -> str:
    found = re.fullmatch(r"(base|delta|delete_delta)_(-?\d+)(?:_(\d+))?(?:_\d{4})?(_v)?\d*", name)
    assert found is not None, name
    kind, low, high, suffix = found.groups()
    return f"{kind}_{int(low)}" + (f"_{int(high)}" if high else "") + (suffix or "")
