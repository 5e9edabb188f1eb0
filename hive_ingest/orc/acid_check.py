"""Checks every rule of the ACID format on one file.

Other readers trust a file's metadata where they can; this one decodes all rows and compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import CorruptFile, StreamingError
from hive_ingest.orc.acid_schema import (
    ACID_KEY_INDEX,
    ACID_STATS,
    ACID_VERSION,
    BUCKET,
    DELETE,
    INSERT,
    OPERATION,
    ORIGINAL_WRITE_ID,
    ROW_ID,
    WRITE_ID,
    parse_key_index,
)
from hive_ingest.orc.delete_events import RowIds
from hive_ingest.orc.format.checksums import read_segment
from hive_ingest.orc.format.column_bounds import column_bounds
from hive_ingest.orc.format.columns import OrcColumn, OrcKind
from hive_ingest.orc.format.protobuf import WireError
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.reader.stripe_reader import StripeRows
from hive_ingest.storage import FileStore

_ACID_COLUMNS = (OPERATION, ORIGINAL_WRITE_ID, BUCKET, ROW_ID, WRITE_ID)
_BUCKET_SHIFT, _TWELVE_BITS, _VERSION_SHIFT = 16, 0xFFF, 29
#: The types of columns whose values are compared with the bounds in the statistics, and as what they are compared.
_COMPARED: dict[int, pa.DataType | None] = {
    OrcKind.BYTE: pa.int64(),
    OrcKind.SHORT: pa.int64(),
    OrcKind.INT: pa.int64(),
    OrcKind.LONG: pa.int64(),
    OrcKind.DATE: pa.int32(),
    OrcKind.STRING: None,
    OrcKind.VARCHAR: None,
    OrcKind.DECIMAL: None,
}


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """What the names of a file and its folder say about its rows.

    Attributes:
        bucket: The number in the file's name.
        statement_id: That of the folder; None: a compaction may have merged several.
        are_delete_events: Whether the folder holds delete events.
        are_consecutive: Whether the file holds all rows of a transaction and bucket, numbered from 0.
    """

    bucket: int
    statement_id: int | None
    are_delete_events: bool
    are_consecutive: bool


@dataclass(frozen=True, slots=True)
class KeyRun:
    """The row ids from `first` to `last` of one write id and bucket property, which a file has some or all of."""

    write_id: int
    bucket_property: int
    first: int
    last: int


@dataclass(slots=True)
class FileCheck:
    """What was found in one file.

    Attributes:
        rows: How many rows, or delete events, were decoded.
        problems: The rule that is broken, and how.
        runs: The row ids, for a comparison with other files.
    """

    rows: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)
    runs: list[KeyRun] = field(default_factory=list)


def check_acid_file(
    store: FileStore, file: FileToRead, expected: ExpectedRows, *, decode_keys: bool = True, decode_values: bool = True
) -> FileCheck:
    """Check a file. Whatever is wrong with it is reported, not raised.

    Args:
        store: The file's store.
        file: The file.
        expected: By the names of the file and its folder.
        decode_keys: Whether the ACID columns of all rows are decoded.
        decode_values: Whether the table's columns are decoded as well.
    """
    found = FileCheck()
    try:
        with AcidFileReader(store, file) as reader:
            if not file.is_small:
                _verify_all(store, file, reader)
            found.problems += _metadata_problems(reader)
            if decode_keys:
                _check_rows(reader, file, expected, found, decode_values=decode_values)
            else:
                found.rows = reader.tail.footer.rows
    except CorruptFile as error:
        found.problems.append(("content", str(error)))
    except StreamingError as error:
        found.problems.append(("readable", str(error)))
    return found


def row_ids_of(store: FileStore, file: FileToRead) -> RowIds:
    """All row ids of a file, in order. Raises CorruptFile, StreamingIOFailure."""
    with AcidFileReader(store, file) as reader:
        columns = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)
        return RowIds.concat([reader.read(stripe, columns, []).row_ids() for stripe in range(reader.num_stripes)])


def _verify_all(store: FileStore, file: FileToRead, reader: AcidFileReader) -> None:
    """Also what no column needs, such as row indexes."""
    checksums = reader.tail.checksums
    if checksums is None:
        return
    with store.open_input(file.path) as source:
        content_bytes = source.size() - len(reader.tail.encoded)
        for segment in range(len(checksums.crcs)):
            read_segment(source, checksums, segment, content_bytes, file.path)


def _metadata_problems(reader: AcidFileReader) -> Iterator[tuple[str, str]]:
    footer = reader.tail.footer
    items = footer.user_metadata
    if reader.file.original is not None:
        return
    if items.get(ACID_VERSION, b"2") != b"2":
        yield "metadata", f"{ACID_VERSION} is {items[ACID_VERSION]!r}, expected 2"
    try:
        counts = [int(number) for number in items[ACID_STATS].split(b",")] if ACID_STATS in items else None
    except ValueError:
        yield "metadata", f"{ACID_STATS} is {items[ACID_STATS]!r}, expected three numbers"
        return
    if counts is not None and sum(counts) != footer.rows:
        yield "metadata", f"{ACID_STATS} counts {sum(counts)} rows, the footer {footer.rows}"


# -- rows ----------------------------------------------------------------------------------------------


def _check_rows(
    reader: AcidFileReader, file: FileToRead, expected: ExpectedRows, found: FileCheck, *, decode_values: bool
) -> None:
    rows = _RowChecks(file, expected)
    values = _ValueChecks(reader.row if decode_values else None, has_checksums=reader.tail.checksums is not None)
    last_keys = []
    for stripe in range(reader.num_stripes):
        read = reader.read_all(stripe) if decode_values else reader.read(stripe, _ACID_COLUMNS, [])
        if len(read):
            rows.add(read)
            values.add(read)
            last_keys.append(read.row_ids().key(len(read) - 1))
    found.rows = rows.rows
    found.runs = rows.runs()
    found.problems += rows.problems.items()
    found.problems += values.problems()
    if file.original is None:
        found.problems += _key_index_problems(reader, last_keys)


def _key_index_problems(reader: AcidFileReader, last_keys: list[tuple[int, int, int]]) -> Iterator[tuple[str, str]]:
    index = reader.tail.footer.user_metadata.get(ACID_KEY_INDEX)
    if index is None:  # Hive 4.0.1's merge compactor leaves it out
        return
    try:
        keys = parse_key_index(index)
    except ValueError:
        yield "key index", f"{ACID_KEY_INDEX} cannot be read"
        return
    if keys != last_keys:
        wrong = next((n for n, pair in enumerate(zip(keys, last_keys, strict=False)) if pair[0] != pair[1]), None)
        which = f"stripe {wrong} ends with another key" if wrong is not None else f"it has {len(last_keys)} stripes"
        yield "key index", f"{ACID_KEY_INDEX} has {len(keys)} keys; {which}"


class _RowChecks:
    """The ACID columns of one file, stripe by stripe. Of each rule the first offence is kept."""

    def __init__(self, file: FileToRead, expected: ExpectedRows) -> None:
        self.rows = 0
        self.problems: dict[str, str] = {}
        self._file, self._expected = file, expected
        self._last: RowIds | None = None
        self._runs: dict[tuple[int, int], tuple[int, int, int]] = {}

    def add(self, read: StripeRows) -> None:
        ids = read.row_ids()
        self._check_operation(read)
        self._check_write_ids(read, ids)
        self._check_buckets(ids)
        self._check_order(ids)
        self._add_runs(ids)
        self.rows += len(read)

    def runs(self) -> list[KeyRun]:
        """The row ids; also checks that no number of a transaction's rows is left out."""
        for (write_id, bucket), (first, last, count) in self._runs.items():
            if self._expected.are_consecutive and (first, last + 1) != (0, count):
                self._problem(
                    "row ids",
                    f"write id {write_id}, bucket property {bucket} has {count} rows with the ids {first} to {last}, "
                    f"expected 0 to {count - 1}",
                )
        return [KeyRun(*key, first, last) for key, (first, last, _) in self._runs.items()]

    def _problem(self, rule: str, text: str) -> None:
        self.problems.setdefault(rule, text)

    def _check_operation(self, read: StripeRows) -> None:
        wanted = DELETE if self._expected.are_delete_events else INSERT
        wrong = read.numbers(OPERATION) != wanted
        if wrong.any():
            place = self.rows + int(wrong.argmax())
            self._problem("operation", f"row {place} is operation {read.numbers(OPERATION)[wrong][0]}, not {wanted}")

    def _check_write_ids(self, read: StripeRows, ids: RowIds) -> None:
        current = read.numbers(WRITE_ID)
        if self._file.write_ids is not None:
            low, high = self._file.write_ids
            self._check_all("write ids", (current >= low) & (current <= high), current, f"outside of {low} to {high}")
        if self._expected.are_delete_events:
            late = ids.write_ids <= current
            self._check_all("write ids", late, ids.write_ids, "of a row that was written after the delete event")
        else:
            self._check_all("write ids", ids.write_ids == current, current, "which is not that of the row")

    def _check_buckets(self, ids: RowIds) -> None:
        properties = ids.buckets
        self._check_all("bucket", properties >> _VERSION_SHIFT == 1, properties, "which is of no known version")
        bucket = properties >> _BUCKET_SHIFT & _TWELVE_BITS
        expected = self._expected
        self._check_all("bucket", bucket == expected.bucket, bucket, f"in the file of bucket {expected.bucket}")
        if expected.statement_id is not None and not expected.are_delete_events:
            statement = properties & _TWELVE_BITS
            self._check_all("bucket", statement == expected.statement_id, statement, "as statement id of its rows")

    def _check_all(self, rule: str, are_right: Any, values: Any, why: str) -> None:
        if not are_right.all():
            place = int(np.argmin(are_right))
            self._problem(rule, f"row {self.rows + place} has {values[place]}, {why}")

    def _check_order(self, ids: RowIds) -> None:
        together = ids if self._last is None else RowIds.concat([self._last, ids])
        self._last = ids.slice(len(ids) - 1, len(ids))
        if together.is_ascending():
            return
        if self._expected.are_delete_events and together.order().tolist() == list(range(len(together))):
            return  # two transactions may have deleted a row before a compaction
        self._problem("key order", f"rows {self.rows} to {self.rows + len(ids)} are not in the order of their keys")

    def _add_runs(self, ids: RowIds) -> None:
        keys = np.stack([ids.write_ids, ids.buckets.astype(np.int64)], axis=1)
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(keys, axis=0) != 0).any(axis=1)]))
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            key = (int(keys[start, 0]), int(keys[start, 1]))
            part = ids.row_ids[start:end]
            first, last, count = self._runs.get(key, (int(part.min()), int(part.max()), 0))
            self._runs[key] = (min(first, int(part.min())), max(last, int(part.max())), count + len(part))


class _ValueChecks:
    """The values of the table's columns, compared with the statistics of the file."""

    def __init__(self, row: OrcColumn | None, *, has_checksums: bool) -> None:
        """`row` is None if no values are decoded."""
        children = row.children if row is not None else ()
        self._columns = {child.name: child for child in children if child.statistics}
        self._has_checksums = has_checksums
        self._values = dict.fromkeys(self._columns, 0)
        self._low: dict[str, Any] = {}
        self._high: dict[str, Any] = {}

    def add(self, read: StripeRows) -> None:
        columns = read.columns()
        for name in self._columns.keys() & columns.keys():
            array = columns[name]
            self._values[name] += len(array) - array.null_count
            kind = self._columns[name].kind
            if kind in _COMPARED and array.null_count < len(array):
                type_ = _COMPARED[kind]
                found = pc.min_max(array if type_ is None else array.cast(type_))
                low, high = found["min"].as_py(), found["max"].as_py()
                self._low[name] = min(low, self._low.get(name, low))
                self._high[name] = max(high, self._high.get(name, high))

    def problems(self) -> Iterator[tuple[str, str]]:
        """One for each column whose statistics are wrong: a reader that trusts them would leave rows out."""
        for name, column in self._columns.items():
            try:
                bounds = column_bounds(column)
            except WireError as error:
                yield "statistics", f"those of column {name!r} cannot be read: {error}"
                continue
            counted = self._values[name]
            if bounds.values == 0 and not bounds.may_have_nulls and not self._has_checksums:
                continue  # Hive 3.1.3's minor compaction leaves the statistics of all columns empty
            if bounds.values is not None and bounds.values != counted:
                yield "statistics", f"column {name!r} has {counted} values, by its statistics {bounds.values}"
            elif bounds.low is not None and name in self._low and self._low[name] < bounds.low:
                yield "statistics", f"column {name!r} has {self._low[name]!r}, below its minimum {bounds.low!r}"
            elif bounds.high is not None and name in self._high and self._high[name] > bounds.high:
                yield "statistics", f"column {name!r} has {self._high[name]!r}, above its maximum {bounds.high!r}"
