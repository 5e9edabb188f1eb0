"""Java Hive Streaming V2 (hive-streaming 3.1.3) in the process of a real Hive: one connection, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self

from tests.interop.hive import RealHive

Format = Literal["json", "delimited"]


class JavaStream:
    """Java's `HiveStreamingConnection` on `table` ("db.table"), which opens `batch` transactions at a time.

    Its writer is `StrictJsonWriter`, or `StrictDelimitedInputWriter` with a comma. What it flushes is on disk at once.
    """

    def __init__(self, hive: RealHive, table: str, *, batch: int, format: Format = "delimited") -> None:
        database, _, name = table.partition(".")
        self._hive, self._name = hive, {"database": database, "table": name}
        self._call("open", batch=batch, format=format)

    def begin(self) -> None:
        """The next transaction of the batch, or the first of the next batch."""
        self._call("begin")

    def write(self, *records: str) -> None:
        self._call("write", records=records)

    def flush(self) -> None:
        """Footer and side file, as before a commit, or when memory is short."""
        self._call("flush")

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")

    def committed(self, records: Sequence[str]) -> None:
        """One whole transaction."""
        self.begin()
        self.write(*records)
        self.commit()

    def close(self) -> None:
        """Closes the files; transactions of the batch that are left are aborted."""
        self._call("close")

    def _call(self, step: str, **arguments: object) -> None:
        self._hive.call(f"stream_{step}", **self._name, **arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
