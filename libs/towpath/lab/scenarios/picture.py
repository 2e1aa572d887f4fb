"""`run.png`: probes over time, with marks for rules and migrations; `campaign.png`: all runs."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from towpath.lab.harness.picture import saved, write
from towpath.lab.scenarios.campaign_report import CampaignReport, by_scenario
from towpath.lab.scenarios.course import Curve, RunCourse
from towpath.reports.drawing import BAND, COLOURS, DEVIATED, FAULT, INK, QUIET, STYLE

LINE = COLOURS[0]

NEVER_S = -1.5
"""Where runs stand that did not recover: left of zero."""

UNITS = {
    "throughput": "throughput,\n% of the load",
    "output": "newest result,\ns ago",
    "latency": "latency, s",
    "lag": "events not\nprocessed",
}


def draw(path: Path, run: RunCourse) -> None:
    """Draw a run into a file."""
    with plt.rc_context(STYLE):
        figure = figure_of(run)
        write(figure, path, dpi=110)
        plt.close(figure)


def figure_of(run: RunCourse, *, titled: bool = True) -> Figure:
    """A row for the rules and migrations, then one for each kind of probe and each metric. To be closed."""
    rows = _rows(run)
    heights = [max(0.6, 0.22 * (len(run.rules) + len(run.migrations))), *[1.2] * len(rows)]
    figure, axes = plt.subplots(
        len(heights),
        1,
        figsize=(10, 1.0 + 1.15 * sum(heights)),
        sharex=True,
        height_ratios=heights,
        squeeze=False,
    )
    column = axes[:, 0]
    _marks(column[0], run)
    for axis, (label, curves) in zip(column[1:], rows, strict=True):
        _curves(axis, label, curves)
    for axis in column:
        _background(axis, run)
    column[-1].set_xlabel("seconds since the run began")
    if titled:
        figure.suptitle(_title(run), x=0.01, ha="left", fontweight="bold")
    figure.tight_layout()
    return figure


def _title(run: RunCourse) -> str:
    report = run.outcome
    if report is None:
        return f"{run.title}: not finished"
    if report.problems:
        return f"{run.title}: {report.problems[0][:90]}"
    return f"{run.title}: as expected, steady again after {report.recovered_s:g} s"


def _rows(run: RunCourse) -> list[tuple[str, dict[str, Curve]]]:
    """Curves that share a unit share a row; whether sites are up is told by the background."""
    rows: dict[str, dict[str, Curve]] = {}
    for probe, curve in run.curves.items():
        kind, _, about = probe.partition(" ")
        if kind == "site":
            continue
        rows.setdefault(UNITS.get(kind, probe), {})[about.removeprefix("gap ")] = curve
    rows |= {name: {"": curve} for name, curve in run.metrics.items()}
    return list(rows.items())


def _curves(axis: Axes, label: str, curves: dict[str, Curve]) -> None:
    for position, (name, curve) in enumerate(curves.items()):
        colour = LINE if position == 0 else f"C{position}"
        axis.plot([at for at, _ in curve], [v for _, v in curve], color=colour, lw=1.3, label=name)
    axis.set_ylabel(label)
    known = [v for curve in curves.values() for _, v in curve if not math.isnan(v)]
    if known:
        axis.set_ylim(bottom=min(0.0, *known))
    if len(curves) > 1:
        axis.legend(loc="upper left", frameon=False, ncols=3, fontsize=8)


def _marks(axis: Axes, run: RunCourse) -> None:
    """A bar for each rule and each migration, one below the other."""
    bars = [(mark, FAULT) for mark in run.rules] + [(mark, BAND) for mark in run.migrations]
    for position, (mark, colour) in enumerate(bars):
        width = max(0.08, (mark.end or mark.begin) - mark.begin)
        axis.barh(-position, width, left=mark.begin, height=0.8, color=colour, alpha=0.85)
        axis.text(mark.begin + width, -position, f" {mark.text}", va="center", fontsize=8)
    axis.set_yticks([])
    axis.set_ylim(-max(len(bars), 1) + 0.4, 0.6)
    axis.set_ylabel("loaded,\nmoving", rotation=90)


def _background(axis: Axes, run: RunCourse) -> None:
    for mark in run.deviations:
        axis.axvspan(mark.begin, mark.end or mark.begin, color=DEVIATED, zorder=0, linewidth=0)
    for mark in run.rules:
        for at, style in ((mark.begin, "-"), (mark.end, ":")):
            if at is not None:
                axis.axvline(at, color=FAULT, lw=0.8, ls=style, alpha=0.7)
    for phase in run.phases:
        if phase.text in ("during", "after", "judge"):
            axis.axvline(phase.begin, color=QUIET, lw=0.6, ls="--")
    axis.margins(x=0.01)


def draw_campaign(path: Path, report: CampaignReport) -> None:
    """Draw a row for each scenario: a dot for each run at its time to recover, and the share that passed."""
    rows = by_scenario(report.runs)
    good = len(report.runs) - len(report.failed)
    title = f"{good} of {len(report.runs)} runs went as expected, in {report.seconds / 60:.1f} min"
    size = (11, 1.4 + 0.27 * max(len(rows), 3))
    with saved(path, title, columns=2, figsize=size, width_ratios=[3, 1], sharey=True) as grid:
        left, right = grid[0]
        for position, row in enumerate(rows):
            for run in report.runs:
                if run.scenario == row.name:
                    at = NEVER_S if run.recovered_s is None else run.recovered_s
                    colour, marker = (LINE, "o") if run.passed else (FAULT, "x")
                    left.plot(at, position, marker=marker, color=colour, ms=5, alpha=0.8)
            right.barh(position, row.runs, color=QUIET, alpha=0.4, height=0.7)
            right.barh(position, row.passed, color=LINE, alpha=0.8, height=0.7)
        left.set_yticks(range(len(rows)), [row.name for row in rows], color=INK)
        left.invert_yaxis()
        left.set_xlabel("s from the end of `during` to steady state (left of 0: never)")
        left.grid(axis="x", color=QUIET, alpha=0.3)
        right.set_xlabel("runs, as expected in blue")
        right.xaxis.set_major_locator(MaxNLocator(integer=True))
