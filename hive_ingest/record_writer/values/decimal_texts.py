"""Texts of decimals that must not be given to Arrow.

Arrow moves the point of a decimal by a table of the powers of ten up to 10**38, and does not check that the power is in
it: `1e-99999999` ends the process, and `1e-50` is divided by whatever is behind the table.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.record_writer.bad_records import Doubt

#: Up to 28 digits after the point and an exponent of one digit stay inside of the table, whatever the scale is. More
#: than ten digits are no exponent to Arrow; they are more often the end of a UUID.
_EXPONENTS: Final = tuple(
    # With the letter first, which is looked for fast, and then what is before it.
    re.compile(letter + rb"-(?<=[0-9.,]" + letter + rb"-)0*[0-9]{2,10}(?![0-9A-Za-z-])")
    for letter in (b"e", b"E")
)
_FRACTIONS: Final = {point: re.compile(re.escape(point.encode()) + rb"[0-9]{29}") for point in ".,"}
_UNSAFE: Final = r"[eE]-0*[0-9]{2}|\.[0-9]{29}"


def is_safe_block(text: bytes) -> bool:
    """Whether Arrow's readers can read the decimals of records."""
    try:
        check_block(text)
    except Doubt:
        return False
    return True


def check_block(text: bytes, decimal_point: str = ".") -> None:
    """Raises Doubt for records one of which may have a decimal that Arrow's readers must not read."""
    if _FRACTIONS[decimal_point].search(text):
        raise Doubt("a number with many digits after the point")
    if any(pattern.search(text) for pattern in _EXPONENTS):
        raise Doubt("a number with a negative exponent")


def check_texts(texts: pa.Array) -> None:
    """Raises Doubt for texts one of which Arrow must not cast to a decimal."""
    if pc.any(pc.match_substring_regex(texts, _UNSAFE)).as_py():
        raise Doubt("a number with a negative exponent, or with many digits after the point")
