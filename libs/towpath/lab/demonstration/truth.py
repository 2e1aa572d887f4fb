"""The expected results of the demonstration, by a batch computation over the same file; the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
from towpath.checker.verdict import Verdict

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
