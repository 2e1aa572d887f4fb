"""Answers that are estimated from a part of the events: their promise over real data, and what it saves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest

from towpath.contracts.job import Input
from towpath.contracts.operators import Chain, Window
from towpath.lab.workload.departures import departures
from towpath.queries.compilation import Asked, compiled
from towpath.queries.evaluation.estimates import estimate, interval
from towpath.queries.evaluation.totals import Totals, Weighted
from towpath.queries.program import WEIGHTED_PARTS
from towpath.queries.sample_sizes import ClosedWindow, SampleSizes
from towpath.queries.tree import Use
from towpath.streams.reading import Reading
from towpath.streams.thinning import Thinner, ThinningOption

DAY_S = 86_400
DEPARTURES = 70_000
PANE_MICROS = DAY_S * 1_000_000
STREAM = 's = STREAM FROM topic(topic="site/departures", time="departed_at")\n'
ERROR, CONFIDENCE = 0.05, 0.95

Day = tuple[int, list[tuple[int, bytes, dict[str, float]]]]
"""Number of the day, and its events: serial number, event, and the value of each function's argument."""


@cache
def days() -> list[Day]:
    """Return departures of some months that were not cancelled, day by day, in the order of their times."""
    found: dict[int, list[tuple[int, bytes, dict[str, float]]]] = {}
    flown = sorted(
        (
            one
            for one in departures(limit=DEPARTURES)
            if b'"departed_at":null' not in one.payload.replace(b" ", b"")
        ),
        key=lambda one: one.at,
    )
    for serial, one in enumerate(flown, 1):
        event = json.loads(one.payload)
        values = {"distance": float(event["distance"]), "delay": float(event["delay"])}
        found.setdefault(int(one.at // DAY_S), []).append((serial, one.payload, values))
    return sorted(found.items())


@dataclass
class Judged:
    """Windows of a run, and how far their estimates were off."""

    windows: int = 0
    kept: int = 0
    """With an error within the promised one."""
    covered: int = 0
    """Whose interval holds the true value."""
    read: int = 0
    events: int = 0
    exact: int = 0
    """Windows of which all events were read."""
    errors: list[float] = field(default_factory=list)


def judged(query: str) -> Judged:
    """Run a query as a job does: panes of a day, of which shares follow for the next days."""
    made = compiled(Asked("q", "jfk", f"{STREAM}q = COMPUTE {query} EVERY 1 DAYS", {}, ["jfk"]))
    panes_job = made.pipeline.jobs[0]
    assert isinstance(panes_job.operator, Chain)
    window = panes_job.operator.steps[-1]
    assert isinstance(window, Window)
    (use,) = made.sites[0].plan.program.queries[0].uses
    sizes, thinner = _controls(panes_job.inputs[0], window)
    column = next(iter(made.sites[0].plan.arguments))
    assert use.window is not None
    length = round(use.window.micros / PANE_MICROS)  # type: ignore[union-attr]
    result, past, shares = Judged(), list[dict[str, tuple[Totals, Totals]]](), dict[str, float]()
    for day, events in days():
        panes = {key: _pane(rows) for key, rows in _by_origin(events, thinner, shares, use).items()}
        result.events += len(events)
        result.read += sum(totals.count for totals, _ in panes.values())
        sizes.take_in(
            ClosedWindow(day, {window.key[0]: f"={key}"}, _columns(column, totals))
            for key, (totals, _) in panes.items()
        )
        shares = sizes.shares()
        past = [*past, panes][-length:]
        if len(past) == length:
            for key in panes:
                _judge(result, use, [one[key] for one in past if key in one])
    return result


def _controls(source: Input, window: Window) -> tuple[SampleSizes, Thinner]:
    assert source.thinning is not None
    strata = source.thinning.strata
    reading = Reading(dict.fromkeys(strata, "string"), from_device=True)
    return SampleSizes(window.precision, [*strata.values()]), Thinner(
        ThinningOption(tuple(strata), None), reading
    )


def _by_origin(
    events: Sequence[tuple[int, bytes, dict[str, float]]],
    thinner: Thinner,
    shares: Mapping[str, float],
    use: Use,
) -> dict[str, list[tuple[float, float]]]:
    """Return key → the share and the value of each event; the share is 0 where it was not read."""
    name = use.arguments[0].value.name  # type: ignore[union-attr]
    bodies = [body for _, body, _ in events]
    read = thinner.shares([serial for serial, _, _ in events], bodies, shares)
    found: dict[str, list[tuple[float, float]]] = {}
    for share, (_, body, values) in zip(read, events, strict=True):
        found.setdefault(json.loads(body)["origin"], []).append((share, values[name]))
    return found


def _pane(rows: Sequence[tuple[float, float]]) -> tuple[Totals, Totals]:
    """Return the totals of the events that were read, and of all."""
    part, whole = Totals(), Totals()
    for share, value in rows:
        for totals, weight in ((part, 1 / share if share else 0.0), (whole, 1.0)):
            if weight:
                totals.count += 1
                sums = [weight * (weight - 1) ** i * value**j for i, j in WEIGHTED_PARTS.values()]
                totals.weighted.add(Weighted(*sums))
    return part, whole


def _columns(column: str, totals: Totals) -> dict[str, float | None]:
    return {f"{column}_{name}": value for name, value in vars(totals.weighted).items()}


def _judge(result: Judged, use: Use, panes: Sequence[tuple[Totals, Totals]]) -> None:
    part, whole = Totals(), Totals()
    for one, other in panes:
        part.add(one)
        whole.add(other)
    found, true = estimate(use.function, part), estimate(use.function, whole)
    bounds = interval(use.function, part, CONFIDENCE)
    assert found is not None
    assert true is not None
    assert bounds is not None
    result.windows += 1
    result.errors.append(abs(found - true) / abs(true))
    result.kept += result.errors[-1] <= ERROR
    result.covered += bounds[0] - 1e-9 <= true <= bounds[1] + 1e-9
    result.exact += part.count == whole.count


def _promises() -> Iterator[str]:
    for function in ("AVG(distance", "SUM(distance", "COUNT(distance WHEN > 0"):
        yield f"{function}, 7 DAYS) BY origin WITH MAX_ERROR {ERROR} AND CONFIDENCE {CONFIDENCE}"


@pytest.mark.parametrize("query", [*_promises()])
def test_estimates_when_made_over_months_then_keep_their_error_as_often_as_promised(query: str) -> None:
    found = judged(query)

    assert found.windows > 150
    assert found.kept >= CONFIDENCE * found.windows
    # The interval is told of every answer, so it must hold, too: here within three deviations.
    least = CONFIDENCE - 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / (found.windows / 7))
    assert found.covered >= least * found.windows
    assert found.read < 0.75 * found.events
