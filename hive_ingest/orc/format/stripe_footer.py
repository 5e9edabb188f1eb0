"""Checks the footer of a stripe before the ORC library uses it.

The library trusts it: a stream longer than its stripe, or a dictionary larger than its column, makes it read out of
bounds or allocate without a limit. Files with checksums do not need this.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.format.codec import unpack
from hive_ingest.orc.format.columns import ColumnType, OrcKind, column_types
from hive_ingest.orc.format.protobuf import WireError, int_fields, read_fields
from hive_ingest.orc.format.tail import OrcTail, Stripe
from hive_ingest.storage import io_errors

#: ORC's `ColumnEncoding.Kind`: DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2.
_ENCODINGS = range(4)
DICTIONARIES = frozenset({1, 3})
_TEXTS = frozenset({OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR})
#: Field numbers of `Stream` and `ColumnEncoding`.
_COLUMN, _LENGTH = 2, 3
_KIND, _DICTIONARY_SIZE = 1, 2


def check_stripe_footer(source: pa.NativeFile, tail: OrcTail, number: int, path: str) -> None:
    """Raises CorruptFile for an impossible stripe footer, StreamingIOFailure."""
    if tail.footer.has_encryption:  # columns are missing from the plain part; pyarrow refuses it later
        return
    stripe = tail.footer.stripes[number]
    with io_errors("read", path):
        source.seek(stripe.offset + stripe.index_length + stripe.data_length)
        section = source.read(stripe.footer_length)
    try:
        _check(
            unpack(section, tail.postscript.codec, tail.postscript.block_size), stripe, column_types(tail.footer.types)
        )
    except WireError as error:
        raise CorruptFile(f"stripe {number} of {path!r} is damaged: {error}. Restore the file from a copy") from error


def _check(message: bytes, stripe: Stripe, types: tuple[ColumnType, ...]) -> None:
    streams, encodings = [], []
    for field in read_fields(message):
        if field.number == 1:
            streams.append(int_fields(field.as_bytes))
        elif field.number == 2:
            encodings.append(column_encoding(field.as_bytes))
    if any(stream.get(_COLUMN, 0) >= len(types) for stream in streams):
        raise WireError("it has a stream of a column that does not exist")
    if sum(stream.get(_LENGTH, 0) for stream in streams) != stripe.index_length + stripe.data_length:
        raise WireError("its streams are not as long as the stripe")
    if len(encodings) != len(types):
        raise WireError(f"it has encodings for {len(encodings)} columns, but {len(types)} columns")
    repeated = _repeated_columns(types)
    for number, (encoding, type_) in enumerate(zip(encodings, types, strict=True)):
        kind, dictionary_size = encoding
        if kind not in _ENCODINGS or (kind in DICTIONARIES and type_.kind not in _TEXTS):
            raise WireError("a column has an encoding that its type does not have")
        if number not in repeated and dictionary_size > stripe.rows:
            raise WireError("a dictionary has more entries than its column has values")


@lru_cache(maxsize=1024)
def column_encoding(message: bytes) -> tuple[int, int]:
    """The kind of a column's encoding, and the size of its dictionary."""
    fields = int_fields(message)
    return fields.get(_KIND, 0), fields.get(_DICTIONARY_SIZE, 0)


@lru_cache(maxsize=64)
def _repeated_columns(types: tuple[ColumnType, ...]) -> frozenset[int]:
    """Columns that may have several values in a row."""
    found: set[int] = set()
    for number, type_ in enumerate(types):
        if number in found or type_.kind in (OrcKind.LIST, OrcKind.MAP):
            found.update(type_.children)
    return frozenset(found)
