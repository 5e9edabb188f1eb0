"""Exactly once: the progress of a sink's sources commits together with the data.

A sink has a name. Its progress is rows of a small ACID table, `<database>.<sink>__progress`, written as a delta
in the same transaction as the data: a commit makes both visible or neither. A lock for each source, on the
progress table, excludes all but one owner; safety depends on that lock alone, not on knowing who is alive.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hive_ingest.acid import ValidWriteIdList
from hive_ingest.arrow_arrays import number_array, text_array
from hive_ingest.config import StreamingSettings
from hive_ingest.delta import DeltaTarget, DeltaWriter, GroupKey
from hive_ingest.errors import (
    ConfigurationError,
    InvalidTransactionState,
    LockTimeout,
    NoSuchObject,
    SinkConflict,
    SinkInUse,
)
from hive_ingest.metastore_client import MetastoreClient, check_text
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockInfo,
    LockLevel,
    LockType,
    Table,
    TableName,
    TxnId,
    WriteId,
)
from hive_ingest.reader import newest_rows
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import Location
from hive_ingest.transactions import Owner, ReadTransaction, StagedFile, describe_locks, lock_timeout

#: Version of the layout of the progress rows.
PROGRESS_VERSION = 1
PROGRESS_COLUMNS = {
    "sequence": "bigint",
    "source": "string",
    "position": "string",
    "epoch": "bigint",
    "table_id": "bigint",
    "txn_id": "bigint",
    "version": "int",
    "written_at": "timestamp",
}
PROGRESS_TABLE_SUFFIX = "__progress"
#: Of the reader that finds out whether a commit happened.
_LOOK_AGENT, _LOOK_WAIT_SECONDS = "hive-ingest commit look-up", 60.0
_SINK_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The latest progress row of one source.

    `position` is the JSON value that the pipeline committed: where to continue. `sequence` grows by one with each
    commit of the source, `epoch` with each `seek`. `written_at` is a datetime in UTC, without a time zone.
    """

    source: str
    position: Any
    sequence: int
    epoch: int
    table_id: int
    txn_id: TxnId
    written_at: dt.datetime


def progress_table_name(database: str, sink: str) -> TableName:
    """Raises ConfigurationError for a name that no table can have."""
    if not isinstance(sink, str) or not _SINK_NAME.fullmatch(sink):
        raise ConfigurationError(
            f"{sink!r} is not a valid sink name: lower-case letters, digits and _ only, a letter first, at most 100 "
            "characters"
        )
    return TableName(database, sink + PROGRESS_TABLE_SUFFIX)


def _source_names(sources: Iterable[str]) -> tuple[str, ...]:
    """Raises ConfigurationError for names that the progress table cannot hold."""
    if isinstance(sources, str | bytes) or not isinstance(sources, Iterable):
        raise ConfigurationError(f"sources={sources!r} is not a list: give a list of names")
    names = tuple(dict.fromkeys(sources))
    for name in names:
        check_text("the name of a source", name)
    return names


def source_lock_name(source: str) -> str:
    """The name of a partition that stands for a source in locks; the partition does not exist."""
    return f"source={hashlib.sha256(source.encode()).hexdigest()[:32]}"


def with_source_names(locks: Iterable[LockInfo], sources: Mapping[TableName, Iterable[str]]) -> list[LockInfo]:
    """Locks in readable form: those on sources of a sink name the source, where it is known.

    Args:
        locks: As SHOW LOCKS returns them.
        sources: The known sources of each progress table.
    """
    names = {
        (table.database, table.table, source_lock_name(source)): f"source={source}"
        for table, known in sources.items()
        for source in known
    }
    return [
        dataclasses.replace(
            lock,
            partition_name=names.get((lock.database, lock.table or "", lock.partition_name or ""), lock.partition_name),
        )
        for lock in locks
    ]


def _progress_table(client: MetastoreClient, name: TableName) -> Table:
    """The progress table of a sink; made for a new one."""
    try:
        return client.get_table(name)
    except NoSuchObject:
        # Hive 3.1 cannot read ZSTD, and this table is tiny.
        properties = {"orc.compress": "ZLIB"}
        client.create_table(name, columns=PROGRESS_COLUMNS, properties=properties, if_not_exists=True)
        return client.get_table(name)


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What the progress table looked like after our own last commit."""

    write_id: WriteId
    exceptions: frozenset[WriteId]
    rows: dict[str, SourceProgress]


class SinkProgress:
    """The progress of some sources of one sink, for the one connection that owns them."""

    def __init__(
        self, client: MetastoreClient, data: Table, sink: str, sources: Iterable[str], settings: StreamingSettings
    ) -> None:
        self.sources = _source_names(sources)
        if not self.sources:
            raise ConfigurationError(f"sink {sink!r}: name at least one source that this connection owns")
        self.sink = sink
        self.owner = Owner.of_this_process(sink)
        self._client = client
        self._data = data
        self._settings = settings
        self.table = _progress_table(client, progress_table_name(data.name.database, sink))
        self._remembered: _Remembered | None = None
        self._exceptions: frozenset[WriteId] = frozenset()
        #: As of the last read or commit: None for a source without progress yet. Empty before the first read.
        self.latest: dict[str, SourceProgress | None] = {}
        #: Of the same sink, as of the last read that did not find every source owned; sorted.
        self.other_sources: tuple[str, ...] = ()

    # -- locks -------------------------------------------------------------------------------------

    def lock_components(self) -> list[LockComponent]:
        """The progress table, shared with its other writers, and each source exclusively."""
        database, table = self.table.name.database, self.table.name.table
        insert, no_txn = DataOperationType.INSERT, DataOperationType.NO_TXN
        sources = [
            LockComponent(LockType.EXCL_WRITE, LockLevel.PARTITION, database, table, source_lock_name(source), no_txn)
            for source in self.sources
        ]
        return [
            LockComponent(LockType.SHARED_READ, LockLevel.TABLE, database, table, operation_type=insert),
            *sources,
        ]

    def free_dead_owners(self, blockers: list[LockInfo]) -> None:
        """Abort the transactions of owners that hold a source of ours and have certainly ended."""
        names = {source_lock_name(source) for source in self.sources}
        for lock in blockers:
            owner = Owner.parse(lock.agent_info)
            is_source = lock.table == self.table.name.table and lock.partition_name in names
            if is_source and owner is not None and owner.is_dead():
                self._client.abort_txns([lock.txn_id], reason=f"its owner is gone: {lock.agent_info}")

    def timeout_error(self, blockers: list[LockInfo], waited_seconds: float) -> LockTimeout:
        """SinkInUse if another owner holds one of the sources, else LockTimeout."""
        blockers = self.with_source_names(blockers)
        held = [lock for lock in blockers if lock.table == self.table.name.table and lock.partition_name]
        if not held:
            return lock_timeout(self._data.name, blockers, waited_seconds)
        sources = ", ".join(sorted({repr(str(lock.partition_name).partition("=")[2]) for lock in held}))
        return SinkInUse(
            f"source {sources} of sink {self.sink!r} was in use by another owner for {waited_seconds:.0f} s: "
            f"{describe_locks(held)}. Stop that owner, or wait until its transaction times out"
        )

    def with_source_names(self, locks: list[LockInfo]) -> list[LockInfo]:
        """The same locks; those on our sources show the source's name instead of its digest."""
        return with_source_names(locks, {self.table.name: self.sources})

    # -- reading -----------------------------------------------------------------------------------

    def read(self, write_id: WriteId, snapshot: ValidWriteIdList) -> bool:
        """Fill `latest` from a snapshot that was taken after the locks were ACQUIRED.

        Returns False if a newer commit of these sources has a higher write id than ours: the transaction must be begun
        again, or the newest delta would not have the latest row. Raises SinkConflict if the sink belongs to another
        table.
        """
        self._exceptions = frozenset((*snapshot.open, *snapshot.aborted)) - {write_id}
        remembered = self._remembered
        if (
            remembered is not None
            and snapshot.high_water_mark == write_id == remembered.write_id + 1
            and self._exceptions == remembered.exceptions
        ):
            self.latest = dict(remembered.rows)
            return True
        found = self._latest_rows(snapshot)
        owned = {source: found[source] for source in self.sources if source in found}
        if len(owned) < len(self.sources):  # then the whole table has been read
            self.other_sources = tuple(sorted(found.keys() - owned.keys()))
            self._refuse_other_table(found)
        else:
            self._refuse_other_table(owned)
        self.latest = {source: owned[source][0] if source in owned else None for source in self.sources}
        return max((row_write_id for _, row_write_id in owned.values()), default=0) < write_id

    def _latest_rows(self, snapshot: ValidWriteIdList) -> dict[str, tuple[SourceProgress, WriteId]]:
        """Read the newest deltas first, until every source owned has been found; includes others found on the way."""
        found: dict[str, tuple[SourceProgress, WriteId]] = {}
        for batch in newest_rows(self._client, self.table, snapshot):
            for row, write_id in progress_rows(batch):
                best = found.get(row.source)
                if best is None or best[0].sequence < row.sequence:
                    found[row.source] = (row, write_id)
            if found.keys() >= set(self.sources):
                break
        return found

    def _refuse_other_table(self, rows: Mapping[str, tuple[SourceProgress, WriteId]]) -> None:
        for row, _ in rows.values():
            if row.table_id not in self._data.known_ids:
                raise SinkConflict(
                    f"sink {self.sink!r} has progress for another table (id {row.table_id}, {self._data.name} has "
                    f"{self._data.id}): the table was dropped and created again, or two tables share the sink's name; "
                    f"use another sink name, or drop {self.table.name}"
                )

    def was_committed(self, txn_id: TxnId) -> bool:
        """Whether any row of that transaction is visible in a new snapshot. May read the whole table."""
        # Our own transaction has ended, so another one must keep the snapshot's files.
        transaction = ReadTransaction(
            self._client, self.table.name, lock_wait_seconds=_LOOK_WAIT_SECONDS, agent_info=_LOOK_AGENT
        )
        try:
            found = any(
                row.txn_id == txn_id
                for batch in newest_rows(self._client, self.table, transaction.valid_write_ids)
                for row, _ in progress_rows(batch)
            )
            transaction.check()
        except BaseException as error:
            transaction.fail(error)
            raise
        transaction.close()
        return found

    # -- writing -----------------------------------------------------------------------------------

    def require_latest(self) -> dict[str, SourceProgress | None]:
        """A copy of `latest`, which the caller may change. Raises InvalidTransactionState before the first read."""
        if not self.latest:
            raise InvalidTransactionState(
                f"the progress of sink {self.sink!r} has not been read yet: call begin_transaction() first, which "
                "locks the sources and reads it"
            )
        return {source: copy.deepcopy(row) for source, row in self.latest.items()}

    def check_positions(self, positions: Mapping[str, Any]) -> None:
        """Check what was passed to a commit.

        Raises:
            ConfigurationError: A source is not owned, or a position is not a JSON value.
        """
        if not isinstance(positions, Mapping):
            raise ConfigurationError(
                f"positions is a {type(positions).__name__}: pass a dict with the new position of each source, "
                f"such as {{{self.sources[0]!r}: …}}"
            )
        unknown = sorted(map(str, positions.keys() - set(self.sources)))
        if unknown:
            owned = ", ".join(map(repr, self.sources))
            raise ConfigurationError(
                f"sources {unknown} are not owned by this connection to sink {self.sink!r}: pass positions of {owned}"
            )
        for source, position in positions.items():
            _to_json(source, position)

    def next_rows(
        self, txn_id: TxnId, positions: Mapping[str, Any], *, is_seek: bool = False
    ) -> dict[str, SourceProgress]:
        """A row for every source owned, with the new or the old position, so that the newest delta has them all."""
        rows = {}
        # As they will be read again: the caller may change its own objects after the commit.
        new = {source: json.loads(_to_json(source, position)) for source, position in positions.items()}
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        for source in self.sources:
            last = self.latest.get(source)
            if source not in new and last is None:
                continue
            rows[source] = SourceProgress(
                source=source,
                position=new.get(source, last.position if last else None),
                sequence=last.sequence + 1 if last else 1,
                epoch=(last.epoch if last else 0) + (1 if is_seek and source in new else 0),
                table_id=self._data.id,
                txn_id=txn_id,
                written_at=now,
            )
        return rows

    def stage(
        self, write_id: WriteId, staging: Location, rows: Mapping[str, SourceProgress]
    ) -> tuple[StagedFile, DeltaWriter]:
        """Write the rows to a hidden file, to be published with the data."""
        batch = _to_batch([*rows.values()], arrow_schema(self.table.columns))
        delta = DeltaWriter(DeltaTarget(self.table, write_id, staging, is_committed_here=True), self._settings)
        return delta.finish(GroupKey((), 0), [], [batch]), delta

    def committed(self, write_id: WriteId, rows: dict[str, SourceProgress]) -> None:
        """Remember the state that the next transaction must find if nobody else has written."""
        self.latest = {source: rows.get(source) for source in self.sources}
        if len(rows) == len(self.sources):
            self._remembered = _Remembered(write_id, self._exceptions, rows)


def _to_batch(rows: Sequence[SourceProgress], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the progress table."""
    times = np.array([row.written_at for row in rows], "datetime64[ns]")
    numbers = {
        "sequence": [row.sequence for row in rows],
        "epoch": [row.epoch for row in rows],
        "table_id": [row.table_id for row in rows],
        "txn_id": [row.txn_id for row in rows],
        "version": [PROGRESS_VERSION for _ in rows],
    }
    arrays = {name: number_array(np.array(values, np.int64)) for name, values in numbers.items()} | {
        "source": text_array(row.source for row in rows),
        "position": text_array(_to_json(row.source, row.position) for row in rows),
        "written_at": number_array(times.view(np.int64)),
    }
    return pa.RecordBatch.from_arrays([arrays[field.name].cast(field.type) for field in schema], schema=schema)


def _to_json(source: str, position: Any) -> str:
    """Raises ConfigurationError."""
    try:
        text = json.dumps(position, allow_nan=False, ensure_ascii=False)
        text.encode()  # text that is not Unicode
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the position of source {source!r} is not a JSON value: {error}") from error
    return text


def progress_rows(batch: pa.RecordBatch) -> Iterator[tuple[SourceProgress, WriteId]]:
    """Rows of a progress table, read with `row__id`, and their write ids.

    Raises SinkConflict for rows of a newer version of this package.
    """
    # With nanoseconds it would be a pandas.Timestamp where pandas is installed.
    times = batch.column("written_at").cast(pa.timestamp("us"), safe=False).to_pylist()
    rest = batch.drop_columns(["written_at"]).to_pylist()
    for row, written_at in zip(rest, times, strict=True):
        if row["version"] > PROGRESS_VERSION:
            raise SinkConflict(
                f"progress of source {row['source']!r} has version {row['version']}: "
                "it was written by a newer version of this package; use that version"
            )
        write_id = WriteId(row["row__id"]["writeid"])
        yield (
            SourceProgress(
                row["source"],
                json.loads(row["position"]),
                row["sequence"],
                row["epoch"],
                row["table_id"],
                TxnId(row["txn_id"]),
                written_at,
            ),
            write_id,
        )
