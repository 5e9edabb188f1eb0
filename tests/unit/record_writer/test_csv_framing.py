"""CSV is divided into the same records wherever its quotes lie in the words and parts that are looked at together."""

from __future__ import annotations

import itertools

import pytest

from hive_ingest.record_writer import CsvFraming
from hive_ingest.record_writer.text.blocks import SCAN_BYTES

FRAMING = CsvFraming(b",", b'"')
#: So much that each of its quotes and newlines lies at the edge of a word of 64 bytes, and at that of a part, once.
PADDINGS = [*range(40, 70), *range(SCAN_BYTES - 20, SCAN_BYTES + 2)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_quotes_at_the_edge_of_a_word_divide_text_as_elsewhere(padding, end):
    records = [b"x" * padding + b',"a\n""b",c' + end, b'"","\n""",' + end, b'd,e,"f"' + end]
    found = FRAMING.whole_records(b"".join(records))
    assert found.ends.tolist() == list(itertools.accumulate(map(len, records)))
    assert found.is_regular
    assert found.inner_newlines().tolist() == [1, 2, 2]


@pytest.mark.parametrize("padding", PADDINGS)
def test_a_misplaced_quote_at_the_edge_of_a_word_is_seen(padding):
    records = [b"x" * padding + b',5" pipe\n', b'"a"b,c\n', b"d,e\n"]
    found = FRAMING.whole_records(b"".join(records))
    assert found.ends.tolist() == list(itertools.accumulate(map(len, records)))
    assert not found.is_regular
