"""Hive's text form of a compaction's properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.metastore_client.compaction_values import from_stringable_map, to_stringable_map


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, None),
        ({"a": "b"}, "1:1:a1:b"),
        ({"compactor.threads": "2", "": "x:y"}, "2:17:compactor.threads1:20:3:x:y"),
        ({"🪁": "é"}, "1:2:🪁1:é"),  # Java counts two for the kite
    ],
)
def test_properties_have_the_text_that_hive_gives_them(properties: dict[str, str], text: str | None) -> None:
    assert to_stringable_map(properties) == text
    assert from_stringable_map(text) == properties


@given(st.dictionaries(st.text(), st.text()))
def test_properties_survive_their_text(properties: dict[str, str]) -> None:
    assert from_stringable_map(to_stringable_map(properties)) == properties
