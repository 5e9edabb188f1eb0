"""Routing of rows to groups: one group for each (partition, bucket) in a batch.

Vectorised: partition values are dictionary-encoded, so Python sees each distinct value once; a single `take` brings
the rows of a batch into group order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_ingest.acid import EXACT_KINDS, bucket_ids, escape_path_name, text_of_value
from hive_ingest.arrow_arrays import number_array, numbers_of
from hive_ingest.errors import SerializationError, UnsupportedFeature
from hive_ingest.model import DEFAULT_PARTITION_NAME, Table
from hive_ingest.schema import HiveType, parse_type

#: Longest file name of the common file systems (ext4, xfs, HDFS), in bytes.
_MAX_NAME_BYTES = 255
#: Bound on combined codes, far below the limit of 64 bits.
_MAX_CARDINALITY = 1 << 40

#: The text of one partition value, None for the default partition.
PartitionValues = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The destination of rows: the texts of all partition keys (None: the default partition), and the bucket."""

    partition: PartitionValues
    bucket: int


@dataclass(frozen=True, slots=True)
class RoutedBatch:
    """A batch of the data columns in group order: group `keys[i]` has rows `offsets[i]` to `offsets[i + 1]`."""

    batch: pa.RecordBatch
    keys: tuple[GroupKey, ...]
    offsets: tuple[int, ...]


def check_partition_type(name: str, type_: HiveType) -> None:
    """Raises UnsupportedFeature for a partition key whose values have no exact text."""
    if type_.kind not in EXACT_KINDS:
        raise UnsupportedFeature(
            f"partition key {name!r} is of type {type_}, which has no exact text form for a folder name: "
            f"use one of {', '.join(sorted(EXACT_KINDS))}"
        )


class Router:
    """Routes the batches of one table. Pure: several threads may call `route` at once.

    Batches have the table's data columns, then the dynamic partition columns, in table order.
    `static_values` are the texts of the leading partition keys; `writer_bucket` is the bucket number of an
    unbucketed table (each parallel writer owns one).
    """

    def __init__(self, table: Table, static_values: Sequence[str] = (), *, writer_bucket: int = 0) -> None:
        self._num_columns = len(table.columns)
        keys = table.partition_keys
        self._static: PartitionValues = tuple(
            _folder_value(value, key.name) for key, value in zip(keys, static_values, strict=False)
        )
        self._keys = keys[len(self._static) :]
        self._key_types = [parse_type(key.type) for key in self._keys]
        for key, type_ in zip(self._keys, self._key_types, strict=True):
            check_partition_type(key.name, type_)
        self._writer_bucket = writer_bucket
        self._num_buckets = table.num_buckets if table.is_bucketed else 0
        names = [column.name for column in table.columns]
        self._bucket_at = [names.index(name.lower()) for name in table.bucket_columns] if self._num_buckets else []
        self._bucket_types = [table.columns[i].type for i in self._bucket_at]

    def route(self, batch: pa.RecordBatch) -> RoutedBatch:
        """Raises SerializationError for a partition value that no folder can be named after."""
        has_keys = batch.num_columns > self._num_columns
        data = batch.select(range(self._num_columns)) if has_keys else batch
        if batch.num_rows == 0:
            return RoutedBatch(data, (), (0,))
        if not self._keys and not self._num_buckets:
            return RoutedBatch(data, (GroupKey(self._static, self._writer_bucket),), (0, batch.num_rows))
        codes, cardinality, key_of = self._codes(batch)
        if cardinality == 1:
            return RoutedBatch(data, (key_of(0),), (0, batch.num_rows))
        order, starts = _group(codes, cardinality)
        keys = tuple(key_of(int(order[start])) for start in starts)
        return RoutedBatch(data.take(number_array(order)), keys, (*map(int, starts), batch.num_rows))

    def group_hashes(self, batch: pa.RecordBatch) -> pa.Array:
        """A 64-bit hash for each row, the same for all rows of a group and in every process."""
        if batch.num_rows == 0:
            return number_array(np.empty(0, np.int64))
        codes, _, key_of = self._codes(batch)
        _, first_rows, group = np.unique(codes, return_index=True, return_inverse=True)
        hashes = np.array([_stable_hash(key_of(int(row))) for row in first_rows], np.int64)
        return number_array(hashes[group])

    def _codes(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], int, Callable[[int], GroupKey]]:
        """A code of each row's group, a bound on the codes, and the key of a row."""
        encoded = [
            _encode(batch.column(self._num_columns + i), key.name, type_)
            for i, (key, type_) in enumerate(zip(self._keys, self._key_types, strict=True))
        ]
        buckets = self._buckets(batch)
        digits: list[tuple[npt.NDArray[Any], int]] = [(codes, len(texts)) for codes, texts in encoded]
        if buckets is not None:
            digits.append((buckets, self._num_buckets))

        def key_of(row: int) -> GroupKey:
            values = tuple(texts[codes[row]] for codes, texts in encoded)
            return GroupKey(self._static + values, self._writer_bucket if buckets is None else int(buckets[row]))

        return *_combine(digits, batch.num_rows), key_of

    def _buckets(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32] | None:
        if not self._num_buckets:
            return None
        columns = [batch.column(i) for i in self._bucket_at]
        return bucket_ids(columns, self._bucket_types, self._num_buckets)


def _stable_hash(key: GroupKey) -> int:
    digest = hashlib.blake2b(repr((key.partition, key.bucket)).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


def _combine(digits: Sequence[tuple[npt.NDArray[Any], int]], num_rows: int) -> tuple[npt.NDArray[np.int64], int]:
    """One integer for each row from several columns of codes, and a bound on how many there are."""
    codes, cardinality = np.zeros(num_rows, np.int64), 1
    for column, size in digits:
        if cardinality * size > _MAX_CARDINALITY:
            distinct, codes = np.unique(codes, return_inverse=True)
            cardinality = len(distinct)
        codes, cardinality = codes * size + column, cardinality * size
    return codes, cardinality


def _group(codes: npt.NDArray[np.int64], cardinality: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A stable row order that groups equal codes, and the start of each run."""
    small = codes.astype(np.uint16) if cardinality <= 1 << 16 else codes  # numpy uses a radix sort for 16 bits
    order = np.argsort(small, kind="stable")
    ordered = small[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, starts


def _encode(column: pa.Array, name: str, type_: HiveType) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """The codes of a partition column and the distinct texts of the codes; null and "" have the same."""
    encoded = column.dictionary_encode()
    found = [_folder_value(text_of_value(value, type_), name) for value in encoded.dictionary.to_pylist()]
    indices = numbers_of(encoded.indices, np.int32, null=len(found))
    if encoded.indices.null_count:
        found.append(None)
    distinct: dict[str | None, int] = {}
    mapping = np.array([distinct.setdefault(text, len(distinct)) for text in found] or [0], np.int64)
    return mapping[indices], list(distinct) or [None]


def _folder_value(text: str, name: str) -> str | None:
    """The text that names the partition; None for the default partition."""
    if text in ("", DEFAULT_PARTITION_NAME):
        return None
    folder = f"{escape_path_name(name)}={escape_path_name(text)}"
    if len(folder.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        raise SerializationError(
            f"a value of partition key {name!r} makes a folder name of more than {_MAX_NAME_BYTES} bytes "
            f"({text[:40]!r}…): shorten the value or partition by another column"
        )
    return text
