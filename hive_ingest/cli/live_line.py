"""The status line on the terminal while `hive-ingest kafka` runs: lag, rows per second, commits, bad messages."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hive_ingest.cli.logs import shows_progress
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from hive_ingest.streaming.kafka import KafkaIngestStats

#: Rows per second are the mean over this time.
WINDOW_SECONDS = 10.0
_REFRESHES_PER_SECOND = 2


@contextmanager
def live_line(stats: Callable[[], KafkaIngestStats]) -> Iterator[None]:
    """Show the line on stderr until the block is left, if that is a terminal.

    Args:
        stats: Returns `KafkaIngest.stats`; called on a thread of the line.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    if not (console.is_terminal and shows_progress()):
        yield
        return
    line = IngestLine()

    def render() -> Text:
        return Text(line.next(stats(), time.monotonic()), no_wrap=True, overflow="ellipsis")

    with Live(
        get_renderable=render, console=console, transient=True, refresh_per_second=_REFRESHES_PER_SECOND, screen=False
    ):
        yield


class RowRate:
    """Rows per second, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def per_second(self, rows: int, now: float) -> float:
        """The mean since the first of the last seconds.

        Args:
            rows: All rows so far.
            now: Seconds on any clock that does not go back.
        """
        self._seen.append((now, rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return (rows - before) / (now - since) if now > since else 0.0


class IngestLine:
    """The text of the line; remembers the rows of the last seconds."""

    def __init__(self) -> None:
        self._rate = RowRate()

    def next(self, stats: KafkaIngestStats, now: float) -> str:
        """The line.

        Args:
            stats: Of the ingest.
            now: Seconds on any clock that does not go back.
        """
        parts = [
            stats.group_id,
            counted(len(stats.partitions), "partition"),
            f"lag {_lag(stats)}",
            f"{self._rate.per_second(stats.rows, now):,.0f} rows/s",
            f"{counted(stats.rows, 'row')} in {counted(stats.commits, 'commit')}",
        ]
        if stats.bad_messages:
            parts.append(counted(stats.bad_messages, "bad message"))
        ages = [each.heartbeat_age_seconds for each in stats.routes if each.heartbeat_age_seconds is not None]
        if ages:
            parts.append(f"heartbeat {max(ages):.0f} s ago")
        if any(each.is_paused for each in stats.partitions):
            parts.append("queue full")
        return " | ".join(parts)


def _lag(stats: KafkaIngestStats) -> str:
    """The lag, marked where that of a partition is not known yet."""
    is_partial = any(each.lag is None for each in stats.partitions)
    return f"{stats.lag:,}{'+?' if is_partial else ''}"
