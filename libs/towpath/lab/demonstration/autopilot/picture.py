"""`demo/autopilot.png`: where jobs ran on the day, and how late their results were, with and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from towpath.lab.demonstration.autopilot.day import FAILURES, GOAL_S, PLACES, SITES, THREATS
from towpath.lab.demonstration.autopilot.report import AutopilotReport
from towpath.lab.demonstration.autopilot.run import WINDOWED, Day
from towpath.lab.harness.picture import BAND, INK, QUIET, label, saved
from towpath.reports.drawing import COLOURS

SITE_COLOURS: dict[str, str] = dict(zip(SITES, (*COLOURS, QUIET), strict=False))


def draw(path: Path, report: AutopilotReport, days: list[Day]) -> None:
    """Draw both days: a row of bars for each job, coloured by site, and a dot for each result."""
    end = max(
        (each.received_at - day.begun_at for day in days for came in day.results.values() for each in came),
        default=1.0,
    )
    with saved(path, _title(report), rows=2 * len(days), figsize=(11, 9.5), sharex=True) as axes:
        for number, day in enumerate(days):
            places, latencies = axes[2 * number][0], axes[2 * number + 1][0]
            _places(places, day)
            _latencies(latencies, day)
            for axis in (places, latencies):
                axis.set_xlim(0, end)
            with_it = "with the autopilot" if day.report.autopilot else "without"
            places.set_title(f"{with_it}: goals broken for {day.report.late_s:.0f} job-seconds", loc="left")
        axes[-1][0].set_xlabel("seconds of the day")


def _title(report: AutopilotReport) -> str:
    counts = " and ".join(str(len(day.moves)) for day in report.days)
    exact = "all results exact" if report.clean else "not all results exact"
    twice = ", twice" if len(report.days) > 1 else ""
    return f"One day of departures{twice}: {counts} moves, {exact}"


def _places(axis: Axes, day: Day) -> None:
    """Draw where each job's results came from, what happened to sites, and when jobs moved."""
    names = [*PLACES]
    for row, name in enumerate(names):
        for site, begin, end in stays(day, name):
            axis.barh(row, end - begin, left=begin, height=0.7, color=SITE_COLOURS[site], linewidth=0)
            axis.text(begin + 0.8, row, site, va="center", fontsize=7, color="white")
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    for threat in THREATS:
        axis.axvspan(threat.begin_s, threat.end_s, color=BAND, alpha=0.7, zorder=0, linewidth=0)
        height, va = (0.99, "top") if threat in FAILURES else (0.01, "bottom")
        label(axis, f"{threat.site}:\n{threat.what}", threat.begin_s, height, (1, 0), fontsize=6, va=va)
    for decision in day.report.decisions:
        if decision.outcome is not None:
            axis.axvline(decision.decided.timestamp() - day.begun_at, color=INK, linewidth=0.8, linestyle=":")


def stays(day: Day, name: str) -> list[tuple[str, float, float]]:
    """Return where a job was, from when to when: seconds of the day."""
    found: list[tuple[str, float, float]] = []
    begin, site = 0.0, PLACES[name]
    for move in day.report.moves:
        if move.job == name and move.ended_at is not None and move.target is not None:
            end = move.ended_at - day.begun_at
            if move.state == "completed":
                found.append((site, begin, end))
                begin, site = end, move.target
    last = max((each.received_at for came in day.results.values() for each in came), default=day.begun_at)
    return [*found, (site, begin, last - day.begun_at)]


def _latencies(axis: Axes, day: Day) -> None:
    timed: dict[str, Any] = {name: came for name, came in day.results.items() if name != WINDOWED}
    for number, (name, came) in enumerate(timed.items()):
        times = [each.received_at - day.begun_at for each in came]
        axis.scatter(
            times, [each.latency_s for each in came], s=4, color=COLOURS[number], label=name, rasterized=True
        )
    axis.axhline(GOAL_S, color=INK, linewidth=0.8)
    axis.set_ylabel("latency, s")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left", frameon=False, ncols=4, fontsize=7)
