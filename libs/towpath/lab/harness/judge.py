"""The truth about a job by its description and what its inputs hold; the checker compares."""

from __future__ import annotations

import json
import operator as comparisons
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import pandas as pd

from towpath.checker.accepted import StoredEvent, accepted_events, as_from_device, json_object
from towpath.checker.clean_truth import clean_truth
from towpath.checker.expectation import in_window_or_serial_order
from towpath.checker.identity import (
    Identity,
    IdentityOf,
    RangeIdentity,
    SerialIdentity,
    ValuesIdentity,
    identity_by_event,
    identity_by_serial,
    identity_by_values,
    identity_of,
)
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.ranges import judge_ranges, partition
from towpath.checker.truth import window_truth
from towpath.checker.verdict import Verdict
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import (
    Chain,
    Clean,
    FieldRule,
    FieldType,
    Filter,
    Forward,
    Merge,
    Operator,
    ProcessingWindow,
    Query,
    Window,
    WindowShape,
)
from towpath.lab.harness import answers_truth
from towpath.lab.harness.answers import answer_identity
from towpath.lab.harness.answers_truth import AnswersTruth
from towpath.queries.reference import Event

Expected = Mapping[Identity, Mapping[str, Any]]

_COMPARISON = re.compile(r"\s*(\w+)\s*(<=|>=|<>|!=|<|>|=)\s*(-?\d+(?:\.\d+)?)\s*")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "<": comparisons.lt,
    "<=": comparisons.le,
    ">": comparisons.gt,
    ">=": comparisons.ge,
    "=": comparisons.eq,
    "<>": comparisons.ne,
    "!=": comparisons.ne,
}


@dataclass
class StoredInput:
    """The events that one input of a job holds, in the order of their serial numbers.

    What counts is what is stored, because a device that lost an acknowledgement sends its event again.
    """

    name: str
    """`site/topic`, as in `Input.name`."""
    from_device: bool
    """Form of the events: bare JSON objects, or results of a job in their envelope."""
    events: list[StoredEvent] = field(default_factory=list)

    @property
    def bare(self) -> list[bytes]:
        """The events as devices would send them."""
        return [event.payload if self.from_device else as_from_device(event.payload) for event in self.events]


Inputs = Sequence[StoredInput]


def identity_for(spec: JobSpec) -> IdentityOf:
    """Return the identity that tells results of the job apart. Rejected events are known by their text."""
    of_results = _identity_of_results(spec)
    return lambda body: identity_by_event(body) if "reason" in body else of_results(body)


def _identity_of_results(spec: JobSpec) -> IdentityOf:
    operator = spec.operator
    if isinstance(operator, Clean) and operator.identity:
        return identity_by_values(*operator.identity)
    if isinstance(operator, Query):
        return answer_identity
    # What is passed on keeps its window and key, but stands for one event.
    return identity_by_serial if isinstance(operator, Forward | Merge) else identity_of


def judged(spec: JobSpec) -> bool:
    """True if the job can be judged: its operator says what it does."""
    operator = spec.operator
    if isinstance(operator, Chain):
        *before, last = operator.steps
        passing = all((isinstance(step, Clean) and not step.identity) or _compares(step) for step in before)
        return passing and isinstance(last, Window | Filter) and judged(_with_operator(spec, last))
    if isinstance(operator, Window):
        return operator.event_time is not None and operator.shape is WindowShape.TUMBLING
    if isinstance(operator, Query):
        return answers_truth.can_be_judged(operator)
    if isinstance(operator, ProcessingWindow | Clean):
        # Of several inputs, chance decides the order in which their events come.
        return len(spec.inputs) == 1 and (isinstance(operator, ProcessingWindow) or bool(operator.identity))
    return _compares(operator) or isinstance(operator, Forward | Merge)


def _compares(operator: Operator) -> bool:
    """True for a filter by a comparison. Another condition is an expression, which only Spark computes."""
    if not isinstance(operator, Filter):
        return False
    compared = _COMPARISON.fullmatch(operator.where)
    return compared is not None and operator.fields.get(compared[1]) in (FieldType.LONG, FieldType.DOUBLE)


def still_judged(before: JobSpec, after: JobSpec) -> bool:
    """True if a job that became another one owes the results that it owed before.

    A text of queries may have more of them.
    """
    old, new = before.operator, after.operator
    more = isinstance(old, Query) and isinstance(new, Query) and answers_truth.extends(old, new)
    return before.inputs == after.inputs and (old == new or more)


def truth_of(spec: JobSpec, inputs: Inputs, began: JobSpec, changed_by: datetime) -> JobTruth | AnswersTruth:
    """Compute the truth about a job that is `judged`. `began` is what it was when it was deployed.

    It had become what it is when the newest event was of the time `changed_by`. A job that answers queries
    has the `inputs` of the jobs that make panes for it.
    """
    if isinstance(spec.operator, Query) and isinstance(began.operator, Query):
        return AnswersTruth.of(spec.operator, began.operator, _query_events(inputs), changed_by)
    return JobTruth.of(spec, inputs)


@dataclass(frozen=True)
class JobTruth:
    """The results that a job should have published by now, given what its inputs hold."""

    spec: JobSpec
    inputs: Inputs
    expected: Expected
    """Results. Of windows, the closed ones; none of processing-time windows, whose ends the job chooses."""
    rejected: Expected
    """Rejected events, by their text. Only jobs that clean have them judged."""

    @classmethod
    def of(cls, spec: JobSpec, inputs: Inputs) -> JobTruth:
        """Compute the truth about a job that is `judged`."""
        operator = spec.operator
        if isinstance(operator, Chain):
            return cls(spec, inputs, cls.of(*_last_step(spec, operator, inputs)).expected, {})
        if isinstance(operator, Clean):
            [only] = inputs
            truth = clean_truth(only.bare, operator)
            texts = [event.payload for event in only.events]
            return cls(
                spec, inputs, {**truth.results(spec.name, *operator.identity)}, truth.rejections(texts)
            )
        if isinstance(operator, Window):
            return cls(spec, inputs, _closed_windows(spec, operator, inputs), {})
        if isinstance(operator, Filter):
            return cls(spec, inputs, _kept(spec, operator, inputs), {})
        passed = {} if isinstance(operator, ProcessingWindow) else _passed_on(spec, inputs)
        return cls(spec, inputs, passed, {})

    def complete(self, came: AbstractSet[Identity]) -> bool:
        """True if all results have come, and all rejected events."""
        if isinstance(self.spec.operator, ProcessingWindow):
            # Every event is valid here, so every window has results; what the broker sends again comes late.
            ranges = [(i.after, i.through) for i in came if isinstance(i, RangeIdentity)]
            return not self._events or not partition(ranges, *self._range).gaps
        return self.expected.keys() <= came and self.rejected.keys() <= came

    def verdict(self, observations: Sequence[ReceivedMessage], *, in_order: bool = False) -> Verdict:
        """Judge all results of the job since its deployment. Rejected events need only come at all.

        `in_order`: windows of a key must come in the order of time, events that were passed on in that of
        serial numbers, and cleaned events in that of their numbers, by key. Where a device repeats events of
        its own, copies of one may overtake another.
        """
        dead_letters = self.spec.output.rejected_topic
        results = [o for o in observations if o.topic != dead_letters]
        if isinstance(self.spec.operator, ProcessingWindow) and self._events:
            return self._verdict_on_ranges(self.spec.operator, results)
        order = _place if in_order else lambda identity: None
        verdict = judge(self.expected, results, order_key=order)
        if isinstance(self.spec.operator, Clean):
            self._add_rejected(verdict, {o.identity for o in observations if o.topic == dead_letters})
        return verdict

    def _verdict_on_ranges(self, operator: ProcessingWindow, results: Sequence[ReceivedMessage]) -> Verdict:
        after, through = self._range
        return judge_ranges(
            _accepted(self.inputs[0], operator),
            results,
            job=self.spec.name,
            key=operator.key,
            aggregates=operator.aggregates,
            after=after,
            through=through,
        )

    def _add_rejected(self, verdict: Verdict, came: AbstractSet[Identity]) -> None:
        for kind, faults in (
            ("lost", self.rejected.keys() - came),
            ("unexpected", came - self.rejected.keys()),
        ):
            setattr(verdict, kind, getattr(verdict, kind) + len(faults))
            for fault in faults:
                verdict.example(kind, lambda fault=fault: f"rejected event: {fault}")

    @property
    def _events(self) -> list[StoredEvent]:
        return self.inputs[0].events

    @property
    def _range(self) -> tuple[int, int]:
        return self._events[0].serial - 1, self._events[-1].serial


def disorder_s(spec: JobSpec, inputs: Inputs) -> float:
    """Return the seconds of event time by which an event came later than the watermark waits."""
    operator = spec.operator
    if isinstance(operator, Chain):
        return disorder_s(*_last_step(spec, operator, inputs))
    if isinstance(operator, Query):
        return answers_truth.disorder_s(operator, _query_events(inputs))
    if not isinstance(operator, Window) or operator.event_time is None:
        return 0.0
    worst = 0.0
    for each in inputs:
        at = _event_times(_accepted(each, operator), operator.event_time)
        if len(at):
            worst = max(worst, float((at.cummax() - at).max().total_seconds()) - operator.watermark_s)
    return worst


def unstored(sent: Iterable[bytes], stored: StoredInput) -> list[bytes]:
    """Return the events that a device's broker has acknowledged and the input does not hold."""
    return [*(Counter(sent) - Counter(event.payload for event in stored.events)).elements()]


def _query_events(inputs: Inputs) -> list[Event]:
    """Return the events of devices as the reference of queries takes them, which asks them for their time."""
    return [
        Event(site, topic, event.serial, 0, body)
        for each in inputs
        for site, _, topic in [each.name.partition("/")]
        for event in each.events
        if (body := json_object(event.payload)) is not None
    ]


def _closed_windows(spec: JobSpec, operator: Window, inputs: Inputs) -> Expected:
    """The windows that end before the watermark: the least of the inputs', as Spark has it."""
    assert operator.event_time is not None
    assert operator.size_s is not None
    frames = [_accepted(each, operator) for each in inputs]
    newest = [_event_times(frame, operator.event_time).max() for frame in frames]
    if any(pd.isna(at) for at in newest):
        return {}
    closed = min(newest) - pd.Timedelta(seconds=operator.watermark_s)
    events = pd.concat(frames)
    truth = window_truth(
        events, operator.event_time, operator.size_s, operator.key, operator.aggregates, spec.name
    )
    return {window: values for window, values in truth.items() if window.end <= closed}


def _passed_on(spec: JobSpec, inputs: Inputs) -> Expected:
    """A result for each event, with the same values."""
    expected: dict[Identity, Mapping[str, Any]] = {}
    for each in inputs:
        for event in each.events:
            body = json_object(event.payload)
            if body is not None:
                expected[_of_event(spec, each, event)] = body if each.from_device else body["values"]
    return expected


def _kept(spec: JobSpec, operator: Filter, inputs: Inputs) -> Expected:
    """A result with the declared fields for each event for which the comparison holds."""
    return {
        _of_event(spec, each, each.events[position]): values
        for each in inputs
        for position, values in _let_through(operator, each).items()
    }


def _let_through(operator: Filter | Clean, stored: StoredInput) -> dict[int, dict[str, Any]]:
    """The declared fields of each event that a filter or a clean without identity keeps, by its position."""
    if isinstance(operator, Clean):
        return clean_truth(stored.bare, operator).accepted
    comparison = _COMPARISON.fullmatch(operator.where)
    assert comparison is not None, "see `judged`"
    name, sign, number = comparison.groups()
    rules = {each: FieldRule(type=kind, required=False) for each, kind in operator.fields.items()}
    return {
        position: values
        for position, values in clean_truth(stored.bare, Clean(fields=rules)).accepted.items()
        if values[name] is not None and _COMPARED[sign](values[name], float(number))
    }


def _last_step(spec: JobSpec, chain: Chain, inputs: Inputs) -> tuple[JobSpec, Inputs]:
    """The last step as a job of its own, with the events that reach it. They keep their serial numbers."""
    *before, last = chain.steps
    for step in before:
        assert isinstance(step, Filter | Clean), "see `judged`"
        inputs = [
            StoredInput(
                each.name,
                from_device=True,
                events=[
                    StoredEvent(each.events[position].serial, json.dumps(values, default=_iso).encode())
                    for position, values in _let_through(step, each).items()
                ],
            )
            for each in inputs
        ]
    return _with_operator(spec, last), inputs


def _with_operator(spec: JobSpec, operator: Operator) -> JobSpec:
    return spec.model_copy(update={"operator": operator})


def _iso(time: datetime) -> str:
    return time.isoformat()


def _of_event(spec: JobSpec, stored: StoredInput, event: StoredEvent) -> SerialIdentity:
    """The identity of the result that one event has."""
    return SerialIdentity(spec.name, stored.name if len(spec.inputs) > 1 else None, event.serial)


def _accepted(stored: StoredInput, operator: Window | ProcessingWindow) -> pd.DataFrame:
    required = [operator.event_time] if isinstance(operator, Window) and operator.event_time else []
    return accepted_events(stored.events, operator.fields, required, from_device=stored.from_device)


def _event_times(events: pd.DataFrame, field_name: str) -> pd.Series:
    return cast(pd.Series, pd.to_datetime(events[field_name], utc=True)).dropna()


def _place(identity: Identity) -> tuple[Hashable, Any] | None:
    if not isinstance(identity, ValuesIdentity):
        return in_window_or_serial_order(identity)
    values = dict(identity.values)
    return (values.get("key"), values["n"]) if "n" in values else None
