"""Streams of bits are read as the ORC library writes them, and written as it reads them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.orc.format.bit_streams import read_bits, write_bits
from hive_ingest.orc.format.protobuf import WireError
from hive_ingest.orc.format.stripe_streams import DATA, packed_stripe_footer, stripe_streams
from hive_ingest.orc.format.tail import read_tail

_BITS = st.lists(st.tuples(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(1, 400)), max_size=8).map(
    lambda runs: [bit for pattern, repeats in runs for bit in pattern * repeats]
)


@given(bits=_BITS)
def test_bits_are_read_as_they_were_written(bits: list[bool]) -> None:
    stream = write_bits(np.array(bits, np.uint8))
    assert read_bits(stream, len(bits)).tolist() == [int(bit) for bit in bits]


@given(bits=_BITS.filter(bool))
def test_bits_of_the_orc_library_are_read(bits: list[bool]) -> None:
    sink = io.BytesIO()
    orc.write_table(pa.table({"b": bits}), sink, compression="uncompressed")
    data = sink.getvalue()
    tail = read_tail(pa.BufferReader(data), "a.orc")
    (stripe,) = tail.footer.stripes
    start, end = stripe_streams(packed_stripe_footer(memoryview(data), stripe), stripe).streams[1, DATA]
    assert read_bits(data[start:end], len(bits)).tolist() == [int(bit) for bit in bits]


@pytest.mark.parametrize(
    ("stream", "count"),
    [
        (b"", 1),
        (b"\xff\x80", 9),  # too few
        (b"\xfe\x80\x80", 8),  # too many
        (b"\x00\x80", 8),  # a run is longer
        (b"\xfe\x80", 16),  # cut off
        (b"\x00", 24),
        (b"\xff\x80\xff", 8),
    ],
)
def test_a_stream_of_another_length_is_an_error(stream: bytes, count: int) -> None:
    with pytest.raises(WireError, match="more or fewer"):
        read_bits(stream, count)
