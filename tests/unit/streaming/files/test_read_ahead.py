"""A stream that is read ahead gives the same bytes and errors as without."""

from __future__ import annotations

import io
import threading

import pytest

from hive_ingest.streaming.files.read_ahead import ReadAhead

BLOCK = 2 << 20


def test_blocks_come_in_order_and_then_nothing():
    content = bytes(range(256)) * (3 * BLOCK // 256) + b"end"
    stream = ReadAhead(io.BytesIO(content))
    blocks = [stream.read(10), *iter(lambda: stream.read(BLOCK), b"")]
    assert b"".join(blocks) == content
    assert stream.read(BLOCK) == b""
    stream.close()


def test_small_reads_take_no_thread():
    """Positions of thousands of files are looked up before the first is read."""
    stream = ReadAhead(io.BytesIO(b"x" * 3 * BLOCK))
    before = threading.active_count()
    for _ in range(3):
        stream.read(BLOCK // 2)
    assert threading.active_count() == before
    stream.close()


def test_an_error_comes_in_place_of_its_block():
    class Damaged(io.BytesIO):
        def read(self, count=-1):
            if self.tell() >= 2 * BLOCK:
                raise OSError("damaged")
            return super().read(count)

    stream = ReadAhead(Damaged(b"x" * 3 * BLOCK))
    assert len(stream.read(BLOCK)) == len(stream.read(BLOCK)) == BLOCK
    with pytest.raises(OSError, match="damaged"):
        stream.read(BLOCK)
    stream.close()
