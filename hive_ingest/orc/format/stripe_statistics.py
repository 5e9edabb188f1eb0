"""The statistics of a file's stripes: `StripeStatistics` messages, encoded (orc_proto.proto of Apache ORC)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.format.column_statistics import merge_column_statistics, with_short_texts
from hive_ingest.orc.format.protobuf import WireError, as_bytes, bytes_field, read_fields, scan_fields
from hive_ingest.orc.format.tail import OrcTail, read_stripe_statistics

#: No text in statistics up to this size is long.
_SHORT_BYTES = 1024


def stripe_statistics(source: pa.NativeFile, tail: OrcTail, path: str) -> list[bytes] | None:
    """An encoded `StripeStatistics` for each stripe; None where the writer left some out.

    Raises CorruptFile, StreamingIOFailure.
    """
    section = read_stripe_statistics(source, tail, path)
    try:
        found = [field.as_bytes for field in read_fields(section) if field.number == 1]
    except WireError as error:
        raise corrupt_statistics(path, error) from error
    return found if len(found) == len(tail.footer.stripes) else None


def merged_statistics(stripes: Sequence[bytes], columns: int) -> tuple[bytes, ...]:
    """Each column's statistics over several `StripeStatistics`; nothing where they do not cover all columns.

    Raises WireError.
    """
    parts = [
        [as_bytes(number, value) for number, value, _, _ in scan_fields(message) if number == 1] for message in stripes
    ]
    if any(len(part) != columns for part in parts):
        return ()
    return tuple(map(merge_column_statistics, zip(*parts, strict=True)))


def short_statistics(stripe: bytes) -> bytes:
    """`StripeStatistics` without long texts: they would be in memory wherever the file is open. Raises WireError."""
    if len(stripe) <= _SHORT_BYTES:
        return stripe
    return b"".join(
        bytes_field(1, with_short_texts(field.as_bytes)) if field.number == 1 else field.raw
        for field in read_fields(stripe)
    )


def corrupt_statistics(path: str, error: WireError) -> CorruptFile:
    """The error for statistics that are not a message."""
    return CorruptFile(f"{path!r} has statistics that cannot be read: {error}. Write the file again")
