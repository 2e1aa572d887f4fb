"""`demo/migration.png`: what the stream did while a job of it changed site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from towpath.lab.demonstration.report import Report

INK, QUIET = "#1f2937", "#9ca3af"
SOURCE, TARGET, BAND = "#2563eb", "#db2777", "#fde68a"


@dataclass(frozen=True)
class Arrival:
    """A result as its subscriber saw it."""

    received_at: float
    """Unix seconds."""
    latency_s: float
    """Since the event that completed it was stored."""
    site: str
    """Where it was computed."""


def draw(
    path: Path, report: Report, moving: Sequence[Arrival], passing: Sequence[Arrival], moving_job: str
) -> None:
    """Draw throughput of the moving job, its results' latency, and the pipeline's throughput.

    `moving` are results of the moving job, `passing` those of the stateless jobs before it.
    """
    style: dict[Any, Any] = {
        "font.size": 9,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "text.color": INK,
    }
    with plt.rc_context(style):
        figure = figure_of(report, moving, passing, moving_job)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def figure_of(
    report: Report,
    moving: Sequence[Arrival],
    passing: Sequence[Arrival],
    moving_job: str,
    *,
    titled: bool = True,
) -> Figure:
    """The same as a figure of matplotlib's. To be closed."""
    begin = min(a.received_at for a in (*moving, *passing))
    end = max(a.received_at for a in (*moving, *passing))
    figure, axes = plt.subplots(3, 1, figsize=(10, 7.2), sharex=True, height_ratios=[1, 1, 1])
    _throughput(axes[0], moving, begin, end, moving_job)
    _latency(axes[1], moving, begin)
    _pipeline(axes[2], passing, begin, end)
    for axis in axes:
        _mark(axis, report, begin, labelled=axis is axes[0])
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.01)
    axes[2].set_xlabel("seconds since the first result")
    if titled:
        figure.suptitle(_title(report, moving_job), x=0.01, ha="left", fontweight="bold")
    figure.tight_layout()
    return figure


def _title(report: Report, moving_job: str) -> str:
    moves = len(report.migrations)
    return (
        f"{moving_job} moves {moves} times under load: {report.results:,} results, "
        f"{report.lost} lost, {report.duplicated} duplicated, {report.wrong} wrong"
    )


def _throughput(axis: Axes, arrivals: Sequence[Arrival], begin: float, end: float, job: str) -> None:
    edges = np.arange(0, end - begin + 1.0, 1.0)
    bottom = np.zeros(max(len(edges) - 1, 1))
    sites = sorted({a.site for a in arrivals}, key=lambda s: (s == "cloud", s))
    for site, colour in zip(sites, (SOURCE, TARGET), strict=False):
        times = [a.received_at - begin for a in arrivals if a.site == site]
        counts, _ = np.histogram(times, bins=edges)
        axis.bar(edges[:-1], counts, 1.0, bottom=bottom, align="edge", color=colour, label=f"at {site}")
        bottom = bottom + counts
    axis.set_ylabel(f"results/s\nof {job}")
    axis.legend(loc="upper left", frameon=False, ncols=2)


def _latency(axis: Axes, arrivals: Sequence[Arrival], begin: float) -> None:
    for site, colour in zip(
        sorted({a.site for a in arrivals}, key=lambda s: (s == "cloud", s)), (SOURCE, TARGET), strict=False
    ):
        mine = [a for a in arrivals if a.site == site]
        times, latencies = [a.received_at - begin for a in mine], [a.latency_s for a in mine]
        # Thousands of points: as shapes they would make a page of some megabytes.
        axis.scatter(times, latencies, s=3, color=colour, alpha=0.5, rasterized=True)
    axis.set_ylabel("latency of its results, s\n(event stored → received)")
    axis.set_ylim(bottom=0)


def _pipeline(axis: Axes, arrivals: Sequence[Arrival], begin: float, end: float) -> None:
    edges = np.arange(0, end - begin + 1.0, 1.0)
    counts, _ = np.histogram([a.received_at - begin for a in arrivals], bins=edges)
    axis.fill_between(edges[:-1], counts, step="post", color=QUIET, alpha=0.6)
    axis.set_ylabel("cleaned events/s,\nall airports")
    axis.set_ylim(bottom=0)


def _mark(axis: Axes, report: Report, begin: float, *, labelled: bool) -> None:
    for migration in report.migrations:
        left, right = migration.begun_at - begin, migration.ended_at - begin
        axis.axvspan(left, right, color=BAND, alpha=0.6, zorder=0, linewidth=0)
        if labelled:
            downtime = "–" if migration.downtime_s is None else f"{migration.downtime_s:.1f} s"
            axis.annotate(
                f"{migration.source} → {migration.target}\n{migration.total_s:.1f} s, downtime {downtime}",
                xy=(right, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(4, -2),
                textcoords="offset points",
                va="top",
                fontsize=8,
            )
