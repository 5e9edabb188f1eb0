"""Numbers with the noun that they count, for messages."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`"1 row"`, `"2,000 rows"`.

    Args:
        number: How many.
        noun: What is counted, in the singular.
        plural: Its plural, where that is not the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
