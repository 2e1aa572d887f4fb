"""The steps of an operation as bars over time, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from matplotlib.patches import Patch

from towpath.contracts.commands import OperationView
from towpath.reports.drawing import FAULT, LINE, QUIET, beside, colour, drawn, illustration
from towpath.reports.steps import TakenStep

NARROWEST = 0.004
"""Width of a bar, of the whole picture's: shorter steps are drawn so wide."""


def steps_picture(view: OperationView, steps: Sequence[TakenStep], until: float, name: str) -> Element:
    """Draw the steps from the operation's begin to `until`, Unix seconds."""
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
        axis.set_ylim(len(steps) - 0.4, -0.6)
        axis.set_xlim(0, length * 1.12)
        axis.set_xlabel("seconds since the migration was accepted")
        axis.grid(axis="x", color=LINE, lw=0.5)
        axis.set_axisbelow(True)
        handles = [Patch(color=colour(n), label=actor) for n, actor in enumerate(actors)]
        figure.legend(handles=handles, loc="upper right", frameon=False, ncols=len(actors), fontsize=8)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / figure.get_figheight()))
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
