"""The pipeline that the fog demonstration changes under load: its two descriptions, and its checker."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from towpath.checker.accepted import StoredEvent
from towpath.checker.observation import ReceivedMessage, observe
from towpath.composition.difference import difference, spelled_out
from towpath.composition.running import RunningJob
from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.pipeline import Action, PlannedChange
from towpath.lab.demonstration.fog.change import describe
from towpath.lab.demonstration.fog.change_truth import ChangeVerdict, identity_of_jobs, judge_change
from towpath.lab.demonstration.fog.pipelines import described
from towpath.lab.harness.judge import StoredInput

BEFORE, AFTER = described("delays-1"), described("delays-2")
SPECS = {job.name: job.job_spec() for job in (*BEFORE.jobs, *AFTER.jobs)}
OLD, NEW = "departures/jfk", "departures/jfk/all"
CUT, HELD, GONE = 6, 5, 7
"""C writes the first six to the old topic; B takes seven, and five were cleaned when the change came."""

START = datetime(2013, 1, 1, tzinfo=UTC)
DELAYS = [0.0, 30.0, -5.0, 500.0, 20.0, 0.0, 300.0, 40.0, 10.0, 0.0]
EVENTS: list[dict[str, Any]] = [
    {"id": n, "carrier": "UA", "departed_at": (START + timedelta(minutes=n)).isoformat(), "delay": delay}
    for n, delay in enumerate(DELAYS)
]
EVENTS.append(
    {"id": 99, "carrier": "~~", "departed_at": (START + timedelta(days=9)).isoformat(), "delay": 60.0}
)
"""The last one closes all windows before it."""

SENT = [json.dumps(event).encode() for event in EVENTS] + [b"{"]

Fault = Callable[[list[ReceivedMessage]], list[ReceivedMessage]]


def envelope(job: str, serial: int, **body: Any) -> bytes:
    about = {"job": job, "site": "jfk", "epoch": 1, "serial": serial, "stored_at": START.isoformat()}
    return json.dumps({**about, "count": 1, **body}).encode()


def published(job: str, topic: str, serial: int, **body: Any) -> ReceivedMessage:
    return observe(envelope(job, serial, **body), identity_of_jobs(SPECS.values()), 200.0, topic=topic)


def only(event: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: event[name] for name in fields}


def stored(*payloads: bytes, from_device: bool = False) -> StoredInput:
    events = [StoredEvent(serial, payload) for serial, payload in enumerate(payloads, start=1)]
    return StoredInput("jfk/any", from_device, events)


PLAUSIBLE = [(place, event) for place, event in enumerate(EVENTS[CUT:], start=1) if event["delay"] < 240]
"""Of what C wrote to the new topic, with the serial numbers there."""

CLEANED = stored(*(envelope("clean-jfk", n, values=event) for n, event in enumerate(EVENTS, start=1)))
PASSED_ON = [envelope("forward-jfk", n, values=event) for n, event in enumerate(EVENTS, start=1)]
INPUTS = {
    "clean-jfk": stored(*SENT, from_device=True),
    "late-jfk": CLEANED,
    "forward-jfk": CLEANED,
    "plausible-jfk": stored(*PASSED_ON[CUT:]),
    "hourly-jfk": stored(
        *PASSED_ON[:CUT], *(envelope("plausible-jfk", place, values=event) for place, event in PLAUSIBLE)
    ),
}


def flawless() -> list[ReceivedMessage]:
    """Return the results that subscribers receive when nothing goes wrong."""
    numbered = [*enumerate(EVENTS, start=1)]
    found = [published("clean-jfk", "departures/clean", n, values=event) for n, event in numbered]
    rejected = {"job": "clean-jfk", "serial": 12, "input": "jfk/site/departures", "reason": "?", "event": "{"}
    body = json.dumps({**rejected, "stored_at": START.isoformat()}).encode()
    found.append(observe(body, identity_of_jobs(SPECS.values()), 150.0, topic="departures/clean/rejected"))
    found += [
        published("late-jfk", "departures/late", n, values=only(event, "id", "carrier", "delay"))
        for n, event in numbered[:GONE]
        if event["delay"] > 15
    ]
    found += [published("forward-jfk", OLD if n <= CUT else NEW, n, values=event) for n, event in numbered]
    found += [published("plausible-jfk", OLD, place, values=event) for place, event in PLAUSIBLE]
    counted = [event["delay"] for event in (*EVENTS[:CUT], *(event for _, event in PLAUSIBLE[:-1]))]
    bounds = {"start": START.isoformat(), "end": (START + timedelta(hours=1)).isoformat()}
    values = {"departures": len(counted), "mean_delay": sum(counted) / len(counted)}
    window = {"window": bounds, "key": {"carrier": "UA"}, "values": values}
    return [*found, published("hourly-jfk", "departures/hourly", 9, **window)]


def of(job: str, event: int, seen: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """The results of a job for one event."""
    return [o for o in seen if o.body.get("job") == job and o.body.get("values", {}).get("id") == event]


def without(job: str, event: int) -> Fault:
    return lambda seen: [o for o in seen if o not in of(job, event, seen)]


def twice(job: str, event: int) -> Fault:
    return lambda seen: [*seen, *of(job, event, seen)]


def also(job: str, topic: str, event: int, serial: int) -> Fault:
    return lambda seen: [*seen, published(job, topic, serial, values=EVENTS[event])]


def misplaced(seen: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """C wrote an event to the old topic, after others had gone to the new one."""
    return also("forward-jfk", OLD, 8, 9)(without("forward-jfk", 8)(seen))


def judged(seen: list[ReceivedMessage]) -> ChangeVerdict:
    return judge_change(SPECS, INPUTS, HELD, seen, OLD)


def test_verdict_when_everything_came_once_and_on_its_side_of_the_change_then_it_is_clean() -> None:
    found = judged(flawless())
    assert found.verdict.clean, found.verdict.examples
    assert (found.old_topic, found.new_topic) == (CUT, len(EVENTS) - CUT)


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
        pytest.param(also("forward-jfk", NEW, 2, 3), "duplicated", id="C writes an event to both topics"),
        pytest.param(
            also("plausible-jfk", OLD, 2, 99), "unexpected", id="C2 passes one from before the change"
        ),
        pytest.param(also("plausible-jfk", OLD, 6, 1), "unexpected", id="C2 passes what it should not"),
        pytest.param(misplaced, "wrong", id="C goes back to the old topic"),
        pytest.param(lambda seen: seen[:-1], "lost", id="D loses a window"),
        pytest.param(lambda seen: [*seen, seen[-1]], "duplicated", id="D repeats a window"),
    ],
)
def test_verdict_when_something_went_wrong_then_it_says_what(fault: Fault, counted: str) -> None:
    verdict = judged(fault(flawless())).verdict
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
