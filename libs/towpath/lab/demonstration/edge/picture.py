"""`demo/edge.png`: the train's speed and link, what its models said, what was delivered, where `ride` ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from towpath.lab.demonstration.edge.jobs import RIDE, TRACKSIDE, TRAIN, data_model
from towpath.lab.demonstration.edge.run import EdgeOutcome
from towpath.lab.harness.picture import INK, QUIET, SOURCE, STYLE, TARGET, results_by_site, shade_moves, write
from towpath.prediction.registry import KINDS
from towpath.reports.drawing import FAULT, LINE

COLOURS = {TRAIN: SOURCE, TRACKSIDE: TARGET}

POINTS = 2_000
"""Of a curve: more are not seen, and make the page large."""

OFF_LINE = "#f3f4f6"
"""Where there is no link."""


def draw(path: Path, outcome: EdgeOutcome) -> None:
    """Draw the journey into a file."""
    with plt.rc_context(STYLE):
        figure = figure_of(outcome)
        write(figure, path)
        plt.close(figure)


def figure_of(outcome: EdgeOutcome, *, titled: bool = True) -> Figure:
    """The same as a figure of matplotlib's. To be closed."""
    figure, axes = plt.subplots(4, 1, figsize=(10, 9.2), sharex=True, height_ratios=[1, 1.4, 1, 1])
    _speed(axes[0], outcome)
    _statistics(axes[1], outcome)
    _delivered(axes[2], outcome)
    _ride(axes[3], outcome)
    for axis in axes:
        _without_link(axis, outcome)
        axis.margins(x=0.01)
    axes[3].set_xlabel("seconds since the journey began; grey: no link, hatched: tunnel")
    if titled:
        figure.suptitle(_title(outcome), x=0.01, ha="left", fontweight="bold")
    figure.tight_layout()
    return figure


def _title(outcome: EdgeOutcome) -> str:
    report = outcome.report
    judged = report.judged
    found = report.detection.latency_s
    flat = f"flat wheel {report.detection.wheel} found on board " + (
        "– never" if found is None else f"{found:.1f} s after its first impact"
    )
    return f"{flat}\n{judged.results:,} results of {judged.expected:,}: {judged.in_three}"


def _speed(axis: Axes, outcome: EdgeOutcome) -> None:
    journey = outcome.journey
    seconds = np.arange(len(journey.speeds)) / journey.rate_hz
    axis.plot(*_thinned(seconds, journey.speeds), color=INK, linewidth=1.2)
    axis.set_ylabel("speed, m/s")
    axis.set_ylim(0, journey.full_speed * 1.35)
    for call in journey.calls:
        axis.annotate(
            call.station,
            xy=(call.arrives_s, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, -2),
            textcoords="offset points",
            va="top",
            fontsize=8,
        )


def _statistics(axis: Axes, outcome: EdgeOutcome) -> None:
    report, begin = outcome.report, outcome.report.begun_at
    flat = report.detection.wheel
    for wheel, said in outcome.verdicts.items():
        values = [np.nan if value is None else value for value in said.statistics]
        colour, width = (FAULT, 1.5) if wheel == flat else (QUIET, 0.7)
        shown = wheel if wheel == flat else None
        seconds = np.array(said.times) - begin
        axis.plot(*_thinned(seconds, np.array(values)), color=colour, linewidth=width, label=shown)
    limit = data_model().model.predictive
    axis.axhline(getattr(limit, "crest_factor", np.nan), color=INK, linewidth=0.8, linestyle="--")
    axis.axvline(report.detection.first_impact_at - begin, color=INK, linewidth=0.8)
    _told(axis, report.detection.first_impact_at - begin, 0.06, "first impact")
    if report.detection.alarm_at is not None:
        _told(axis, report.detection.alarm_at - begin, 0.97, "alarm on board")
    if report.detection.known_at is not None:
        axis.axvline(report.detection.known_at - begin, color=TARGET, linewidth=0.8)
        _told(axis, report.detection.known_at - begin, 0.18, "known at the trackside")
    axis.set_ylabel(f"{KINDS['flat_wheel'].name}:\ncrest factor of a turn")
    axis.legend(loc="lower left", frameon=False)


def _delivered(axis: Axes, outcome: EdgeOutcome) -> None:
    begin = outcome.report.begun_at
    made = np.concatenate([np.array(said.times) for said in outcome.verdicts.values()]) - begin
    came = np.array(outcome.delivered_at) - begin
    edges = np.arange(0.0, _end(outcome) + 1.0, 1.0)
    axis.fill_between(
        edges[:-1], np.histogram(came, edges)[0], step="post", color=TARGET, alpha=0.5, label="came"
    )
    axis.step(edges[:-1], np.histogram(made, edges)[0], where="post", color=SOURCE, label="made on board")
    axis.set_ylabel("events/s")
    axis.legend(loc="upper left", frameon=False, ncols=2)


def _ride(axis: Axes, outcome: EdgeOutcome) -> None:
    begin = outcome.report.begun_at
    results_by_site(axis, outcome.riding, begin, begin + _end(outcome), COLOURS)
    axis.set_ylabel(f"results/s\nof {RIDE}")
    for move, right in shade_moves(axis, outcome.report.migrations, begin):
        _told(axis, right, 0.97, f"{move.way}\n{move.total_s or 0:.1f} s")


def _without_link(axis: Axes, outcome: EdgeOutcome) -> None:
    for call in outcome.journey.calls[:-1]:
        until = call.departs_s + call.stop.section_s
        hatch = "///" if call.stop.tunnel else None
        axis.axvspan(
            call.departs_s, until, facecolor=OFF_LINE, edgecolor=LINE, hatch=hatch, linewidth=0, zorder=-1
        )


def _told(axis: Axes, at: float, height: float, text: str) -> None:
    axis.annotate(
        text,
        xy=(at, height),
        xycoords=("data", "axes fraction"),
        xytext=(3, 0),
        textcoords="offset points",
        va="top" if height > 0.5 else "bottom",
        fontsize=8,
    )


def _end(outcome: EdgeOutcome) -> float:
    came = [*outcome.delivered_at, *(result.received_at for result in outcome.riding)]
    return max(came, default=outcome.report.begun_at) - outcome.report.begun_at


def _thinned(seconds: Sequence[float] | np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    step = max(1, len(values) // POINTS)
    return np.asarray(seconds)[::step], values[::step]
