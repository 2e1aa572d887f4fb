"""Report a migration: source and target, costs, each step, and the job's measurements meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from towpath.contracts.commands import OperationKind, OperationState, OperationView
from towpath.contracts.message import now
from towpath.reports.costs import amount, choice_line, cost_rows, downtime, route, seconds
from towpath.reports.course_picture import course_picture, missing_rows
from towpath.reports.curves import Interval
from towpath.reports.drawing import FAULT, QUIET, beside, colour, drawn, frame_bars, illustration
from towpath.reports.facts import MigrationFacts
from towpath.reports.markup import paragraph, section, table
from towpath.reports.page import page
from towpath.reports.steps import TakenStep, taken_steps, told
from towpath.reports.trace_picture import trace_picture

OUTCOMES = {
    OperationState.RUNNING: "is under way",
    OperationState.ROLLING_BACK: "is being rolled back",
    OperationState.COMPLETED: "was completed",
    OperationState.ROLLED_BACK: "was rolled back: the job stays where it was",
    OperationState.NEEDS_OPERATOR: "needs an operator",
}


def migration_page(facts: MigrationFacts) -> str:
    """Return the page about a migration, or about another operation."""
    return page(title(facts.view), lead(facts.view), migration_sections(facts), made_at=now())


def title(view: OperationView) -> str:
    """Return an operation in a few words."""
    if view.kind is OperationKind.MIGRATE:
        return f"{view.job} moves from {view.source} to {view.target}"
    return f"{str(view.kind).capitalize()} of {view.job}"


def lead(view: OperationView) -> str:
    """Return one or two sentences about an operation: way, outcome, cost."""
    by = f" by {view.strategy}" if view.strategy else ""
    text = f"The {_noun(view)} of {view.job}{route(view)}{by} {OUTCOMES[view.state]}"
    figures = view.figures
    if figures is None:
        return f"{text}{f' ({view.note})' if view.note else ''}."
    note = f" Note: {view.note}." if view.note else ""
    cost = f"{_idle(figures.downtime_s)}; {amount(figures.state_bytes)} of state moved"
    return f"{text} in {seconds(figures.total_s)}, {cost}.{note}"


def migration_sections(facts: MigrationFacts, *, name: str = "migration", level: int = 2) -> list[Element]:
    """Return all sections about one migration. Its pictures' ids begin with `name`, unique on the page."""
    view, steps = facts.view, taken_steps(facts.view)
    during = Interval(view.begun_at.timestamp(), (view.ended_at or now()).timestamp())
    return [
        section("What it cost", *_costs(view), level=level),
        section("Step by step", *_steps(view, steps, during, name), level=level),
        section("What the job did meanwhile", *_course(facts, steps, during, name), level=level),
        section("Trace", *_trace(facts, name), level=level),
        section("Journal", *_journal(view, steps), level=level),
    ]


def _idle(downtime_s: float | None) -> str:
    if downtime_s is None:
        return "without input that could show a gap"
    return "without downtime" if downtime_s == 0 else f"with a downtime of {downtime(downtime_s)}"


def _noun(view: OperationView) -> str:
    return "migration" if view.kind is OperationKind.MIGRATE else str(view.kind)


def _costs(view: OperationView) -> list[Element]:
    rows = cost_rows(view)
    if not rows:
        return [paragraph("Nothing was forecast, and nothing measured yet.")]
    content = [table(("", "expected", "measured"), rows, caption="Forecast against what was measured.")]
    if view.forecast is not None:
        content.insert(0, paragraph(f"Chosen was {choice_line(view.forecast)}."))
        content.append(paragraph(_accuracy(view)))
    return content


def _accuracy(view: OperationView) -> str:
    """Return a sentence that compares the forecast with the measurement."""
    forecast, figures = view.forecast, view.figures
    assert forecast is not None
    basis = f"The forecast rests on {forecast.basis}."
    if figures is None or forecast.total_s <= 0:
        return basis
    ratio = figures.total_s / forecast.total_s
    took, expected = seconds(figures.total_s), seconds(forecast.total_s)
    return f"It took {took}, where {expected} were expected: {ratio:.1f} times as long. {basis}"


def _steps(view: OperationView, steps: list[TakenStep], during: Interval, name: str) -> list[Element]:
    if not steps:
        return [paragraph("The journal is empty: no step was begun.")]
    return [steps_picture(view, steps, during.end, f"{name}-steps")]


def _course(facts: MigrationFacts, steps: list[TakenStep], during: Interval, name: str) -> list[Element]:
    picture = course_picture(facts.view, steps, facts.measured, during, f"{name}-course")
    missing = missing_rows(facts.view, facts.measured)
    content = [] if picture is None else [picture]
    if (shortfall := facts.measured.shortfall()) is not None:
        content.append(paragraph(shortfall, class_="quiet"))
    if missing and facts.measured.failure is None:
        text = f"No site measured this of {facts.view.job} in that time: {', '.join(missing)}."
        content.append(paragraph(text, class_="quiet"))
    return content


def _trace(facts: MigrationFacts, name: str) -> list[Element]:
    if facts.trace is None:
        return [paragraph(f"There is no trace: {facts.untraced or 'none was recorded'}.", class_="quiet")]
    picture = trace_picture(facts.trace, f"{name}-trace")
    content = [paragraph("The trace has no spans.", class_="quiet")] if picture is None else [picture]
    if facts.trace.unreached:
        silent = "; ".join(f"{site} ({why})" for site, why in sorted(facts.trace.unreached.items()))
        content.append(paragraph(f"Spans of these are missing: {silent}.", class_="quiet"))
    return content


def _journal(view: OperationView, steps: list[TakenStep]) -> list[Element]:
    rows = [
        (
            number,
            step.name,
            step.actor,
            step.phase,
            f"{(step.begun_at - view.begun_at).total_seconds():+.3f} s",
            None if step.took_s is None else f"{step.took_s:.3f} s",
            told(step.detail),
        )
        for number, step in enumerate(steps, 1)
    ]
    columns = ("", "step", "actor", "phase", "begun after", "took", "detail")
    caption = f"Operation {view.operation}, accepted {view.begun_at.isoformat(timespec='milliseconds')}."
    return [table(columns, rows, caption=caption)]


NARROWEST = 0.004
"""Least width of a bar, as a part of the picture's. Shorter steps are drawn this wide."""


def steps_picture(view: OperationView, steps: Sequence[TakenStep], until: float, name: str) -> Element:
    """Draw the steps from the operation's begin to `until`, in Unix seconds."""
    origin = view.begun_at.timestamp()
    length = max(until - origin, 1e-3)
    actors = list(dict.fromkeys(step.actor or "unknown" for step in steps))
    with drawn(height=0.9 + 0.24 * len(steps)) as (figure, [axis]):
        for position, step in enumerate(steps):
            begin = step.begun_at.timestamp() - origin
            end = length if step.ended_at is None else step.ended_at.timestamp() - origin
            width = max(end - begin, NARROWEST * length)
            fill = QUIET if step.undoing else colour(actors.index(step.actor or "unknown"))
            edge = FAULT if step.failed else fill
            axis.barh(position, width, left=begin, height=0.62, color=fill, edgecolor=edge, lw=1.2)
            beside(axis, begin + width, position, _took(step))
        axis.set_yticks(range(len(steps)), [f"{n}. {step.name}" for n, step in enumerate(steps, 1)])
        frame_bars(figure, axis, len(steps), length, actors, "the migration was accepted")
        return illustration(figure, name, alt=_alt(steps), caption=_caption(steps, length))


def _took(step: TakenStep) -> str:
    if step.took_s is None:
        return "under way"
    outcome = "undone, " if step.undoing else "failed, " if step.failed else ""
    return f"{outcome}{step.took_s:.2f} s"


def _alt(steps: Sequence[TakenStep]) -> str:
    told = (f"{step.name} by {step.actor or 'unknown'}, {_took(step)}" for step in steps)
    return f"Bars over time, one for each step: {'; '.join(told)}."


def _caption(steps: Sequence[TakenStep], length: float) -> str:
    ended = [step for step in steps if step.took_s is not None]
    if not ended:
        return f"No step has ended yet, {length:.2f} s after the migration was accepted."
    longest = max(ended, key=lambda step: step.took_s or 0.0)
    share = 100 * (longest.took_s or 0.0) / length
    text = (
        f"{len(steps)} steps in {length:.2f} s. The longest was {longest.name}, by the {longest.actor}: "
        f"{longest.took_s:.2f} s, {share:.0f} % of the time."
    )
    failed = [step.name for step in steps if step.failed]
    return text + (f" Not confirmed: {', '.join(failed)}." if failed else "")
