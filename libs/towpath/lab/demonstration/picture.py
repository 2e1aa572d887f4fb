"""`demo/migration.png`: what the stream did while a job of it changed site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from towpath.lab.demonstration.report import DemonstrationReport
from towpath.lab.demonstration.run import Outcome
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.picture import (
    QUIET,
    SOURCE,
    STYLE,
    TARGET,
    latency_by_site,
    results_by_site,
    shade_moves,
    write,
)


def draw(path: Path, outcome: Outcome) -> None:
    """Draw throughput of the moving job, its results' latency, and the throughput of the jobs before it."""
    with plt.rc_context(STYLE):
        figure = figure_of(outcome)
        write(figure, path)
        plt.close(figure)


def figure_of(outcome: Outcome, *, titled: bool = True) -> Figure:
    """The same as a figure of matplotlib's. To be closed."""
    report, moving, passing = outcome.report, outcome.moving, outcome.passing
    begin = min(a.received_at for a in (*moving, *passing))
    end = max(a.received_at for a in (*moving, *passing))
    figure, axes = plt.subplots(3, 1, figsize=(10, 7.2), sharex=True, height_ratios=[1, 1, 1])
    colours = _colours(moving)
    results_by_site(axes[0], moving, begin, end, colours)
    axes[0].set_ylabel(f"results/s\nof {outcome.moving_job}")
    latency_by_site(axes[1], moving, begin, colours)
    _pipeline(axes[2], passing, begin, end)
    for axis in axes:
        _mark(axis, report, begin, labelled=axis is axes[0])
        axis.margins(x=0.01)
    axes[2].set_xlabel("seconds since the first result")
    if titled:
        figure.suptitle(_title(outcome), x=0.01, ha="left", fontweight="bold")
    figure.tight_layout()
    return figure


def _title(outcome: Outcome) -> str:
    moves, report = len(outcome.report.migrations), outcome.report
    times = f"{outcome.moving_job} moves {moves} times under load"
    verdict = f"{times}: {report.results:,} results, {report.in_three}"
    return verdict if report.silences is None else f"{verdict}\n{report.silences}"


def _colours(arrivals: Sequence[ReceivedResult]) -> dict[str, str]:
    """The edge's colour is the source's, for there the job begins."""
    sites = sorted({a.site for a in arrivals}, key=lambda site: (site == "cloud", site))
    return dict(zip(sites, (SOURCE, TARGET), strict=False))


def _pipeline(axis: Axes, arrivals: Sequence[ReceivedResult], begin: float, end: float) -> None:
    edges = np.arange(0, end - begin + 1.0, 1.0)
    counts, _ = np.histogram([a.received_at - begin for a in arrivals], bins=edges)
    axis.fill_between(edges[:-1], counts, step="post", color=QUIET, alpha=0.6)
    axis.set_ylabel("cleaned events/s,\nall airports")
    axis.set_ylim(bottom=0)


def _mark(axis: Axes, report: DemonstrationReport, begin: float, *, labelled: bool) -> None:
    for move, right in shade_moves(axis, report.migrations, begin):
        if labelled:
            downtime = "–" if move.downtime_s is None else f"{move.downtime_s:.1f} s"
            axis.annotate(
                f"{move.way}\n{move.total_s:.1f} s, downtime {downtime}",
                xy=(right, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(4, -2),
                textcoords="offset points",
                va="top",
                fontsize=8,
            )
