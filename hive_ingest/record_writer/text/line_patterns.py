"""Records that are separated by what a regular expression matches (Java: `withLineDelimiterPattern`)."""

from __future__ import annotations

import re
from typing import Final

from hive_ingest.errors import ConfigurationError

#: What is matched at the end of a part of a stream may depend on so many bytes that follow.
LOOKAHEAD_BYTES: Final = 4096


class LinePattern:
    """Divides text into records. Has no state.

    A match that is empty separates nothing. In a stream, a delimiter and what the expression looks at after it have at
    most `LOOKAHEAD_BYTES`.

    Args:
        pattern: The regular expression, in ASCII; it is applied to bytes.

    Raises:
        ConfigurationError: It is not a regular expression, or matches the empty text.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = re.compile(pattern.encode("ascii"))
        except (UnicodeEncodeError, re.error) as error:
            raise ConfigurationError(
                f"line_delimiter_pattern={pattern!r} is not a regular expression of Python in ASCII: {error}"
            ) from error
        if self._pattern.fullmatch(b""):
            raise ConfigurationError(
                f"line_delimiter_pattern={pattern!r} matches the empty text: it must match what is between two records"
            )

    def split(self, text: bytes, *, is_last: bool) -> tuple[list[bytes], bytes]:
        """The whole records, and the text after them.

        Args:
            text: The text; a record begins at its start.
            is_last: Whether the text ends here, so that its end ends a record, too.
        """
        records: list[bytes] = []
        start = 0
        limit = len(text) if is_last else len(text) - LOOKAHEAD_BYTES
        for found in self._pattern.finditer(text):
            if found.end() > limit:
                break
            if found.end() > found.start():
                records.append(text[start : found.start()])
                start = found.end()
        if is_last and start < len(text):
            records.append(text[start:])
            start = len(text)
        return records, text[start:]
