"""The pipeline that the fog demonstration changes under load: its two descriptions, and its checker."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from towpath.checker.observation import ReceivedMessage, observe
from towpath.checker.verdict import Verdict
from towpath.composition.difference import difference, spelled_out
from towpath.composition.running import RunningJob
from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.pipeline import Action, PlannedChange
from towpath.lab.demonstration.fog.change import describe
from towpath.lab.demonstration.fog.change_truth import change_truth, judge_change
from towpath.lab.demonstration.fog.pipelines import described
from towpath.lab.demonstration.truth import identity_in_pipeline

BEFORE, AFTER = described("delays-1"), described("delays-2")
OLD, NEW = "departures/jfk", "departures/jfk/all"
CUT, CHANGED_AT, GONE = 6, 100.0, 7
"""C writes the first six to the old topic; B takes seven, and five were cleaned when the change came."""

START = datetime(2013, 1, 1, tzinfo=UTC)
DELAYS = [0.0, 30.0, -5.0, 500.0, 20.0, 0.0, 300.0, 40.0, 10.0, 0.0]
EVENTS: list[dict[str, Any]] = [
    {"id": n, "carrier": "UA", "departed_at": (START + timedelta(minutes=n)).isoformat(), "delay": delay}
    for n, delay in enumerate(DELAYS)
]
SENT = [json.dumps(event).encode() for event in EVENTS] + [b"{"]

Fault = Callable[[list[ReceivedMessage]], list[ReceivedMessage]]


def published(job: str, topic: str, at: float = 200.0, **body: Any) -> ReceivedMessage:
    stored = START.isoformat()
    whole = {"job": job, "site": "jfk", "epoch": 1, "serial": 1, "stored_at": stored, "count": 1, **body}
    return observe(json.dumps(whole).encode(), identity_in_pipeline, at, topic=topic)


def only(event: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: event[name] for name in fields}


def flawless() -> list[ReceivedMessage]:
    """Return the results that subscribers receive when nothing goes wrong."""
    found = [
        published("clean-jfk", "departures/clean", 50.0 if n < 5 else 150.0, values=event)
        for n, event in enumerate(EVENTS)
    ]
    rejected = {"job": "clean-jfk", "serial": 11, "input": "jfk/site/departures", "reason": "?", "event": "{"}
    body = json.dumps({**rejected, "stored_at": START.isoformat()}).encode()
    found.append(observe(body, identity_in_pipeline, 150.0, topic="departures/clean/rejected"))
    late = [event for event in EVENTS[:GONE] if event["delay"] > 15]
    found += [
        published("late-jfk", "departures/late", values=only(e, "id", "carrier", "delay")) for e in late
    ]
    found += [
        published("forward-jfk", OLD if n < CUT else NEW, values=event) for n, event in enumerate(EVENTS)
    ]
    plausible = [event for event in EVENTS[CUT:] if event["delay"] < 240]
    found += [published("plausible-jfk", OLD, values=event) for event in plausible]
    counted = [event["delay"] for event in (*EVENTS[:CUT], *plausible)]
    bounds = {"start": START.isoformat(), "end": (START + timedelta(hours=1)).isoformat()}
    values = {"departures": len(counted), "mean_delay": sum(counted) / len(counted)}
    window = {"window": bounds, "key": {"carrier": "UA"}, "values": values}
    return [*found, published("hourly-jfk", "departures/hourly", **window)]


def of(job: str, event: int, seen: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """The results of a job for one event."""
    return [o for o in seen if o.body.get("job") == job and o.body.get("values", {}).get("id") == event]


def without(job: str, event: int) -> Fault:
    return lambda seen: [o for o in seen if o not in of(job, event, seen)]


def twice(job: str, event: int) -> Fault:
    return lambda seen: [*seen, *of(job, event, seen)]


def also(job: str, topic: str, event: int, *fields: str) -> Fault:
    values = only(EVENTS[event], *(fields or tuple(EVENTS[event])))
    return lambda seen: [*seen, published(job, topic, values=values)]


def misplaced(seen: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """C wrote an event to the old topic, after others had gone to the new one."""
    rest = without("forward-jfk", 8)(seen)
    return [*rest, published("forward-jfk", OLD, values=EVENTS[8])]


def judged(seen: list[ReceivedMessage]) -> Verdict:
    return judge_change(change_truth(BEFORE, SENT, seen, OLD, CHANGED_AT), seen)


def test_verdict_when_everything_came_once_and_on_its_side_of_the_change_then_it_is_clean() -> None:
    verdict = judged(flawless())
    assert verdict.clean, verdict.examples
    expected = change_truth(BEFORE, SENT, flawless(), OLD, CHANGED_AT)
    assert (expected.old_topic, expected.new_topic) == (CUT, len(EVENTS) - CUT)


@pytest.mark.parametrize(
    ("fault", "counted"),
    [
        pytest.param(without("clean-jfk", 9), "lost", id="A loses an event"),
        pytest.param(without("late-jfk", 1), "lost", id="B loses an event that its input held"),
        pytest.param(without("late-jfk", 4), "lost", id="B loses the last that its input held"),
        pytest.param(without("forward-jfk", 9), "lost", id="C loses an event after the change"),
        pytest.param(without("forward-jfk", 5), "lost", id="C loses the last event before the change"),
        pytest.param(without("plausible-jfk", 6 + 1), "lost", id="C2 loses its first event"),
        pytest.param(twice("plausible-jfk", 8), "duplicated", id="C2 repeats an event"),
        pytest.param(also("forward-jfk", NEW, 2), "duplicated", id="C writes an event to both topics"),
        pytest.param(also("plausible-jfk", OLD, 2), "unexpected", id="C2 passes one from before the change"),
        pytest.param(also("plausible-jfk", OLD, 6), "unexpected", id="C2 passes what it should not"),
        pytest.param(misplaced, "wrong", id="C goes back to the old topic"),
        pytest.param(lambda seen: seen[:-1], "lost", id="D loses a window"),
        pytest.param(lambda seen: [*seen, seen[-1]], "duplicated", id="D repeats a window"),
    ],
)
def test_verdict_when_something_went_wrong_then_it_says_what(fault: Fault, counted: str) -> None:
    verdict = judged(fault(flawless()))
    assert not verdict.clean
    assert getattr(verdict, counted) >= 1


def changes() -> dict[str, PlannedChange]:
    running = {j.name: RunningJob(spelled_out(j), j.site, "delays") for j in BEFORE.jobs}
    return {change.job: change for change in difference(AFTER, running, {})}


def test_descriptions_when_compared_then_they_differ_as_the_papers_two_listings_do() -> None:
    assert {job: change.actions for job, change in changes().items()} == {
        "clean-jfk": [Action.KEEP],
        "late-jfk": [Action.REMOVE],
        "forward-jfk": [Action.REDIRECT],
        "plausible-jfk": [Action.ADD],
        "hourly-jfk": [Action.REDIRECT, Action.MOVE],
    }


@pytest.mark.parametrize("spec", [BEFORE, AFTER], ids=["before", "after"])
def test_description_when_its_sites_are_there_then_nothing_is_wrong_with_it(spec: Any) -> None:
    sites = {name: SiteFacts(up=True) for name in ("jfk", "cloud")}
    assert problems(spec, sites=sites, mine={}, others={}) == []


def test_change_when_it_is_told_then_it_says_what_where_and_why() -> None:
    assert describe(changes()["late-jfk"]) == "late-jfk: remove (not in the description)"
