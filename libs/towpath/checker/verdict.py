"""The verdict on results: the number of faults of each kind, and examples."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields

REDELIVERY_SPAN = 1_000
"""Messages of an earlier connection that a broker may bring again: nats-server keeps at most 1,024 deliveries
unacknowledged for one session."""

CLOCK_SKEW_S = 1.0
"""Seconds by which the clocks of a site and a subscriber may differ."""

EXAMPLES = 5
"""Examples kept for each kind of fault."""

FAULTS = ("lost", "duplicated", "wrong", "unexpected", "unseen", "stale_owner")
"""A verdict with any of these is not clean."""

NOTICES = ("out_of_order", "nonmonotonic", "premature", "late")
"""Worth a look: the user's expectations decide if they are faults."""


@dataclass(frozen=True)
class Leniency:
    """Deviations that are not held against results."""

    tolerance: float = 1e-9
    """Relative difference of floating-point numbers."""
    late_after_s: float | None = None
    """Seconds from the newest event to the result; None: never late. Where sites and subscriber are apart,
    this compares the clocks of two machines."""
    clock_skew_s: float = CLOCK_SKEW_S
    """Seconds by which clocks may differ."""
    redelivery_span: int = REDELIVERY_SPAN
    """Messages that a broker may bring again, or late, after its subscriber connected again."""


@dataclass(slots=True)
class Verdict:
    """Counts of faults, and a few examples. Every received result is exactly one of: the first copy of an
    expected result, `duplicated`, `unexpected`, or `redelivered`."""

    expected: int = 0
    """Expected results."""
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
    """Expected results that the log has, and that never came to the subscriber. Counted only where the log
    was read, too; else they count as `lost`."""
    stale_owner: int = 0
    """Results of an epoch that came after a result of a later epoch of the same job."""
    out_of_order: int = 0
    """First copies that came after a later one of the same key."""
    nonmonotonic: int = 0
    """Results whose place in the log is before an earlier result's, or the place of another one."""
    premature: int = 0
    """First copies received before the newest event in them was stored."""
    late: int = 0
    """First copies received more than the allowed time after the newest event in them was stored."""
    redelivered: int = 0
    """Copies that the broker delivered again, because it had no acknowledgement: allowed, see `judge`."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Kind of fault → up to five descriptions."""

    @property
    def clean(self) -> bool:
        """True if exactly the expected results came, each once, right, and from the job's owner.

        Order and lateness do not count.
        """
        return not any(getattr(self, word) for word in FAULTS)

    def found(self, allowed: Collection[str] = ()) -> dict[str, int]:
        """Return all faults and notices, order and lateness included: word → count."""
        words = [word for word in (*FAULTS, *NOTICES) if word not in allowed]
        return {word: getattr(self, word) for word in words if getattr(self, word)}

    def add(self, other: Verdict) -> None:
        """Add the counts of the verdict on other results."""
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
