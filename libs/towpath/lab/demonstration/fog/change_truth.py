"""The expected results of a pipeline that was changed under load, and the verdict on the actual ones.

Which event meets which version of a job is decided while events flow, so the truth takes one thing from
what was received: how many events the redirected job (C) wrote to its old topic. Everything else follows:
these are the first ones, all others went to the new topic, and only those passed the added job (C2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from towpath.checker.clean_truth import CleanTruth, clean_truth
from towpath.checker.identity import EventIdentity, Identity, ValuesIdentity, named
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Verdict
from towpath.contracts.operators import Clean, Window
from towpath.contracts.pipeline import PipelineSpec
from towpath.lab.demonstration.fog.truth import windows_of
from towpath.lab.demonstration.truth import Expected, Truth, verdict_on
from towpath.lab.workload.departures import CLOSING_CARRIER

CLEANING, LATE, FORWARDING, ADDED, HOURLY = (
    "clean-jfk",
    "late-jfk",
    "forward-jfk",
    "plausible-jfk",
    "hourly-jfk",
)
"""The paper's A, B, C, C2 and D."""

LATE_BEYOND, PLAUSIBLE_BELOW = 15.0, 240.0
"""Minutes: the conditions of B and C2, as the descriptions have them."""

_LATE_FIELDS = ("id", "carrier", "delay")
_ADDED_FIELDS = ("id", "carrier", "delay", "departed_at")


@dataclass(frozen=True)
class ChangeTruth:
    """The expected results, and how the redirected job divided them."""

    truth: Truth
    old_topic: int
    """Events that went to the old topic: the first so many."""
    new_topic: int
    mixed: list[int]
    """Ids that went to the old topic after others had gone to the new one, or to both."""


def change_truth(
    before: PipelineSpec,
    sent: Sequence[bytes],
    observations: Sequence[ReceivedMessage],
    old_topic: str,
    changed_at: float,
) -> ChangeTruth:
    """The truth of a run in which the pipeline `before` was changed at `changed_at`, Unix seconds."""
    operators = {job.name: job.operator for job in before.jobs}
    cleaning, hourly = operators[CLEANING], operators[HOURLY]
    assert isinstance(cleaning, Clean)
    assert isinstance(hourly, Window)
    cleaned = clean_truth(sent, cleaning)
    accepted = [*cleaned.accepted.values()]
    place = {values["id"]: number for number, values in enumerate(accepted)}
    old = {i for i in _ids(observations, FORWARDING, topic=old_topic)}
    first, rest = accepted[: len(old)], accepted[len(old) :]
    plausible = [values for values in rest if values["delay"] < PLAUSIBLE_BELOW]
    until = _last_of_removed(observations, place, changed_at)
    late = [values for values in accepted[: until + 1] if values["delay"] > LATE_BEYOND]
    results = cleaned.results(CLEANING, "id") | cleaned.results(FORWARDING, "id")
    results |= _expected(LATE, late, _LATE_FIELDS) | _expected(ADDED, plausible, _ADDED_FIELDS)
    results |= _hourly([*first, *plausible], hourly)
    mixed = sorted(old - {values["id"] for values in first})
    truth = Truth(results, _rejections(cleaned, sent))
    return ChangeTruth(truth, len(first), len(rest), mixed)


def judge_change(expected: ChangeTruth, observations: Sequence[ReceivedMessage]) -> Verdict:
    """Compare the received results with the truth. Results on the wrong side of the change are wrong."""
    verdict = verdict_on(expected.truth, [*observations])
    verdict.wrong += len(expected.mixed)
    for event in expected.mixed:
        verdict.example("wrong", lambda event=event: f"event {event} on the old topic, after the change")
    return verdict


def _last_of_removed(
    observations: Sequence[ReceivedMessage], place: Mapping[int, int], changed_at: float
) -> int:
    """Place of the last event that the removed job (B) had to take: whatever its input held when the change
    came, and whatever it went on to take until it was gone."""
    held = _ids([o for o in observations if o.received_at < changed_at], CLEANING)
    return max((place.get(i, -1) for i in [*held, *_ids(observations, LATE)]), default=-1)


def _ids(observations: Sequence[ReceivedMessage], job: str, topic: str | None = None) -> list[int]:
    """Ids of a job's results, as received; of those on one topic, if given."""
    return [
        dict(o.identity.values)["id"]
        for o in observations
        if isinstance(o.identity, ValuesIdentity)
        and o.identity.job == job
        and (topic is None or o.topic == topic)
    ]


def _expected(job: str, events: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> Expected:
    return {
        ValuesIdentity(job, named({"id": values["id"]})): {name: values[name] for name in fields}
        for values in events
    }


def _hourly(events: Sequence[Mapping[str, Any]], operator: Window) -> Expected:
    frame = pd.DataFrame([*events])
    # The closing event's own window never closes.
    real = frame.loc[frame["carrier"] != CLOSING_CARRIER]
    return {identity: values for identity, values in windows_of(real, HOURLY, operator).items()}


def _rejections(cleaned: CleanTruth, sent: Sequence[bytes]) -> dict[Identity, Mapping[str, Any]]:
    found: dict[Identity, Mapping[str, Any]] = {}
    for identity, values in cleaned.rejections(sent).items():
        assert isinstance(identity, EventIdentity)
        found[identity] = values
    return found
