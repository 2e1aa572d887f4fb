"""The verdict on what was received, given what should have been: pure, without input or output."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field, fields
from typing import Any

from towpath.checker.comparison import differing
from towpath.checker.identity import Identity, RangeIdentity, SerialIdentity, WindowIdentity, utc
from towpath.checker.observation import Observation
from towpath.checker.subscriber import Subscriber

REDELIVERY_SPAN = 1_000
"""How many messages of an earlier connection a broker may bring again; nats-server keeps at most 1,024
deliveries unacknowledged for one session."""

CLOCK_SKEW_S = 1.0
"""Seconds by which the clocks of a site and a subscriber may differ."""

EXAMPLES = 5
"""Examples kept for each kind of fault."""

FAULTS = ("lost", "duplicated", "wrong", "unexpected", "unseen", "stale_owner")
"""Any of these and a verdict is not clean."""

NOTICES = ("out_of_order", "nonmonotonic", "premature", "late")
"""Worth a look. Whether they are faults depends on what was promised."""

OrderKey = Callable[[Identity], tuple[Hashable, Any] | None]
"""From an identity to a key, within which order counts, and the place there; None where it does not."""


def in_window_or_serial_order(identity: Identity) -> tuple[Hashable, Any] | None:
    """Windows of one job and key by their beginning; events of one job and input by their serial number."""
    if isinstance(identity, WindowIdentity):
        return (identity.job, identity.key), identity.start
    if isinstance(identity, RangeIdentity):
        return (identity.job, identity.key), identity.after
    if isinstance(identity, SerialIdentity):
        return (identity.job, identity.input), identity.serial
    return None


def values_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is compared: `values` of a result; of a rejected event its text, for reasons are prose."""
    return body["values"] if "values" in body else {"event": body.get("event")}


@dataclass(slots=True)
class Verdict:
    """How many of each, and a few examples. Every observation is exactly one of: the first copy of an
    expected result, `duplicated`, `unexpected`, or `redelivered`."""

    expected: int = 0
    """Results there should be."""
    results: int = 0
    """Messages received."""
    lost: int = 0
    """Expected results that never came."""
    duplicated: int = 0
    """Second and further copies of expected results, redelivered ones not counted."""
    wrong: int = 0
    """Copies of expected results whose values are not the expected ones."""
    unexpected: int = 0
    """Messages that are no expected result, unreadable ones included."""
    unseen: int = 0
    """Expected results that the log has, and that never came to the subscriber. Told from `lost` only where
    the log was read too."""
    stale_owner: int = 0
    """Results of an epoch that came after a result of a later epoch of the same job."""
    out_of_order: int = 0
    """First copies that came after a later one of the same key."""
    nonmonotonic: int = 0
    """Results whose place in the log is before that of an earlier one, or where the log had another."""
    premature: int = 0
    """First copies received before the newest event in them was stored."""
    late: int = 0
    """First copies received more than the allowed time after the newest event in them was stored."""
    redelivered: int = 0
    """Copies that the broker delivered again, for want of an acknowledgement: allowed, see `judge`."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Kind of fault → up to five descriptions."""

    @property
    def clean(self) -> bool:
        """Whether exactly the expected results came, each once, right, and from the job's owner. Order and
        lateness aside."""
        return not any(getattr(self, word) for word in FAULTS)

    def found(self, allowed: Collection[str] = ()) -> dict[str, int]:
        """Everything that is not as it should be, order and lateness included: word → how many times."""
        words = [word for word in (*FAULTS, *NOTICES) if word not in allowed]
        return {word: getattr(self, word) for word in words if getattr(self, word)}

    def add(self, other: Verdict) -> None:
        """Count the verdict on other results in."""
        for counted in fields(other):
            if counted.type == "int":
                setattr(self, counted.name, getattr(self, counted.name) + getattr(other, counted.name))
        for kind, examples in other.examples.items():
            for text in examples:
                self.example(kind, lambda text=text: text)

    def example(self, kind: str, description: Callable[[], str]) -> None:
        """Keep an example of a kind of fault, if there are not enough yet."""
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(description())


def judge(
    expected: Mapping[Identity, Mapping[str, Any]],
    observations: Iterable[Observation],
    tolerance: float = 1e-9,
    late_after_s: float | None = None,
    order_key: OrderKey = in_window_or_serial_order,
    redelivery_span: int = REDELIVERY_SPAN,
    compared: Callable[[Mapping[str, Any]], Mapping[str, Any]] = values_of,
    stored: Set[Identity] = frozenset(),
    clock_skew_s: float = CLOCK_SKEW_S,
) -> Verdict:
    """Compare what came, in order of receipt, with what should have come.

    MQTT delivers QoS 1 messages *at least* once: when a connection breaks before an acknowledgement
    arrived, or when one is long in coming, the broker delivers again. Such a copy says nothing about the
    job, so it counts as `redelivered`, not as `duplicated`. It is recognised strictly: the same subscriber,
    an equal payload, and either the broker's word for it (DUP), or a later connection, with the previous
    copy among the last `redelivery_span` messages before the present connection began. What was published
    twice has no DUP: a copy without it, on one and the same connection, is always a duplicate.

    `tolerance` is relative and for floating-point numbers only. Lateness is `received_at - stored_at`; it
    compares two machines' clocks where sites and subscriber are apart. `compared` picks what of a result
    must be as expected. `stored`: results that the log has; one of them that did not come is `unseen`.

    The broker may also bring a message for the first time after it has brought younger ones, when a
    connection broke on the way. So on later connections, the first `redelivery_span` messages are neither
    `stale_owner` nor `nonmonotonic`.
    """
    judging = _Judging(
        expected, tolerance, late_after_s, order_key, redelivery_span, compared, stored, clock_skew_s
    )
    for observation in observations:
        judging.take(observation)
    return judging.finish()


class _Judging:
    """A verdict in the making."""

    def __init__(
        self,
        expected: Mapping[Identity, Mapping[str, Any]],
        tolerance: float,
        late_after_s: float | None,
        order_key: OrderKey,
        redelivery_span: int,
        compared: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        stored: Set[Identity],
        clock_skew_s: float,
    ) -> None:
        self._expected = expected
        self._tolerance = tolerance
        self._late_after_s = late_after_s
        self._order_key = order_key
        self._span = redelivery_span
        self._compared = compared
        self._stored = stored
        self._skew_s = clock_skew_s
        self._verdict = Verdict(expected=len(expected))
        self._subscribers: dict[str, Subscriber] = {}
        self._seen: set[Identity] = set()
        self._newest: dict[Hashable, Any] = {}

    def take(self, observation: Observation) -> None:
        """Judge one observation."""
        identity = observation.identity
        self._verdict.results += 1
        subscriber = self._subscribers.get(observation.subscriber)
        if subscriber is None:
            subscriber = self._subscribers[observation.subscriber] = Subscriber()
        if subscriber.redelivers(observation, self._span):
            self._verdict.redelivered += 1
            return
        body = observation.body
        self._check_log(subscriber, observation, body)
        should_be = self._expected.get(identity)
        if should_be is None:
            self._verdict.unexpected += 1
            self._verdict.example("unexpected", lambda: describe(identity))
            return
        self._check_values(identity, body, should_be)
        if identity in self._seen:
            self._verdict.duplicated += 1
            self._verdict.example(
                "duplicated", lambda: f"{describe(identity)} on connection {observation.connection}"
            )
            return
        self._seen.add(identity)
        self._check_order(identity)
        self._check_time(observation, body)

    def finish(self) -> Verdict:
        """The verdict, once everything was taken."""
        missing = [identity for identity in self._expected if identity not in self._seen]
        unseen = [identity for identity in missing if identity in self._stored]
        self._verdict.lost, self._verdict.unseen = len(missing) - len(unseen), len(unseen)
        lost = (identity for identity in missing if identity not in self._stored)
        for word, identities in (("lost", lost), ("unseen", unseen)):
            for identity in itertools.islice(identities, EXAMPLES):
                self._verdict.example(word, lambda identity=identity: describe(identity))
        return self._verdict

    def _check_log(self, subscriber: Subscriber, observation: Observation, body: dict[str, Any]) -> None:
        """Epochs and places in the log: they never fall."""
        later, falls = subscriber.fallen_epoch(body), subscriber.fallen_offset(observation)
        if not subscriber.settled(self._span):
            return
        if later is not None:
            self._verdict.stale_owner += 1
            self._verdict.example(
                "stale_owner",
                lambda: f"{describe(observation.identity)}: epoch {body['epoch']} after epoch {later}",
            )
        if falls:
            self._verdict.nonmonotonic += 1
            self._verdict.example(
                "nonmonotonic", lambda: f"{describe(observation.identity)} at {observation.offset}"
            )

    def _check_values(self, identity: Identity, body: dict[str, Any], should_be: Mapping[str, Any]) -> None:
        difference = differing(should_be, self._compared(body), self._tolerance)
        if difference is not None:
            self._verdict.wrong += 1
            self._verdict.example("wrong", lambda: f"{describe(identity)}: {difference}")

    def _check_order(self, identity: Identity) -> None:
        place = self._order_key(identity)
        if place is None:
            return
        key, position = place
        newest = self._newest.get(key)
        if newest is not None and position < newest:
            self._verdict.out_of_order += 1
            self._verdict.example("out_of_order", lambda: f"{describe(identity)} after {newest}")
        else:
            self._newest[key] = position

    def _check_time(self, observation: Observation, body: dict[str, Any]) -> None:
        latency = observation.received_at - utc(body["stored_at"]).timestamp()
        is_late = self._late_after_s is not None and latency > self._late_after_s
        word = "late" if is_late else "premature" if latency < -self._skew_s else None
        if word is not None:
            setattr(self._verdict, word, getattr(self._verdict, word) + 1)
            self._verdict.example(word, lambda: f"{describe(observation.identity)} after {latency:.3f} s")


def describe(identity: Identity) -> str:
    """An identity on one line, for people."""
    fields: dict[str, Any] = identity._asdict()
    for name in fields.keys() & {"key", "values"}:
        fields[name] = ", ".join(f"{part}={held!r}" for part, held in fields[name])
    return "; ".join(f"{name} {value}" for name, value in fields.items())
