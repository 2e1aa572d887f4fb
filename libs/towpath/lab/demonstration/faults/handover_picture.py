"""`demo/faults-handover.png`: what the moving job did while its sites were slow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from towpath.lab.demonstration.faults.handover import SOURCE as SOURCE_SITE
from towpath.lab.demonstration.faults.handover import Outcome
from towpath.lab.demonstration.faults.picture import STYLE, mark
from towpath.lab.demonstration.faults.report import HandoverReport
from towpath.lab.demonstration.picture import BAND, QUIET, SOURCE, TARGET, Arrival
from towpath.lab.demonstration.pipeline import CLOUD, MOVING_JOB

COLOURS = {SOURCE_SITE: SOURCE, CLOUD: TARGET}


def draw_handover(path: Path, outcome: Outcome) -> None:
    """Results of the moving job, their latency, and processing times at both sites, over marks and steps."""
    batches = [batch for each in outcome.batches.values() for batch in each]
    begin = min([*(a.received_at for a in outcome.moving), *(b.started_at for b in batches)])
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(3, 1, figsize=(11, 8), sharex=True)
        _results(axes[0], outcome.moving, begin)
        _latency(axes[1], outcome.moving, begin)
        _processing(axes[2], outcome, begin)
        for axis in axes:
            _migration(axis, outcome.report, begin, named=axis is axes[2])
            mark(axis, outcome.report.marks, begin, "" if axis is axes[0] else None)
            axis.set_ylim(bottom=0)
            axis.spines[["top", "right"]].set_visible(False)
            axis.margins(x=0.01)
        axes[2].set_xlabel("seconds; yellow: the migration, dotted: its steps")
        figure.suptitle(_title(outcome.report), x=0.01, ha="left", fontweight="bold")
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def _title(report: HandoverReport) -> str:
    found = report.pipeline
    return (
        f"{MOVING_JOB} is handed over, {report.delay_ms:g} ms late with every {report.every}th event: "
        f"{found.results:,} results, {found.lost} lost, {found.duplicated} duplicated, {found.wrong} wrong"
    )


def _results(axis: Axes, arrivals: Sequence[Arrival], begin: float) -> None:
    if not arrivals:
        return
    edges = np.arange(0, max(a.received_at for a in arrivals) - begin + 1.0, 1.0)
    bottom = np.zeros(max(len(edges) - 1, 1))
    for site, colour in COLOURS.items():
        counts, _ = np.histogram([a.received_at - begin for a in arrivals if a.site == site], bins=edges)
        axis.bar(edges[:-1], counts, 1.0, bottom=bottom, align="edge", color=colour, label=f"at {site}")
        bottom = bottom + counts
    axis.set_ylabel(f"results/s\nof {MOVING_JOB}")
    axis.legend(loc="upper right", frameon=False, ncols=2)


def _latency(axis: Axes, arrivals: Sequence[Arrival], begin: float) -> None:
    for site, colour in COLOURS.items():
        mine = [a for a in arrivals if a.site == site]
        times = [a.received_at - begin for a in mine]
        axis.scatter(times, [a.latency_s for a in mine], s=3, color=colour, alpha=0.5)
    axis.set_ylabel("latency of its results, s\n(event stored → received)")


def _processing(axis: Axes, outcome: Outcome, begin: float) -> None:
    for site, batches in outcome.batches.items():
        times = [batch.started_at - begin for batch in batches]
        processing = [batch.processing_s for batch in batches]
        axis.plot(times, processing, "o-", ms=3, lw=0.8, color=COLOURS[site])
    axis.set_ylabel("processing time\nof its micro-batches, s")


def _migration(axis: Axes, report: HandoverReport, begin: float, *, named: bool) -> None:
    for migration in report.pipeline.migrations:
        left, right = migration.begun_at - begin, migration.ended_at - begin
        axis.axvspan(left, right, color=BAND, alpha=0.6, zorder=0, lw=0)
    for number, step in enumerate(report.steps):
        axis.axvline(step.at - begin, color=QUIET, lw=0.7, ls=":")
        if named:
            axis.annotate(
                step.name,
                xy=(step.at - begin, 0.98 - 0.07 * (number % 12)),
                xycoords=("data", "axes fraction"),
                xytext=(2, 0),
                textcoords="offset points",
                va="top",
                fontsize=6,
            )
