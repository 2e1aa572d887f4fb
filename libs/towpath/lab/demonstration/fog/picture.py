"""`demo/fog.png`: processing rates of both scenarios, what D makes of them, and what crossed the links."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from towpath.lab.demonstration.fog.arrangement import Arrangement
from towpath.lab.demonstration.fog.rates import STAGES
from towpath.lab.demonstration.fog.report import FogReport
from towpath.lab.harness.picture import INK, QUIET, SOURCE, TARGET, saved

COLOURS = {Arrangement.FOG: SOURCE, Arrangement.CLOUD: TARGET}
WIDTH = 0.38
"""Of a bar; two stand beside each other at each rate."""


def draw(path: Path, report: FogReport) -> None:
    """Draw the rates of jobs 3 and 4, the differential output rates, and bytes over the links."""
    with saved(path, _title(report), columns=4, figsize=(14, 3.8)) as grid:
        axes = grid[0]
        for axis, stage in zip(axes, STAGES, strict=False):
            _rates(axis, report, stage)
        _differential(axes[2], report)
        _crossed(axes[3], report)
        for axis in axes:
            axis.set_xlabel("events/s sent at each of three edges")


def _title(report: FogReport) -> str:
    return (
        "Jobs where the data is, and all jobs at the cloud: "
        f"{report.site_to_site_ms:g} ms from site to site, "
        f"{report.bandwidth_bytes_per_s / 1000:g} kB/s on each link"
    )


def _rates(axis: Axes, report: FogReport, stage: str) -> None:
    heights = {s.scenario: [turn.stages[stage].rate for turn in s.turns] for s in report.scenarios}
    _bars(axis, report, heights)
    axis.set_title(f"{stage}: accepted events/s", loc="left")
    axis.legend(frameon=False, loc="upper left")


def _crossed(axis: Axes, report: FogReport) -> None:
    heights = {s.scenario: [turn.crossed.total / 1e6 for turn in s.turns] for s in report.scenarios}
    _bars(axis, report, heights)
    axis.set_title("MB over all links", loc="left")


def _bars(axis: Axes, report: FogReport, heights: dict[Arrangement, list[float]]) -> None:
    places = np.arange(len(report.differential))
    for offset, (scenario, values) in zip((-WIDTH / 2, WIDTH / 2), heights.items(), strict=True):
        axis.bar(places + offset, values, WIDTH, color=COLOURS[scenario], label=scenario)
    axis.set_xticks(places, [f"{each.rate:g}" for each in report.differential])


def _differential(axis: Axes, report: FogReport) -> None:
    places = range(len(report.differential))
    for stage, values, line in (
        ("job 3", [each.job_3 for each in report.differential], "o-"),
        ("job 4", [each.job_4 for each in report.differential], "s--"),
    ):
        heights = [float("nan") if value is None else value for value in values]
        axis.plot(places, heights, line, color=INK, label=stage)
    axis.axhline(0, color=QUIET, linewidth=0.8)
    axis.set_xticks(places, [f"{each.rate:g}" for each in report.differential])
    axis.set_title("D = (100/F)·(F − C), %", loc="left")
    axis.legend(frameon=False, loc="upper left")
