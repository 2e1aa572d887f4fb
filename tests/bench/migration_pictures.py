"""Pictures of migrations: results at subscribers, distributions of total times, and heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from migration_arrivals import distribution
from migration_course import Course
from migration_measures import totals_s

INK, QUIET = "#1f2937", "#9ca3af"
SOURCE, TARGET, BAND = "#2563eb", "#db2777", "#fde68a"
COLOURS = ("#2563eb", "#db2777", "#059669", "#d97706", "#7c3aed")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "text.color": INK,
}
BIN_S = 0.5
MANY = 300
"""Number of results from which on they are drawn as small points."""


def draw_courses(path: Path, job: str, courses: Mapping[str, Course]) -> None:
    """Draw each strategy's first migration and its surroundings: results per second and their latency."""
    drawn = {name: course for name, course in courses.items() if course.moves}
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(drawn), 2, figsize=(12, 2.4 * len(drawn) + 0.6), squeeze=False, sharex="row"
        )
        for (left, right), (name, course) in zip(axes, drawn.items(), strict=True):
            _course(left, right, name, course)
        axes[0][0].set_title("results per second", loc="left")
        axes[0][1].set_title("latency of results, s", loc="left")
        for axis in axes[-1]:
            axis.set_xlabel("seconds since the first migration began")
        _finish(figure, path, f"{job}: what a subscriber saw, by strategy")


def _course(left: Axes, right: Axes, name: str, course: Course) -> None:
    (first, _), (begin, end), (_, last) = course.quiet[0], course.during[0], course.quiet[1]
    chosen = course.arrivals.inside([(first, last)])
    times, sites = course.arrivals.received[chosen] - begin, course.arrivals.sites[chosen]
    latencies = course.arrivals.latencies_s[chosen]
    edges = np.arange(first - begin, last - begin + BIN_S, BIN_S)
    bottom, size = np.zeros(len(edges) - 1), 4 if len(times) > MANY else 16
    for site, colour in zip(sorted(set(sites.tolist()), reverse=True), (SOURCE, TARGET), strict=False):
        counts, _ = np.histogram(times[sites == site], bins=edges)
        height = counts / BIN_S
        left.bar(edges[:-1], height, BIN_S, bottom=bottom, align="edge", color=colour, label=f"at {site}")
        right.scatter(times[sites == site], latencies[sites == site], s=size, color=colour, alpha=0.6)
        bottom = bottom + height
    for axis in (left, right):
        for at in (0.0, end - begin):
            axis.axvline(at, color=INK, linewidth=0.8, linestyle="--")
        axis.axvspan(0.0, end - begin, color=BAND, alpha=0.4, zorder=0, linewidth=0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylim(bottom=0)
        axis.margins(x=0)
    left.set_ylim(top=1.3 * bottom.max(initial=1.0))  # Room for the legend.
    left.set_ylabel(name)
    left.legend(loc="upper left", frameon=False, ncols=2, fontsize=8)


def draw_totals(path: Path, job: str, courses: Mapping[str, Course]) -> None:
    """The empirical distribution function of total times, by strategy."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 4))
        for colour, (name, course) in zip(COLOURS, courses.items(), strict=False):
            values, shares = distribution(totals_s([course]))
            if values:
                label = f"{name} ({len(values)})"
                axis.step([values[0], *values], [0, *shares], where="post", color=colour, label=label)
        axis.set_xlabel("total time of a migration, s")
        axis.set_ylabel("share of migrations")
        axis.set_xlim(left=0)
        axis.set_ylim(0, 1.02)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="lower right", frameon=False)
        _finish(figure, path, f"{job}: distribution of total times")


def draw_heat_map(
    path: Path,
    title: str,
    rates: Sequence[int],
    sizes_s: Sequence[float],
    totals: Mapping[tuple[int, float], float | None],
) -> None:
    """Total times by rate (rows) and window (columns). Empty: not measured, or rolled back."""
    values = np.array([[_number(totals.get((rate, size))) for size in sizes_s] for rate in rates])
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(1.1 * len(sizes_s) + 3, 0.6 * len(rates) + 2))
        image = axis.imshow(np.ma.masked_invalid(values), aspect="auto", cmap="viridis")
        axis.set_xticks(range(len(sizes_s)), [f"{size:g}" for size in sizes_s])
        axis.set_yticks(range(len(rates)), [f"{rate:,}" for rate in rates])
        axis.set_xlabel("window, s")
        axis.set_ylabel("events per second")
        for (row, column), value in np.ndenumerate(values):
            text = "–" if np.isnan(value) else f"{value:.1f}"
            axis.text(column, row, text, ha="center", va="center", color="white", fontsize=8)
        figure.colorbar(image, ax=axis, label="total, s")
        _finish(figure, path, title)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _finish(figure: Figure, path: Path, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
