"""Numbers with the noun that they count."""

from __future__ import annotations

import pytest

from hive_ingest.plurals import counted


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2_000, ("row",), "2,000 rows"),
        (1, ("folder or file", "folders and files"), "1 folder or file"),
        (2, ("folder or file", "folders and files"), "2 folders and files"),
    ],
)
def test_a_noun_is_in_the_singular_after_1_alone(number: int, nouns: tuple[str, ...], text: str) -> None:
    assert counted(number, *nouns) == text
