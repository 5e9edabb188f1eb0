"""What lies under a hidden name in place of a large file that is not published yet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, Self

from hive_ingest.errors import StreamingIOFailure

#: The content type of records.
RECORD_TYPE: Final = "application/x-hive-ingest-upload"


@dataclass(frozen=True, slots=True)
class Record:
    """What any process needs to publish the file, as JSON. A service adds the fields."""

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parsed(cls, path: str, data: bytes) -> Self:
        """Raises StreamingIOFailure."""
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise StreamingIOFailure(f"{path!r} is not the record of an upload: {error}") from error
