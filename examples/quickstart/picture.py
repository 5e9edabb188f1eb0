"""The picture: rows that arrived and that were committed, and delta folders, over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from examples.quickstart.timeline import Timeline

_INK, _PALE, _GRID = "#24292f", "#6e7781", "#eaeef2"
_ARRIVED, _ROWS, _WRITTEN, _DELTAS, _KILL = "#afb8c1", "#0969da", "#afb8c1", "#bf8700", "#cf222e"


def draw(timeline: Timeline, caption: str, path: Path) -> None:
    """A PNG of 1,600 by 1,000 pixels."""
    figure = Figure(figsize=(10, 6.25), dpi=160, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.2, h_pad=0.12)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    above.set_title(f"{timeline.rows:,} flights, each in the table exactly once", loc="left", weight="bold", pad=58)
    above.annotate(caption, (0, 1), (0, 40), xycoords="axes fraction", textcoords="offset points", color=_PALE)
    _Panel(above, timeline).rows()
    _Panel(below, timeline).deltas()
    below.set_xlabel("seconds since the start", color=_PALE)
    figure.savefig(path)


class _Panel:
    """One pair of axes; time is in seconds since the first run's start."""

    def __init__(self, axes: Axes, timeline: Timeline) -> None:
        self._axes = axes
        self._timeline = timeline
        self._end = self._since_start(timeline.runs.ended)
        self._killed = self._since_start(timeline.runs.killed)
        self._times = [self._since_start(commit.at) for commit in timeline.commits]
        self._back = min((time for time in self._times if time > self._killed), default=self._end)
        self._says = "kill -9\ncommits again"
        if timeline.runs.recovered is not None:
            self._back = self._since_start(timeline.runs.recovered)
            self._says = "kill -9 of one instance\nthe other has it all"
        self._dress()
        axes.axvspan(self._killed, self._back, color=_KILL, alpha=0.06, linewidth=0)
        axes.axvline(self._killed, color=_KILL, linewidth=1.4)

    def rows(self) -> None:
        if self._timeline.arrivals:
            times, arrived = zip(*self._timeline.arrivals, strict=True)
            self._stairs([self._since_start(time) for time in times], arrived, _ARRIVED, "rows arrived")
        committed = list(accumulate(commit.rows for commit in self._timeline.commits))
        self._stairs(self._times, committed, _ROWS, "rows committed: a dot is a transaction", marker=".")
        self._name_the_lines()
        self._axes.yaxis.set_major_formatter("{x:,.0f}")
        self._mark_the_kill()

    def deltas(self) -> None:
        deltas = list(accumulate(commit.deltas for commit in self._timeline.commits))
        self._stairs(self._times, deltas, _WRITTEN, "delta folders written")
        times, counts = zip(*self._timeline.deltas, strict=True)
        self._stairs([self._since_start(time) for time in times], counts, _DELTAS, "delta folders that a reader opens")
        self._name_the_lines()

    def _mark_the_kill(self) -> None:
        """Below the line of the committed rows if three lines of text fit there, else above it."""
        rows = sum(commit.rows for commit in self._timeline.commits if commit.at < self._timeline.runs.killed)
        share = rows / self._timeline.rows
        self._axes.annotate(
            f"{self._says}\nafter {self._back - self._killed:.0f} s",
            (self._killed, (0.04 if share > 0.25 else share + 0.04) * self._timeline.rows),
            (6, 0),
            textcoords="offset points",
            color=_KILL,
        )

    def _name_the_lines(self) -> None:
        self._axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=2, frameon=False, labelcolor=_INK)

    def _stairs(
        self, times: Sequence[float], heights: Sequence[int], color: str, label: str, *, marker: str = ""
    ) -> None:
        x, y = [0.0, *times, self._end], [0, *heights, heights[-1]]
        every = slice(1, len(x) - 1)  # neither end is an event
        self._axes.plot(
            x, y, drawstyle="steps-post", color=color, label=label, marker=marker, markevery=every, markersize=7
        )
        self._axes.fill_between(x, y, step="post", color=color, alpha=0.12, linewidth=0)
        self._axes.set_ylim(bottom=0)

    def _dress(self) -> None:
        self._axes.spines[["top", "right", "left"]].set_visible(False)
        self._axes.spines["bottom"].set_color(_PALE)
        self._axes.tick_params(colors=_PALE, length=0)
        self._axes.grid(axis="y", color=_GRID)
        self._axes.set_axisbelow(True)
        self._axes.set_xlim(0, self._end)

    def _since_start(self, at: float) -> float:
        return at - self._timeline.runs.started
