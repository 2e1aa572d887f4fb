"""The jobs that are moved, and what each should have published: one workload for each kind of operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from towpath.checker.identity import (
    Identity,
    IdentityOf,
    RangeIdentity,
    ValuesIdentity,
    identity_by_values,
    identity_of,
    named,
)
from towpath.checker.judging import judge
from towpath.checker.observation import Observation
from towpath.checker.ranges import judge_ranges, partition
from towpath.checker.truth import window_truth
from towpath.checker.verdict import Verdict
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import (
    Aggregate,
    AggregateFunction,
    Clean,
    FieldRule,
    FieldType,
    Operator,
    ProcessingWindow,
    Window,
)
from towpath.lab.harness.events import TOPIC, WATERMARK_S, WINDOW_S, DrillEvent

TRIGGER_S = 0.5
PROCESSING_WINDOW_S = 1.0

_FIELDS = {
    "n": FieldType.LONG,
    "key": FieldType.STRING,
    "at": FieldType.TIMESTAMP,
    "value": FieldType.DOUBLE,
}
_AGGREGATES = {
    "events": Aggregate(function=AggregateFunction.COUNT),
    "total": Aggregate(function=AggregateFunction.SUM, field="value"),
}

Stored = Sequence[tuple[int, DrillEvent]]
"""The events that the input holds, with their serial numbers: a device that lost an acknowledgement sends
its event again, and what counts is what the site stored."""


class Workload(ABC):
    """A job, and the truth about it."""

    name: str
    operator: Operator
    identity: IdentityOf = staticmethod(identity_of)
    """How its results are known."""

    def spec(self, job: str, site: str, input_site: str, output_site: str) -> JobSpec:
        """The job; it begins with what comes."""
        return JobSpec(
            name=job,
            site=site,
            inputs=[Input(site=input_site, topic=TOPIC, start="latest")],
            output=Output(site=output_site, topic=f"drill/{job}"),
            operator=self.operator,
            trigger_s=TRIGGER_S,
        )

    @abstractmethod
    def complete(self, job: str, stored: Stored, came: set[Identity]) -> bool:
        """Whether everything has come that the stored events should bring."""

    @abstractmethod
    def verdict(self, job: str, stored: Stored, observations: Sequence[Observation]) -> Verdict:
        """The verdict on all results of the job since it was deployed."""


class EventTimeWindows(Workload):
    """Windows by the events' own time, per key: state must travel."""

    name = "window"
    operator = Window(
        fields=_FIELDS,
        event_time="at",
        watermark_s=WATERMARK_S,
        size_s=WINDOW_S,
        key=["key"],
        aggregates=_AGGREGATES,
    )

    def complete(self, job: str, stored: Stored, came: set[Identity]) -> bool:
        """See `Workload.complete`."""
        return self.expected(job, stored).keys() <= came

    def verdict(self, job: str, stored: Stored, observations: Sequence[Observation]) -> Verdict:
        """See `Workload.verdict`."""
        return judge(self.expected(job, stored), observations)

    def expected(self, job: str, stored: Stored) -> dict[Identity, Mapping[str, Any]]:
        """The windows that the newest event has closed."""
        if not stored:
            return {}
        frame = _frame(stored)
        closed = frame["at"].max() - pd.Timedelta(seconds=WATERMARK_S)
        truth = window_truth(frame, "at", WINDOW_S, ["key"], _AGGREGATES, job)
        return {window: values for window, values in truth.items() if window.end <= closed}


class CleanedEvents(Workload):
    """Each event by itself, known by its number."""

    name = "clean"
    operator = Clean(
        fields={name: FieldRule(type=kind) for name, kind in _FIELDS.items()},
        identity=["n"],
    )
    identity = staticmethod(identity_by_values("n", "key"))

    def complete(self, job: str, stored: Stored, came: set[Identity]) -> bool:
        """See `Workload.complete`."""
        return self.expected(job, stored).keys() <= came

    def verdict(self, job: str, stored: Stored, observations: Sequence[Observation]) -> Verdict:
        """See `Workload.verdict`."""
        return judge(self.expected(job, stored), observations, order_key=_by_key_and_number)

    def expected(self, job: str, stored: Stored) -> dict[Identity, Mapping[str, Any]]:
        """Every event once, however often it was stored."""
        return {
            ValuesIdentity(job, named({"n": event.number, "key": event.key})): {
                "n": event.number,
                "key": event.key,
                "at": event.at,
                "value": event.value,
            }
            for _, event in stored
        }


class ProcessingTimeWindows(Workload):
    """Windows that lie where the operator runs: they must partition the input."""

    name = "processing"
    operator = ProcessingWindow(
        fields=_FIELDS, size_s=PROCESSING_WINDOW_S, key=["key"], aggregates=_AGGREGATES
    )

    def complete(self, job: str, stored: Stored, came: set[Identity]) -> bool:
        """See `Workload.complete`."""
        # Every event is valid here, so every window has results; what the broker sends again comes late.
        ranges = [(i.after, i.through) for i in came if isinstance(i, RangeIdentity)]
        return bool(stored) and not partition(ranges, stored[0][0] - 1, stored[-1][0]).gaps

    def verdict(self, job: str, stored: Stored, observations: Sequence[Observation]) -> Verdict:
        """See `Workload.verdict`."""
        if not stored:
            return judge({}, observations)
        frame = _frame(stored)
        return judge_ranges(
            frame,
            observations,
            job=job,
            key=["key"],
            aggregates=_AGGREGATES,
            after=stored[0][0] - 1,
            through=stored[-1][0],
        )


def _by_key_and_number(identity: Identity) -> tuple[Hashable, Any] | None:
    if not isinstance(identity, ValuesIdentity):
        return None
    values = dict(identity.values)
    return values["key"], values["n"]


def _frame(stored: Stored) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "serial": [serial for serial, _ in stored],
            "n": [event.number for _, event in stored],
            "key": [event.key for _, event in stored],
            "at": pd.to_datetime([event.at for _, event in stored], utc=True),
            "value": [event.value for _, event in stored],
        }
    )


WINDOWS, CLEANED, PROCESSING = EventTimeWindows(), CleanedEvents(), ProcessingTimeWindows()
WORKLOADS: tuple[Workload, ...] = (WINDOWS, CLEANED, PROCESSING)


def disorder_s(stored: Stored) -> float:
    """By how much an event came later than one with a newer time, seconds of event time."""
    worst, newest = 0.0, None
    for _, event in stored:
        newest = event.at if newest is None else max(newest, event.at)
        worst = max(worst, (newest - event.at).total_seconds())
    return worst
