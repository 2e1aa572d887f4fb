"""Pictures of jobs while rules are loaded and unloaded: `faults-word-count.png`, `faults-handover.png`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from towpath.lab.demonstration.faults.handover import SOURCE as SOURCE_SITE
from towpath.lab.demonstration.faults.handover import HandoverOutcome
from towpath.lab.demonstration.faults.report import (
    Batch,
    HandoverReport,
    Mark,
    Staircase,
    StaircasePhase,
    WordCountReport,
)
from towpath.lab.demonstration.pipeline import CLOUD, MOVING_JOB
from towpath.lab.harness.picture import (
    INK,
    QUIET,
    SOURCE,
    TARGET,
    label,
    latency_by_site,
    results_by_site,
    saved,
    shade_moves,
)

LOADED, UNLOADED = "#b91c1c", "#15803d"
COLOURS = {SOURCE_SITE: SOURCE, CLOUD: TARGET}

Value = Callable[[Batch], float]
Mean = Callable[[StaircasePhase], float | None]


def draw_word_count(path: Path, report: WordCountReport) -> None:
    """For each staircase, throughput above and processing time below, with the mean of each phase."""
    columns = len(report.staircases)
    title = f"Word count on {report.workers} workers, {report.rate:,.0f} lines/s: delays worker by worker"
    layout = {"figsize": (2 + 6.5 * columns, 6), "sharex": "col", "sharey": "row"}
    with saved(path, title, 2, columns, **layout) as axes:
        for column, staircase in enumerate(report.staircases):
            _staircase(axes[0][column], axes[1][column], staircase)
        for row in axes:
            row[0].set_ylim(bottom=0)  # Last: from then on the axes of a row grow no more.
        axes[0][0].set_ylabel("throughput, lines/s\n(while a batch is worked on)")
        axes[1][0].set_ylabel("processing time of a batch, s")


def _staircase(above: Axes, below: Axes, staircase: Staircase) -> None:
    begin = staircase.phases[0].begun_at
    end = staircase.phases[-1].ended_at
    batches = [batch for batch in staircase.batches if begin <= batch.started_at < end]
    phases = staircase.phases
    _series(above, begin, batches, phases, lambda b: b.throughput, lambda p: p.throughput, SOURCE)
    _series(below, begin, batches, phases, lambda b: b.processing_s, lambda p: p.processing_s, TARGET)
    mark(above, staircase.marks, begin, "worker ")
    mark(below, staircase.marks, begin)
    for axis in (above, below):
        axis.set_xlim(0, end - begin)
    title = f"{staircase.delay_ms:g} ms with every {staircase.every:,}th line of a worker"
    above.set_title(title, loc="left", pad=30)
    below.set_xlabel("seconds")


def _series(
    axis: Axes,
    begin: float,
    batches: Sequence[Batch],
    phases: Sequence[StaircasePhase],
    value: Value,
    mean: Mean,
    colour: str,
) -> None:
    times = [batch.started_at - begin for batch in batches]
    axis.plot(times, [value(batch) for batch in batches], "o-", color=colour, ms=3, lw=0.8, alpha=0.7)
    for phase in phases:
        height = mean(phase)
        if height is not None:
            axis.hlines(height, phase.begun_at - begin, phase.ended_at - begin, color=INK, lw=1.6)


def mark(axis: Axes, marks: Sequence[Mark], begin: float, prefix: str | None = None) -> None:
    """A line where a rule was loaded (red) or unloaded (green), named above the axis if there is a prefix."""
    for each in marks:
        colour = LOADED if each.loaded else UNLOADED
        axis.axvline(each.at - begin, color=colour, lw=1.0, ls="-" if each.loaded else "--")
        if prefix is not None:
            text = f"{'load' if each.loaded else 'unload'}\n{prefix}{each.what}"
            label(axis, text, each.at - begin, 1.0, (0, 3), ha="center", fontsize=7, color=colour)


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
            height = 0.98 - 0.07 * (number % 12)
            label(axis, step.name, step.at - begin, height, (2, 0), va="top", fontsize=6)
