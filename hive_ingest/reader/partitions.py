"""Partitions: their values in the keys' types, and which of them a filter needs."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from hive_ingest.acid import padded, partition_name
from hive_ingest.errors import InvalidOperation
from hive_ingest.model import DEFAULT_PARTITION_NAME, Column, Partition, Table
from hive_ingest.schema import arrow_type, parse_type


@dataclass(frozen=True, slots=True)
class PartitionToRead:
    """A folder of rows. `name` is "k=v/…" (empty for an unpartitioned table), `values` Arrow scalars by key."""

    name: str
    location: str
    values: Mapping[str, Any]


def whole_table(table: Table) -> PartitionToRead:
    """An unpartitioned table as its only partition."""
    return PartitionToRead("", table.location, {})


def typed_partitions(table: Table, partitions: Iterable[Partition]) -> list[PartitionToRead]:
    """In the order of their names. Raises InvalidOperation when a value is not of its key's type."""
    keys = table.partition_keys
    found = [
        PartitionToRead(
            partition_name([key.name for key in keys], partition.values),
            partition.location,
            {key.name: partition_value(key, text) for key, text in zip(keys, partition.values, strict=True)},
        )
        for partition in partitions
    ]
    return sorted(found, key=lambda partition: partition.name)


def partition_value(key: Column, text: str) -> Any:
    """The value as an Arrow scalar of the key's type; null for `__HIVE_DEFAULT_PARTITION__`."""
    type_ = arrow_type(key.type)
    if text == DEFAULT_PARTITION_NAME:
        return pa.scalar(None, type_)
    try:
        return pa.scalar(padded(text, parse_type(key.type))).cast(type_)
    except pa.ArrowException as error:
        raise InvalidOperation(
            f"the partition value {text!r} of {key.name} is not of type {key.type}: drop the partition, or alter the "
            "key's type"
        ) from error


def prune(partitions: Sequence[PartitionToRead], schema: pa.Schema, expression: pc.Expression) -> list[PartitionToRead]:
    """Those that may hold a row for which `expression` is true, in order; nothing is listed or opened.

    Each partition is made a dataset fragment with what is known of its rows, and Arrow simplifies the expression
    by that. The fragments' paths are mere numbers: no file is ever read through them.
    """
    # Not before it is needed: it loads pandas, where that is installed, for longer than all the rest of this package.
    import pyarrow.dataset as pads

    file_format = pads.IpcFileFormat()
    nowhere = pafs.LocalFileSystem()
    fragments = [
        file_format.make_fragment(str(i), filesystem=nowhere, partition_expression=_guarantee(partition.values))
        for i, partition in enumerate(partitions)
    ]
    dataset = pads.FileSystemDataset(fragments, schema, file_format)
    kept = sorted(int(fragment.path) for fragment in dataset.get_fragments(filter=expression))
    return [partitions[i] for i in kept]


def _guarantee(values: Mapping[str, Any]) -> pc.Expression:
    known = [pc.field(name) == value if value.is_valid else pc.field(name).is_null() for name, value in values.items()]
    return functools.reduce(operator.and_, known, pc.scalar(True))
