"""Real Hive as the reference: one process per version, queried in HiveQL and through Hive's ACID reader."""

from __future__ import annotations

import base64
import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.interop.judge import HiveError, Judge
from tests.services.metastore import RealMetastore

__all__ = ["AcidRow", "HiveError", "RealHive", "RowId", "Split"]

#: Of the cleaner, half a second apart, before a compaction counts as stuck.
_CLEANER_PASSES = 30


class RowId(NamedTuple):
    """ROW__ID: `bucket_id` is the bucket property, not the bucket's number."""

    write_id: int
    bucket_id: int
    row_id: int


class AcidRow(NamedTuple):
    """A row as Hive's ACID reader gives it."""

    row_id: RowId
    cells: tuple[Any, ...]


class Split(NamedTuple):
    """A part of a file, in bytes; its reader reads the stripes that begin in it."""

    file: Path
    start: int
    length: int


class RealHive(Judge):
    """Hive in a separate process, of the version of `metastore`, with scratch files and its log in `home`.

    A cell arrives as Python's value: int, float, str, bool, None, bytes, `Decimal`, `date`, `datetime` (a
    timestamp finer than a microsecond stays Hive's text), an array as list, a map and a struct as dict.

    Statements run in row mode until `vectorized` says otherwise. `classes` come before Hive's own in its class path.
    Not to be shared between threads.
    """

    def __init__(
        self, metastore: RealMetastore, home: Path, *, timezone: str = "UTC", classes: Sequence[Path] = ()
    ) -> None:
        super().__init__(metastore.version, home, metastore.client_settings(), timezone=timezone, classes=classes)
        self.metastore = metastore

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of one statement of HiveQL, none for one that gives no rows. Raises `HiveError`."""
        result = self.call("sql", statement=statement)
        return [[_cell(cell) for cell in row] for row in result["rows"]]

    def select(self, query: str, *, vectorized: bool) -> list[list[Any]]:
        """The rows of a query over files, read row by row, or by vectorised readers and operators.

        Hive runs only jobs vectorised, and a job hands its rows over as text, which cannot tell a null
        array from one that holds a null: so the job writes a temporary ORC table, which is read then.
        Raises `HiveError` when Hive declines to run the query vectorised.
        """
        if not vectorized:
            return self.sql(query)
        with self.vectorizing():
            self._require_vectorized(query)
            self.sql("drop table if exists judged")
            self.sql(f"create temporary table judged stored as orc as {query}")
        return self.sql("select * from judged")

    @contextlib.contextmanager
    def vectorizing(self) -> Iterator[None]:
        """Queries over files run vectorised where Hive can; only plain cells come back unmistakably (see `select`)."""
        self.set("hive.vectorized.execution.enabled", "true")
        self.set("hive.fetch.task.conversion", "none")
        try:
            yield
        finally:
            self.set("hive.vectorized.execution.enabled", "false")
            self.set("hive.fetch.task.conversion", "more")

    def _require_vectorized(self, query: str) -> None:
        plan = "\n".join(row[0] for row in self.sql(f"explain vectorization detail {query}"))
        if "vectorized: true" not in plan or re.search(r"Map Vectorization:\s+enabled: false", plan):
            raise HiveError(f"Hive {self.version} does not vectorise: {query}\n{plan}")

    def set(self, key: str, value: str) -> None:
        """Set one of Hive's settings for all statements that follow."""
        self.call("set", key=key, value=value)

    @contextlib.contextmanager
    def in_timezone(self, zone: str) -> Iterator[None]:
        """Hive's process in `zone`, then in UTC again."""
        self.call("timezone", zone=zone)
        try:
            yield
        finally:
            self.call("timezone", zone="UTC")

    def read_acid(
        self, folder: Path | str, columns: Mapping[str, str], *, write_ids: str, num_buckets: int = -1
    ) -> list[AcidRow]:
        """The rows of one table or partition folder through Hive's OrcInputFormat in row mode, ordered by ROW__ID.

        `columns` maps names to Hive's types; `write_ids` is a ValidWriteIdList in Hive's text form
        ("db.table:high water mark:lowest open:open ids:aborted ids").
        """
        result = self.call("read_acid", **_reading(folder, columns, write_ids, num_buckets))
        rows = [AcidRow(RowId(*row_id), tuple(_cell(cell) for cell in cells)) for row_id, cells in result]
        return sorted(rows, key=lambda row: row.row_id)

    def splits(
        self, folder: Path | str, columns: Mapping[str, str], *, write_ids: str, num_buckets: int = -1
    ) -> list[Split]:
        """What each task of a query would read, by the settings of the moment; arguments as for `read_acid`."""
        found = self.call("splits", **_reading(folder, columns, write_ids, num_buckets))
        return sorted(Split(Path(file), start, length) for file, start, length in found)

    def dump(self, orc_file: Path | str) -> str:
        """What `hive --orcfiledump` says about a file."""
        text = self.call("dump", file=str(orc_file))
        assert isinstance(text, str)
        return text

    def compact(self, table: str, kind: Literal["minor", "major"], *, partition: str | None = None) -> None:
        """Compact a table, or one partition ("a='x',b=1"), and clean up where this version can.

        Raises `HiveError` when the compaction did not come to its end.
        """
        self.compact_uncleaned(table, kind, partition=partition)
        self.clean_up()

    def compact_uncleaned(self, table: str, kind: Literal["minor", "major"], *, partition: str | None = None) -> None:
        """Like `compact`, but obsolete files stay until `clean_up`."""
        where = f" partition ({partition})" if partition else ""
        self.sql(f"alter table {table}{where} compact '{kind}'")
        self.call("compactor_pass", thread="worker")

    def clean_up(self) -> None:
        """Bring the newest compaction to its end. Raises `HiveError` when it does not come there."""
        newest: dict[str, Any] = {}
        for _ in range(_CLEANER_PASSES):
            self.call("compactor_pass", thread="cleaner")
            newest = self._newest_compaction()
            if newest["State"] != "ready for cleaning":  # a pass may come while a transaction is still ending
                break
            time.sleep(0.5)
        if newest["State"] != "succeeded":
            raise HiveError(f"Hive {self.version} did not compact: {newest}")

    def _newest_compaction(self) -> dict[str, Any]:
        header, *compactions = self.sql("show compactions")
        newest: list[Any] = max(compactions, key=_compaction_id)
        return dict(zip(header, newest, strict=True))


def _reading(folder: Path | str, columns: Mapping[str, str], write_ids: str, num_buckets: int) -> dict[str, str]:
    return {
        "folder": str(folder),
        "columns": ",".join(columns),
        "types": ":".join(columns.values()),
        "write_ids": write_ids,
        "buckets": str(num_buckets),
    }


def _compaction_id(row: list[Any]) -> int:
    return int(row[0])


def _cell(cell: Any) -> Any:
    """Python's value for one cell in the form that Cells.java gives it."""
    if isinstance(cell, list):
        return [_cell(element) for element in cell]
    if not isinstance(cell, dict):
        return cell
    [(kind, value)] = cell.items()
    if kind in ("struct", "map"):
        return {name: _cell(field) for name, field in value}
    return _SCALARS.get(kind, str)(value)


def _timestamp(text: str) -> datetime | str:
    if len(text.partition(".")[2]) > 6:
        return text  # Python would silently cut it to microseconds
    return datetime.fromisoformat(text)


def _float(text: str) -> float:
    return float(text.replace("Infinity", "inf"))


_SCALARS: dict[str, Callable[[str], Any]] = {
    "double": _float,
    "decimal": Decimal,
    "binary": base64.b64decode,
    "date": date.fromisoformat,
    "timestamp": _timestamp,
}
