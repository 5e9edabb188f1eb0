"""Compresses the streams of a small stripe that the ORC library has encoded without compression.

The library creates a compressor for every stream of every column, also for those that stay empty. With zstd that takes
ten times as long as encoding a few rows. A small stripe has at most one entry in the row index of each column, so
nothing in it depends on the compressed sizes, and its streams can be compressed afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hive_ingest.orc.format.codec import Codec, pack
from hive_ingest.orc.format.protobuf import WireError, as_bytes, bytes_field, scan_fields
from hive_ingest.orc.format.stripe_streams import INDEXES, ROW_INDEX

#: Rows in memory up to which a stripe counts as small: above, compressing block by block takes as many compressors.
SMALL_STRIPE_BYTES = 512 * 1024
#: Kind, column and bytes of a stream.
Stream = tuple[int, int, bytes | memoryview]
#: Field numbers of `RowIndex` and of `RowIndexEntry`.
_ENTRY, _POSITIONS = 1, 1
#: The first byte of these fields, and of a `RowIndexEntry`'s statistics.
_ENTRY_TAG, _POSITIONS_TAG, _STATISTICS_TAG = 0x0A, 0x0A, 0x12


def compressed_streams(streams: Sequence[Stream], codec: Codec, block_size: int) -> list[Stream]:
    """The streams of a stripe, as they are in a file with compression. Raises WireError."""
    if codec == Codec.NONE:
        return [*streams]
    of_column = Counter(column for kind, column, _ in streams if kind not in INDEXES)
    found: list[Stream] = []
    for kind, column, content in streams:
        data = bytes(content)
        if kind == ROW_INDEX:
            data = _row_index(data, of_column[column])
        elif kind in INDEXES:
            raise WireError(f"it has an index of kind {kind}")
        found.append((kind, column, pack(data, codec, block_size)))
    return found


def _row_index(message: bytes, streams: int) -> bytes:
    """A `RowIndex` with one entry, for a column with that many streams.

    The position in each stream has one more part where the stream is compressed: the start of the block, and the
    position in it. Both are 0 in the first entry, as all other parts are.
    """
    size = len(message) - 2
    # As the library writes it, if it is short: each of the three messages has a length of one byte.
    if 2 < size < 0x80 and message[0] == _ENTRY_TAG and message[1] == size and message[2] == _POSITIONS_TAG:
        end = 4 + message[3]
        positions, statistics = message[4:end], message[end:]
        if statistics[:2] == bytes((_STATISTICS_TAG, (len(statistics) - 2) & 0x7F)) and not any(positions):
            return bytes_field(_ENTRY, bytes_field(_POSITIONS, bytes(len(positions) + streams)) + statistics)
    entries = scan_fields(message)
    if [number for number, _, _, _ in entries] != [_ENTRY]:
        raise WireError("a row index has more than one entry")
    entry = as_bytes(_ENTRY, entries[0][1])
    positions = rest = b""
    for number, value, start, end in scan_fields(entry):
        if number == _POSITIONS:
            positions = as_bytes(number, value)
        else:
            rest += entry[start:end]
    if any(positions):
        raise WireError("a row index does not begin at the start of a stream")
    packed = bytes_field(_POSITIONS, bytes(len(positions) + streams)) if positions else b""
    return bytes_field(_ENTRY, packed + rest)
