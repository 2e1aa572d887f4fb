"""The expected results of the demonstration, by a batch computation over the same file; the verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from towpath.bus import Bus
from towpath.checker.clean_truth import CleanTruth, clean_truth
from towpath.checker.identity import (
    EventIdentity,
    Identity,
    RangeIdentity,
    identity_by_event,
    identity_by_values,
    identity_of,
)
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.ranges import judge_ranges
from towpath.checker.truth import window_truth
from towpath.checker.verdict import Verdict
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import ProcessingWindow, Window
from towpath.lab.demonstration.pipeline import CLEAN
from towpath.lab.workload.departures import CLOSING_CARRIER
from towpath.streams.pages import last_serial, read_after

Expected = dict[Identity, Mapping[str, Any]]

_by_id = identity_by_values("id")


def identity_in_pipeline(body: Mapping[str, Any]) -> Identity:
    """Windows by window or range and key, cleaned events by their `id`, rejected ones by their text."""
    if "reason" in body:
        return identity_by_event(body)
    is_window = body.get("window") is not None or body.get("through") is not None
    return identity_of(body) if is_window else _by_id(body)


@dataclass
class Truth:
    """All messages that subscribers should receive."""

    results: Expected = field(default_factory=dict)
    rejections: Expected = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """The number of expected messages."""
        return len(self.results) + len(self.rejections)


def truth_of(sent: Mapping[str, list[bytes]], operator: Window) -> Truth:
    """The truth of a run in which each edge (`jfk`, …) was sent these events."""
    truth = Truth()
    accepted: list[pd.DataFrame] = []
    for edge, events in sent.items():
        cleaned = clean_truth(events, CLEAN)
        truth.results |= cleaned.results(f"clean-{edge}", "id")
        truth.rejections |= cleaned.rejections(events)
        frame = _windowed(cleaned)
        accepted.append(frame)
        truth.results |= _hourly(frame, operator, f"hourly-{edge}")
    truth.results |= _hourly(pd.concat(accepted), operator, "hourly-all")
    return truth


def _windowed(cleaned: CleanTruth) -> pd.DataFrame:
    """Accepted events but the closing one, whose window never closes."""
    frame = pd.DataFrame(list(cleaned.accepted.values()))
    return frame[frame["carrier"] != CLOSING_CARRIER]  # type: ignore[return-value]


def _hourly(frame: pd.DataFrame, operator: Window, job: str) -> Expected:
    assert operator.event_time is not None
    assert operator.size_s is not None
    truth = window_truth(frame, operator.event_time, operator.size_s, operator.key, operator.aggregates, job)
    return {identity: values for identity, values in truth.items()}


def verdict_on(truth: Truth, observations: list[ReceivedMessage]) -> Verdict:
    """Judge results strictly; of rejected events only whether each came at all. Processing-time windows
    have a verdict of their own.

    A device repeats an event when an acknowledgement is lost. Events that `clean` accepts carry an
    identity and count once; a malformed one has none, and its repetition is one more malformed event.
    """
    rejected = [o for o in observations if isinstance(o.identity, EventIdentity)]
    others = [o for o in observations if not isinstance(o.identity, EventIdentity | RangeIdentity)]
    verdict = judge(truth.results, others)
    missing = list(truth.rejections.keys() - {o.identity for o in rejected})
    surplus = [o.identity for o in rejected if o.identity not in truth.rejections]
    verdict.lost += len(missing)
    verdict.unexpected += len(surplus)
    for kind, faults in (("lost", missing), ("unexpected", surplus)):
        if faults:
            verdict.examples.setdefault(kind, []).extend(f"rejected event: {fault}" for fault in faults[:5])
    return verdict


async def last_input(bus: Bus, spec: JobSpec) -> int:
    """Return the newest serial number of the job's input."""
    site, stream = _input(spec)
    return await last_serial(bus.connection, site, stream)


async def judge_pace(bus: Bus, spec: JobSpec, observations: list[ReceivedMessage]) -> Verdict:
    """Judge the job whose windows lie in processing time: they must partition its input."""
    assert isinstance(spec.operator, ProcessingWindow)
    site, stream = _input(spec)
    stored = await read_after(bus.connection, site, stream, 0)
    rows = [{"serial": message.serial, **json.loads(message.body)["values"]} for message in stored]
    return judge_ranges(
        pd.DataFrame(rows),
        [o for o in observations if isinstance(o.identity, RangeIdentity)],
        job=spec.name,
        key=spec.operator.key,
        aggregates=spec.operator.aggregates,
        after=0,
        through=stored[-1].serial if stored else 0,
    )


def covered(observations: list[ReceivedMessage]) -> int:
    """Return the serial number up to which windows have come."""
    return max((o.identity.through for o in observations if isinstance(o.identity, RangeIdentity)), default=0)


def _input(spec: JobSpec) -> tuple[str, str]:
    """Return site and stream of the job's one input: the output of the airport's cleaning job."""
    [entry] = spec.inputs
    return entry.site, output_stream(f"clean-{entry.site}")
