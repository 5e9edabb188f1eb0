"""Every line of a block is one object: the whole block is checked at once, with the same result as line by line."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.record_writer.json import blocks as json_blocks

LINES = st.sampled_from(
    [b"{}", b'{"a":1}', b"{}\r", b'{"a":1}\r', b"{", b"}", b"", b"\r", b"{}{}", b" {}", b"{} ", b"[]"]
)


@given(lines=st.lists(LINES, min_size=1, max_size=12), scan=st.integers(1, 20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_block_is_accepted_if_each_of_its_lines_is(
    lines: list[bytes], scan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_blocks, "SCAN_BYTES", scan)
    stripped = [line.removesuffix(b"\r") for line in lines]
    expected = all(line[:1] == b"{" and line[-1:] == b"}" for line in stripped)
    assert json_blocks.is_one_object_a_line(b"\n".join([*lines, b""])) == expected
