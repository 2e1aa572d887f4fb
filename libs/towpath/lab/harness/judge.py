"""The truth about a job by its description and what its input holds; the checker compares."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import orjson
import pandas as pd

from towpath.checker.accepted import StoredEvent, accepted_events
from towpath.checker.clean_truth import clean_truth
from towpath.checker.identity import (
    Identity,
    IdentityOf,
    RangeIdentity,
    ValuesIdentity,
    identity_by_values,
    identity_of,
)
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.ranges import judge_ranges, partition
from towpath.checker.truth import window_truth
from towpath.checker.verdict import Verdict
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Clean, ProcessingWindow, Window, WindowShape

Stored = Sequence[StoredEvent]
"""The events that the input holds. They count, because a device that lost an acknowledgement sends its event
again."""


def identity_for(spec: JobSpec) -> IdentityOf:
    """Return the identity that tells results of the job apart."""
    if isinstance(spec.operator, Clean) and spec.operator.identity:
        return identity_by_values(*spec.operator.identity)
    return identity_of


def judged(spec: JobSpec) -> bool:
    """True if the job can be judged: it has one device input, and an operator that says what it does."""
    operator = spec.operator
    if len(spec.inputs) != 1 or not spec.inputs[0].from_device:
        return False
    if isinstance(operator, Window):
        return operator.event_time is not None and operator.shape is WindowShape.TUMBLING
    return isinstance(operator, ProcessingWindow) or (isinstance(operator, Clean) and bool(operator.identity))


def complete(spec: JobSpec, stored: Stored, came: set[Identity]) -> bool:
    """True if all results of the stored events have come."""
    if isinstance(spec.operator, ProcessingWindow):
        # Every event is valid here, so every window has results; what the broker sends again comes late.
        ranges = [(i.after, i.through) for i in came if isinstance(i, RangeIdentity)]
        return bool(stored) and not partition(ranges, stored[0].serial - 1, stored[-1].serial).gaps
    return expected(spec, stored).keys() <= came


def verdict(
    spec: JobSpec, stored: Stored, observations: Sequence[ReceivedMessage], *, in_order: bool = False
) -> Verdict:
    """Judge all results of a job since its deployment. `stored` are the events of its input since then.

    `in_order`: cleaned events must come in the order of their numbers, by key. Where a device repeats events
    of its own, copies of one may overtake another.
    """
    results = [o for o in observations if o.topic != spec.output.rejected_topic]
    operator = spec.operator
    if isinstance(operator, ProcessingWindow):
        if not stored:
            return judge({}, results)
        return judge_ranges(
            _accepted(spec, stored),
            results,
            job=spec.name,
            key=operator.key,
            aggregates=operator.aggregates,
            after=stored[0].serial - 1,
            through=stored[-1].serial,
        )
    if isinstance(operator, Clean):
        order = _by_key_and_number if in_order else lambda identity: None
        return judge(expected(spec, stored), results, order_key=order)
    return judge(expected(spec, stored), results)


def disorder_s(spec: JobSpec, stored: Stored) -> float:
    """Return the seconds of event time by which an event came later than the watermark waits."""
    operator = spec.operator
    if not isinstance(operator, Window) or operator.event_time is None or not stored:
        return 0.0
    at = cast(pd.Series, pd.to_datetime(_accepted(spec, stored)[operator.event_time], utc=True)).dropna()
    return max(0.0, float((at.cummax() - at).max().total_seconds()) - operator.watermark_s) if len(at) else 0


def numbers_of(stored: Stored) -> set[int]:
    """Return the numbers of the stored events."""
    return {orjson.loads(event.payload)["n"] for event in stored}


def expected(spec: JobSpec, stored: Stored) -> Mapping[Identity, Mapping[str, Any]]:
    """Return the results that the stored events should have brought by now: of windows, the closed ones."""
    operator = spec.operator
    if isinstance(operator, Clean):
        truth = clean_truth([event.payload for event in stored], operator)
        return {**truth.results(spec.name, *operator.identity)}
    assert isinstance(operator, Window)
    assert operator.event_time is not None
    assert operator.size_s is not None
    frame = _accepted(spec, stored)
    if frame.empty:
        return {}
    truth = window_truth(
        frame, operator.event_time, operator.size_s, operator.key, operator.aggregates, spec.name
    )
    newest = pd.to_datetime(frame[operator.event_time], utc=True).max()
    closed = newest - pd.Timedelta(seconds=operator.watermark_s)
    return {window: values for window, values in truth.items() if window.end <= closed}


def _accepted(spec: JobSpec, stored: Stored) -> pd.DataFrame:
    operator = spec.operator
    assert isinstance(operator, Window | ProcessingWindow)
    required = [operator.event_time] if isinstance(operator, Window) and operator.event_time else []
    return accepted_events(stored, operator.fields, required, from_device=True)


def _by_key_and_number(identity: Identity) -> tuple[Hashable, Any] | None:
    if not isinstance(identity, ValuesIdentity):
        return None
    values = dict(identity.values)
    return values.get("key"), values.get("n")
