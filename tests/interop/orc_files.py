"""What ORC files say about themselves, as far as Hive's dump does not tell it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hive_ingest.storage.orc_codec import unpack
from hive_ingest.storage.orc_protobuf import read_fields
from hive_ingest.storage.orc_tail import read_tail

_WRITER_TIMEZONE = 3  # of orc_proto.proto's StripeFooter


def writer_timezones(path: Path) -> set[str]:
    """Those that the stripe footers name."""
    with pa.OSFile(str(path)) as source:
        tail = read_tail(source, str(path))
        codec, block_size = tail.postscript.codec, tail.postscript.block_size
        found = set()
        for stripe in tail.footer.stripes:
            start = stripe.offset + stripe.index_length + stripe.data_length
            footer = unpack(source.read_at(stripe.footer_length, start), codec, block_size)
            found |= {f.as_bytes.decode() for f in read_fields(footer) if f.number == _WRITER_TIMEZONE}
    return found
