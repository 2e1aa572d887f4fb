"""`demo/queries.png`: the shared plan with what crosses each link, and answers over time while jobs move."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from towpath.lab.demonstration.pipeline import CLOUD
from towpath.lab.demonstration.queries.report import QueriesReport, SitePart
from towpath.lab.demonstration.queries.run import MOVED_TO, ONE_QUERY, RAW, QueriesOutcome
from towpath.lab.demonstration.queries.texts import MOVED_QUERY, SHARED
from towpath.lab.harness.picture import (
    INK,
    QUIET,
    SOURCE,
    STYLE,
    TARGET,
    label,
    results_by_site,
    shade_moves,
    write,
)
from towpath.reports.drawing import COLOURS

BOX_WIDTH, WRAP = 0.34, 46
"""Of a site's box in the plan, and the characters of a line in it."""

WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
"""Behind text on an arrow."""


def draw(path: Path, outcome: QueriesOutcome) -> None:
    """Draw the plan and the answers into a file."""
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(15, 7.2))
        grid = figure.add_gridspec(2, 2, width_ratios=[1.1, 1])
        _plan(figure.add_subplot(grid[:, 0]), outcome.report)
        values = figure.add_subplot(grid[0, 1])
        rates = figure.add_subplot(grid[1, 1], sharex=values)
        _values(values, outcome)
        _rates(rates, outcome)
        figure.suptitle(_title(outcome.report), x=0.01, ha="left", fontweight="bold")
        _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    write(figure, path)
    plt.close(figure)


def _title(report: QueriesReport) -> str:
    judged = report.judged
    return (
        f"{len(report.queries)} queries over {len(report.sites)} airports, "
        f"{report.days:.0f} days of real departures in {report.seconds_sent:g} s\n"
        f"{judged.results:,} answers of {judged.expected:,}: {judged.in_three}"
    )


def _plan(axis: Axes, report: QueriesReport) -> None:
    axis.set_axis_off()
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_title(
        f"What each site keeps of every pane, for which queries of {SHARED}.sight\n"
        "and bytes over its link for each event",
        loc="left",
    )
    height = 1 / len(report.plan)
    queries = [each.query for each in report.queries if each.text == SHARED]
    answering = f"{CLOUD}, then {MOVED_TO}\n\nmakes the answers of\n" + "\n".join(queries)
    axis.text(0.99, 0.5, answering, ha="right", va="center", bbox=_box(TARGET))
    for number, part in enumerate(report.plan):
        middle = 1 - height * (number + 0.5)
        axis.text(0.0, middle, _kept(part), ha="left", va="center", fontsize=7, bbox=_box(SOURCE))
        axis.annotate(
            "",
            xy=(0.80, 0.5 + (0.5 - number / 2) * 0.12 - 0.03),
            xytext=(BOX_WIDTH, middle),
            arrowprops={"arrowstyle": "-|>", "color": QUIET, "linewidth": 1.2},
        )
        place = (BOX_WIDTH + 0.80) / 2
        axis.text(
            place,
            (middle + 0.5) / 2,
            _bytes(report, part.site),
            ha="center",
            va="center",
            fontsize=8,
            bbox=WHITE,
        )


def _box(colour: str) -> dict[str, object]:
    return {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": colour}


def _kept(part: SitePart) -> str:
    lines = [f"{part.site}: panes of {part.pane_s / 3600:g} h"]
    for each in part.kept:
        of = each.of.partition(" of ")[0]
        lines.append(fill(f"{each.part} of {of} → {', '.join(each.serves)}", WRAP, subsequent_indent="    "))
    return "\n".join(lines)


def _bytes(report: QueriesReport, site: str) -> str:
    """Return the bytes over a site's link for each event."""
    share = report.events_at[site] / report.events
    by_name = {each.what: each.per_event([site]) / share for each in report.crossings}
    return "\n".join(
        f"{name}: {by_name[what]:.0f} B" if by_name[what] >= 10 else f"{name}: {by_name[what]:.1f} B"
        for name, what in (
            (f"{MOVED_QUERY} alone", ONE_QUERY),
            ("raw events", RAW),
        )
    )


def _values(axis: Axes, outcome: QueriesOutcome) -> None:
    until = outcome.ended_at
    for colour, (site, course) in zip(COLOURS[2:], sorted(outcome.courses.items()), strict=False):
        shown = [(at - outcome.begun_at, value) for at, value in course if at <= until]
        axis.plot(*zip(*shown, strict=True), ".-", color=colour, linewidth=0.8, label=site)
    axis.set_ylabel("mean delay of a day, minutes")
    axis.set_title(f"{MOVED_QUERY}: answers as they come", loc="left")
    axis.legend(frameon=False, loc="upper left", ncols=3)
    shade_moves(axis, outcome.report.moves, outcome.begun_at)


def _rates(axis: Axes, outcome: QueriesOutcome) -> None:
    report, begin = outcome.report, outcome.begun_at
    end = outcome.ended_at
    shown = [each for each in outcome.arrivals if each.received_at <= end]
    results_by_site(axis, shown, begin, end, {CLOUD: SOURCE, MOVED_TO: TARGET})
    axis.set_xlim(0, end - begin)
    axis.set_ylabel("answers/s of all queries")
    axis.set_xlabel("seconds since departures came at the full rate")
    for number, (move, right) in enumerate(shade_moves(axis, report.moves, begin)):
        downtime = "" if move.downtime_s is None else f", downtime {move.downtime_s:.2f} s"
        told = f"{move.job}\n{move.way}\n{move.total_s or 0:.1f} s{downtime}"
        label(axis, told, right, 0.80 - 0.3 * number, (3, 0), va="top", fontsize=8, color=INK)
    for gap in report.gaps[:1]:
        told = f"longest time without an answer: {gap.around_s:.1f} s around the first move, "
        axis.set_title(f"{told}{gap.before_s:.1f} s before", loc="left")
