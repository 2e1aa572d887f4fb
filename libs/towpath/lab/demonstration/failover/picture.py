"""`demo/failover.png`: results per second of each job, while its site dies and returns."""

from __future__ import annotations

from pathlib import Path

from towpath.lab.demonstration.failover.jobs import CLOUD, LOST
from towpath.lab.demonstration.failover.report import FailedOverJob
from towpath.lab.demonstration.failover.run import FailoverOutcome
from towpath.lab.harness.picture import BAND, INK, SOURCE, TARGET, label, results_by_site, saved

COLOURS = {LOST: SOURCE, CLOUD: TARGET}

BEFORE_S = 20.0
"""Seconds shown before the site dies: jobs have worked for longer."""


def draw(path: Path, outcome: FailoverOutcome) -> None:
    """Draw results per second of each job, coloured by the site that computed them."""
    report, moments = outcome.report, outcome.report.moments
    begin = moments.died_at - BEFORE_S
    end = max((a.received_at for came in outcome.arrivals.values() for a in came), default=begin + 1.0)
    title = f"{LOST} dies under load, and its jobs go on at {CLOUD}: {report.judged.in_three}"
    layout = {"figsize": (10, 2.0 * len(report.jobs) + 0.8), "sharex": True}
    with saved(path, title, rows=len(report.jobs), **layout) as axes:
        for row, job in enumerate(report.jobs):
            axis = axes[row][0]
            results_by_site(axis, outcome.arrivals[job.job], begin, end, COLOURS)
            axis.set_ylabel(f"results/s\nof {job.job}")
            axis.set_title(_told(job), loc="left", fontsize=8)
            axis.axvspan(
                moments.died_at - begin, moments.returned_at - begin, color=BAND, alpha=0.6, zorder=0
            )
            for at, what in (
                (moments.died_at, "dies"),
                (moments.decided_at, "failover"),
                (moments.returned_at, "returns"),
            ):
                axis.axvline(at - begin, color=INK, linewidth=0.8, linestyle=":")
                if row == 0:
                    label(axis, what, at - begin, 0.98, (3, 0), va="top", fontsize=8)
            axis.set_xlim(0, end - begin)
        axes[-1][0].set_xlabel(f"seconds; shaded: while {LOST} was dead")


def _told(job: FailedOverJob) -> str:
    came = (
        "no result" if job.first_result_after_s is None else f"first result {job.first_result_after_s:.1f} s"
    )
    moved = "" if job.output == job.output_now else f", then {job.output_now}"
    return f"reads at {job.reads}, results at {job.output}{moved}; {came} after the decision"
