"""The bucket property of a row: bucket number and statement id in one 32-bit number.

Version 1, from the top: 3 bits version, 1 reserved, 12 bucket, 4 reserved, 12 statement
(Hive: `BucketCodec.V1`). It is the column `bucket` of an ACID file and the middle of ROW__ID.
"""

from __future__ import annotations

from dataclasses import dataclass

from hive_ingest.errors import ConfigurationError, CorruptFile

#: Largest bucket number and largest statement id: both have 12 bits.
MAX_BUCKET_ID = 4095
MAX_STATEMENT_ID = 4095

_VERSION = 1
_VERSION_SHIFT, _BUCKET_SHIFT = 29, 16
_TWELVE_BITS = 0xFFF


@dataclass(frozen=True, slots=True)
class BucketProperty:
    """A decoded bucket property. `statement_id` is 0 also if the writer had none."""

    bucket_id: int
    statement_id: int


def encode_bucket(bucket_id: int, statement_id: int = 0) -> int:
    """536870912 for bucket 0, statement 0. Raises ConfigurationError when a number needs more than 12 bits."""
    _check("bucket number", bucket_id, MAX_BUCKET_ID, "use fewer buckets or writers")
    _check("statement id", statement_id, MAX_STATEMENT_ID, "use fewer writers in one transaction")
    return _VERSION << _VERSION_SHIFT | bucket_id << _BUCKET_SHIFT | statement_id


def decode_bucket(value: int) -> BucketProperty:
    """The reverse of `encode_bucket`. Raises CorruptFile for a version other than 1.

    Version 0 (tables of Hive 2) is the plain bucket number; such tables must be compacted by Hive 3 first.
    """
    version = value >> _VERSION_SHIFT & 0b111
    if version != _VERSION:
        raise CorruptFile(f"bucket property {value} has version {version}, expected 1: compact the table with Hive 3")
    return BucketProperty(value >> _BUCKET_SHIFT & _TWELVE_BITS, value & _TWELVE_BITS)


def _check(what: str, value: int, largest: int, remedy: str) -> None:
    if not 0 <= value <= largest:
        raise ConfigurationError(f"{what} {value} is out of range (0 to {largest}): {remedy}")
