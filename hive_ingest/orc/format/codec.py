"""ORC's compressed sections: a sequence of chunks, each after a header of three bytes.

The header is little-endian: its lowest bit marks a chunk that is not compressed, the rest is the length.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate

import pyarrow as pa

from hive_ingest.orc.format.protobuf import WireError, read_varint

_HEADER_BYTES = 3
#: A chunk's length has 23 bits, and Hive's readers refuse larger blocks.
MAX_BLOCK_SIZE = 1 << 23
#: That of the ORC library where speed matters more than size. zlib's own default takes three times as long.
_ZLIB_LEVEL = zlib.Z_BEST_SPEED + 1
#: A shorter block is stored: a compressor or decompressor takes longer to create than such a block to write.
_MIN_COMPRESSED_BYTES = 1024


class Codec(enum.IntEnum):
    """ORC's `CompressionKind`; LZO and BROTLI are recognised, but cannot be decompressed here."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


def _inflate(chunk: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    data = stream.decompress(chunk, limit + 1)
    if not stream.eof:
        raise WireError("a zlib chunk is cut off or longer than its block")
    return data


def _unsnappy(chunk: bytes, limit: int) -> bytes:
    size, _ = read_varint(chunk, 0)
    if size > limit:
        raise WireError("a snappy chunk is longer than its block")
    return _native(chunk, size, "snappy")


def _native(chunk: bytes, size: int, codec: str) -> bytes:
    data: bytes = pa.decompress(chunk, decompressed_size=size, codec=codec, asbytes=True)
    return data


def _unlz4(chunk: bytes, limit: int) -> bytes:
    # pyarrow needs the decompressed size, which a raw lz4 block does not have.
    size = _lz4_size(chunk)
    if size > limit:
        raise WireError("an lz4 chunk is longer than its block")
    return _native(chunk, size, "lz4_raw")


def _lz4_size(chunk: bytes) -> int:
    size = at = 0
    while at < len(chunk):
        token = chunk[at]
        literals, at = _lz4_length(chunk, at + 1, token >> 4)
        at += literals
        size += literals
        if at == len(chunk):
            return size
        match, at = _lz4_length(chunk, at + 2, token & 15)
        size += match + 4
    raise WireError("an lz4 chunk is cut off")


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    more = length == 15
    while more:
        if at >= len(chunk):
            raise WireError("an lz4 chunk is cut off")
        length += chunk[at]
        more = chunk[at] == 255
        at += 1
    return length, at


def _unzstd(chunk: bytes, limit: int) -> bytes:
    size = _zstd_size(chunk)
    if size is not None:  # as nearly always
        if size > limit:
            raise WireError("a zstd chunk is longer than its block")
        return _native(chunk, size, "zstd")
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        data: bytes = stream.read(limit + 1)
    return data


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: By the two highest bits of a frame's descriptor: the length of the size, and what is added to it (RFC 8878, 3.1.1).
_ZSTD_SIZES = ((1, 0), (2, 256), (4, 0), (8, 0))
_ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)


def _zstd_size(chunk: bytes) -> int | None:
    """The size of the frame's content; None where the header does not say it."""
    if len(chunk) < 5 or not chunk.startswith(_ZSTD_MAGIC):
        return None
    descriptor = chunk[4]
    is_single_segment = descriptor >> 5 & 1
    if not descriptor >> 6 and not is_single_segment:
        return None
    length, added = _ZSTD_SIZES[descriptor >> 6]
    start = 5 + (not is_single_segment) + _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    found = chunk[start : start + length]
    return int.from_bytes(found, "little") + added if len(found) == length else None


def _deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(_ZLIB_LEVEL, wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def _arrow_compressor(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        packed: bytes = pa.compress(data, codec=codec, asbytes=True)
        return packed

    return compress


_DECOMPRESSORS: dict[Codec, Callable[[bytes, int], bytes]] = {
    Codec.ZLIB: _inflate,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
_COMPRESSORS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.ZLIB: _deflate,
    Codec.SNAPPY: _arrow_compressor("snappy"),
    Codec.LZ4: _arrow_compressor("lz4_raw"),
    Codec.ZSTD: _arrow_compressor("zstd"),
}


def can_unpack(codec: Codec) -> bool:
    """Whether `unpack` knows the codec."""
    return codec == Codec.NONE or codec in _DECOMPRESSORS


def unpack(section: bytes, codec: Codec, block_size: int) -> bytes:
    """Decode a section. Raises only WireError, whatever the bytes are."""
    if codec == Codec.NONE:
        return section
    decompress = _DECOMPRESSORS.get(codec)
    if decompress is None:
        raise WireError(f"{codec.name} cannot be decompressed here")
    chunks, at = [], 0
    while at < len(section):
        header = int.from_bytes(section[at : at + _HEADER_BYTES], "little")
        at += _HEADER_BYTES
        length = header >> 1
        if at + length > len(section):
            raise WireError("a compressed chunk is cut off")
        chunk = section[at : at + length]
        chunks.append(chunk if header & 1 else _decompressed(decompress, chunk, block_size))
        at += length
    return b"".join(chunks)


def unpack_all(sections: Sequence[bytes], codec: Codec, block_size: int) -> list[bytes]:
    """Decode many small sections. Raises only WireError, without saying which of them is wrong.

    Those of zstd take one call of its library where that is possible: each call makes a decompressor, which takes
    longer than to decompress a small section.
    """
    frames = [_only_frame(section, block_size) for section in sections] if codec == Codec.ZSTD else []
    found = [frame for frame in frames if frame is not None]
    if len(found) < len(sections) or len(found) < 2:
        return [unpack(section, codec, block_size) for section in sections]
    ends = list(accumulate(size for _, size in found))
    data = _decompressed(
        lambda chunk, size: _native(chunk, size, "zstd"), b"".join(frame for frame, _ in found), ends[-1]
    )
    return [data[end - size : end] for end, (_, size) in zip(ends, found, strict=True)]


def _only_frame(section: bytes, block_size: int) -> tuple[bytes, int] | None:
    """A section that is one compressed chunk: its zstd frame, and the size of its content; None for any other."""
    header = int.from_bytes(section[:_HEADER_BYTES], "little")
    frame = section[_HEADER_BYTES:]
    size = _zstd_size(frame)
    if header & 1 or header >> 1 != len(frame) or size is None or size > block_size:
        return None
    return frame, size


def _decompressed(decompress: Callable[[bytes, int], bytes], chunk: bytes, block_size: int) -> bytes:
    try:
        data = decompress(chunk, block_size)
    except (zlib.error, OSError, ValueError, pa.ArrowException) as error:
        raise WireError(f"a compressed chunk cannot be decompressed ({error})") from error
    if len(data) > block_size:
        raise WireError("a compressed chunk is longer than its block")
    return data


def pack(content: bytes, codec: Codec, block_size: int) -> bytes:
    """Encode a section."""
    if 0 < len(content) < _MIN_COMPRESSED_BYTES and codec != Codec.NONE:
        return _STORED_HEADERS[len(content)] + content
    return b"".join(packed_chunks(content, codec, block_size))


def packed_chunks(content: bytes, codec: Codec, block_size: int) -> list[bytes]:
    """The chunks of a section or stream, each of one block with its header.

    A block that is short, or that compression does not shorten, is stored uncompressed.
    """
    if codec == Codec.NONE:
        return [content]
    blocks = (content[at : at + block_size] for at in range(0, len(content), block_size))
    compress = _COMPRESSORS[codec]
    return [_chunk(block, compress(block) if len(block) >= _MIN_COMPRESSED_BYTES else block) for block in blocks]


def store(content: bytes, codec: Codec, block_size: int) -> bytes:
    """Like `pack`, without compression."""
    if codec == Codec.NONE:
        return content
    blocks = (content[at : at + block_size] for at in range(0, len(content), block_size))
    return b"".join(_chunk(block, block) for block in blocks)


def _chunk(original: bytes, packed: bytes) -> bytes:
    if len(packed) < len(original):
        return (len(packed) << 1).to_bytes(_HEADER_BYTES, "little") + packed
    return _stored_header(len(original)) + original


def _stored_header(length: int) -> bytes:
    """The header of a chunk that is not compressed."""
    return (length << 1 | 1).to_bytes(_HEADER_BYTES, "little")


#: By the length of the chunk. Most streams of a small stripe are as short.
_STORED_HEADERS = tuple(map(_stored_header, range(_MIN_COMPRESSED_BYTES)))
