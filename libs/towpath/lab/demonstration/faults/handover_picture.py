"""`demo/faults-handover.png`: what the moving job did while its sites were slow."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from towpath.lab.demonstration.faults.handover import SOURCE as SOURCE_SITE
from towpath.lab.demonstration.faults.handover import HandoverOutcome
from towpath.lab.demonstration.faults.picture import mark
from towpath.lab.demonstration.faults.report import HandoverReport
from towpath.lab.demonstration.pipeline import CLOUD, MOVING_JOB
from towpath.lab.harness.picture import (
    QUIET,
    SOURCE,
    TARGET,
    latency_by_site,
    results_by_site,
    saved,
    shade_moves,
)

COLOURS = {SOURCE_SITE: SOURCE, CLOUD: TARGET}


def draw_handover(path: Path, outcome: HandoverOutcome) -> None:
    """Results of the moving job, their latency, and processing times at both sites, over marks and steps."""
    batches = [batch for each in outcome.batches.values() for batch in each]
    begin = min([*(a.received_at for a in outcome.moving), *(b.started_at for b in batches)])
    end = max((a.received_at for a in outcome.moving), default=begin)
    with saved(path, _title(outcome.report), rows=3, figsize=(11, 8), sharex=True) as grid:
        axes = grid[:, 0]
        results_by_site(axes[0], outcome.moving, begin, end, COLOURS)
        axes[0].set_ylabel(f"results/s\nof {MOVING_JOB}")
        latency_by_site(axes[1], outcome.moving, begin, COLOURS)
        _processing(axes[2], outcome, begin)
        for axis in axes:
            _migration(axis, outcome.report, begin, named=axis is axes[2])
            mark(axis, outcome.report.marks, begin, "" if axis is axes[0] else None)
            axis.set_ylim(bottom=0)
            axis.margins(x=0.01)
        axes[2].set_xlabel("seconds; yellow: the migration, dotted: its steps")


def _title(report: HandoverReport) -> str:
    found = report.pipeline
    return (
        f"{MOVING_JOB} is handed over, {report.delay_ms:g} ms late with every {report.every}th event: "
        f"{found.results:,} results, {found.in_three}"
    )


def _processing(axis: Axes, outcome: HandoverOutcome, begin: float) -> None:
    for site, batches in outcome.batches.items():
        times = [batch.started_at - begin for batch in batches]
        processing = [batch.processing_s for batch in batches]
        axis.plot(times, processing, "o-", ms=3, lw=0.8, color=COLOURS[site])
    axis.set_ylabel("processing time\nof its micro-batches, s")


def _migration(axis: Axes, report: HandoverReport, begin: float, *, named: bool) -> None:
    shade_moves(axis, report.pipeline.migrations, begin)
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
