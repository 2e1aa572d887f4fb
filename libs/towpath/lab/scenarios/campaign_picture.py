"""`campaign.png`: how long each scenario took to recover, run by run, and what was survived."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from towpath.lab.scenarios.campaign_report import CampaignReport, by_scenario
from towpath.lab.scenarios.picture import FAULT, INK, LINE, QUIET, STYLE

NEVER_S = -1.5
"""Where runs stand that did not recover: left of zero."""


def draw_campaign(path: Path, report: CampaignReport) -> None:
    """Draw a row for each scenario: a dot for each run at its time to recover, and the share that passed."""
    rows = by_scenario(report.runs)
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(11, 1.4 + 0.27 * max(len(rows), 3)), width_ratios=[3, 1], sharey=True
        )
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
        left.set_xlabel("s from the last fault's end to steady state (left of 0: never)")
        left.grid(axis="x", color=QUIET, alpha=0.3)
        right.set_xlabel("runs, as expected in blue")
        right.xaxis.set_major_locator(MaxNLocator(integer=True))
        good = len(report.runs) - len(report.failed)
        title = f"{good} of {len(report.runs)} runs went as expected, in {report.seconds / 60:.1f} min"
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
        plt.close(figure)
