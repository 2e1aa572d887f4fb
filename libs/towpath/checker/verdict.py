"""The verdict on results: how many faults of each kind, and examples."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields

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
"""Worth a look. What was promised decides if they are faults."""


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
    """How many of each, and a few examples. Every result that came is exactly one of: the first copy of an
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
        """True if exactly the expected results came, each once, right, and from the job's owner. Order and
        lateness do not count."""
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
