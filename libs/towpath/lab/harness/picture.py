"""Parts of pictures: a figure that is saved as a file, and a moving job's results over time, by site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import MoveReport
from towpath.reports.drawing import BAND, COLOURS, INK, QUIET, STYLE

__all__ = ["BAND", "INK", "QUIET", "SOURCE", "STYLE", "TARGET"]

SOURCE, TARGET = COLOURS[:2]
DPI = 130


@contextmanager
def saved(path: Path, title: str, rows: int = 1, columns: int = 1, **layout: Any) -> Iterator[Any]:
    """Yield the axes of a figure, row by row. The figure is written to a file in the end."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(rows, columns, squeeze=False, **layout)
        try:
            yield axes
            figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
            write(figure, path)
        finally:
            plt.close(figure)


def write(figure: Figure, path: Path, dpi: int = DPI) -> None:
    """Write a figure to a file."""
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)


def results_by_site(
    axis: Axes, arrivals: Sequence[ReceivedResult], begin: float, end: float, colours: Mapping[str, str]
) -> None:
    """Draw bars of results per second, those of one site on top of those of another."""
    edges = np.arange(0, end - begin + 1.0, 1.0)
    bottom = np.zeros(max(len(edges) - 1, 1))
    for site, colour in colours.items():
        counts, _ = np.histogram([a.received_at - begin for a in arrivals if a.site == site], bins=edges)
        axis.bar(edges[:-1], counts, 1.0, bottom=bottom, align="edge", color=colour, label=f"at {site}")
        bottom = bottom + counts
    axis.legend(loc="upper left", frameon=False, ncols=2)


def latency_by_site(
    axis: Axes, arrivals: Sequence[ReceivedResult], begin: float, colours: Mapping[str, str]
) -> None:
    """Draw a dot for each result."""
    for site, colour in colours.items():
        mine = [a for a in arrivals if a.site == site]
        times, latencies = [a.received_at - begin for a in mine], [a.latency_s for a in mine]
        # Thousands of points: as shapes they would make a page of some megabytes.
        axis.scatter(times, latencies, s=3, color=colour, alpha=0.5, rasterized=True)
    axis.set_ylabel("latency of its results, s\n(newest event stored → received)")
    axis.set_ylim(bottom=0)


def shade_moves(axis: Axes, moves: Sequence[MoveReport], begin: float) -> list[tuple[MoveReport, float]]:
    """Shade the time of each ended migration. Return the migrations with the places where they end."""
    shaded: list[tuple[MoveReport, float]] = []
    for move in moves:
        if move.begun_at is not None and move.ended_at is not None:
            right = move.ended_at - begin
            axis.axvspan(move.begun_at - begin, right, color=BAND, alpha=0.6, zorder=0, linewidth=0)
            shaded.append((move, right))
    return shaded


def label(axis: Axes, text: str, x: float, height: float, offset: tuple[int, int], **style: Any) -> None:
    """Write beside a moment: at a share of the axis' height, and so many points beside it."""
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axis.annotate(text, xy=(x, height), xytext=offset, **place, **style)
