"""Draw a job while it changed site: throughput, latency and backlog at both sites, around the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from matplotlib.axes import Axes

from towpath.contracts.commands import OperationState, OperationView
from towpath.reports.curves import Interval, figures, mark, name_curves, plot, quantity
from towpath.reports.drawing import QUIET, drawn, illustration
from towpath.reports.facts import Curve, ReadSeries
from towpath.reports.steps import TakenStep
from towpath.telemetry.selection import unit_in_words, unit_of

APART = 0.025
"""Part of the picture's width. Steps that begin closer together share one number."""


@dataclass(frozen=True)
class Row:
    """One of the curves drawn of a job."""

    metric: str
    label: str
    noun: str
    """Its name in a sentence."""


ROWS = (
    Row("job.event_rate", "events/s", "Throughput"),
    Row("job.latency.end_to_end.p95", "latency p95, s", "End-to-end latency, 95th percentile"),
    Row("job.backlog", "backlog, events", "Backlog"),
)


def course_picture(
    view: OperationView, steps: Sequence[TakenStep], measured: ReadSeries, during: Interval, name: str
) -> Element | None:
    """Draw all measurements. None if there are none."""
    entity = f"job:{view.job}"
    rows = [(row, curves) for row in ROWS if (curves := measured.by_site(row.metric, entity))]
    if not rows:
        return None
    sites = [site for site in (view.source, view.target) if site]
    with drawn(len(rows), height=0.8 + 1.5 * len(rows), sharex=True) as (figure, axes):
        for axis, (row, curves) in zip(axes, rows, strict=True):
            plot(axis, curves, sites, during.begin, row.label)
            mark(axis, during, during.begin)
            _lines(axis, steps, during.begin)
        name_curves(axes[0])
        _numbers(axes[0], steps, during.begin)
        axes[-1].set_xlabel("seconds since the migration was accepted")
        figure.tight_layout()
        alt = f"Curves over time of {view.job}: {', '.join(row.noun.lower() for row, _ in rows)}."
        told = " ".join([_explanation(steps), *(in_words(row, curves, view, during) for row, curves in rows)])
        return illustration(figure, name, alt=f"{alt} {told}", caption=told)


def missing_rows(view: OperationView, measured: ReadSeries) -> list[str]:
    """Return the nouns of metrics that no site has measured of the job."""
    return [row.noun.lower() for row in ROWS if not measured.by_site(row.metric, f"job:{view.job}")]


def in_words(row: Row, curves: dict[str, Curve], view: OperationView, during: Interval) -> str:
    """Describe a row's curves before, while and after the job moved."""
    owner = view.target if view.state is OperationState.COMPLETED else view.source
    unit = unit_in_words(unit_of(row.metric))
    parts: list[str] = []
    if (before := figures(curves.get(view.source or "", []), end=during.begin)) is not None:
        parts.append(f"{quantity(before.mean, unit)} on average at {view.source} before")
    meanwhile = [
        f"{quantity(found.highest, unit)} at {site}"
        for site, curve in curves.items()
        if (found := figures(curve, during.begin, during.end)) is not None
    ]
    if meanwhile:
        parts.append(f"at most {' and '.join(meanwhile)} during the migration")
    if (after := figures(curves.get(owner or "", []), begin=during.end)) is not None:
        parts.append(f"{quantity(after.mean, unit)} on average at {owner} afterwards")
    return f"{row.noun}: {'; '.join(parts)}." if parts else f"{row.noun}: measured elsewhere only."


def _explanation(steps: Sequence[TakenStep]) -> str:
    if not steps:
        return "Shaded: the migration was under way."
    return "Shaded: the migration was under way. Dashed: a step begins. Dotted: it ends. Steps have numbers."


def _lines(axis: Axes, steps: Sequence[TakenStep], origin: float) -> None:
    for step in steps:
        axis.axvline(step.begun_at.timestamp() - origin, color=QUIET, lw=0.6, ls="--")
        if step.ended_at is not None:
            axis.axvline(step.ended_at.timestamp() - origin, color=QUIET, lw=0.6, ls=":")


def _numbers(axis: Axes, steps: Sequence[TakenStep], origin: float) -> None:
    """Write the steps' numbers above the first axis. Steps that are close together share a range."""
    left, right = axis.get_xlim()
    groups: list[tuple[float, int, int]] = []
    for number, step in enumerate(steps, 1):
        at = step.begun_at.timestamp() - origin
        if groups and at - groups[-1][0] < APART * (right - left):
            groups[-1] = (groups[-1][0], groups[-1][1], number)
        else:
            groups.append((at, number, number))
    for at, first, last in groups:
        text = str(first) if first == last else f"{first}–{last}"
        axis.text(at, 1.02, text, transform=axis.get_xaxis_transform(), fontsize=7, va="bottom")
