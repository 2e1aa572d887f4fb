"""Models that all reports share: the checker's findings, and the moves of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from towpath.checker.verdict import FAULTS, NOTICES, Verdict
from towpath.contracts.commands import OperationKind, OperationState, OperationView, StrategyName
from towpath.contracts.message import Model
from towpath.protocols.attempts import attempts

FINDINGS = (*FAULTS, *NOTICES)
"""Names of all counts of a verdict. Expectations bound them."""


class Findings(Model):
    """The checker's counts of faults. A count that an older report lacks is 0."""

    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    """Results whose value is not that of the batch computation."""
    unexpected: int = 0
    """Results that the batch computation does not know."""
    unseen: int = 0
    stale_owner: int = 0
    out_of_order: int = 0
    nonmonotonic: int = 0
    premature: int = 0
    late: int = 0
    redelivered: int = 0
    """Copies that the MQTT broker brought after a reconnection: its quality of service allows them."""
    examples: dict[str, list[str]] = {}
    """A few of each kind, if any."""

    @property
    def exact(self) -> bool:
        """True if every result came exactly once, and right."""
        return not (self.lost or self.duplicated or self.wrong or self.unexpected)

    @property
    def in_three(self) -> str:
        """The three counts that people ask for first: `0 lost, 0 duplicated, 0 wrong`."""
        return f"{self.lost} lost, {self.duplicated} duplicated, {self.wrong + self.unexpected} wrong"

    def example_rows(self) -> list[tuple[str, str]]:
        """Return a row for each example, for the end of a table."""
        return [(f"e.g. {kind}", text) for kind, texts in self.examples.items() for text in texts]


class Judgement(Findings):
    """The checker's verdict on one job, or on jobs that are judged together."""

    expected: int = 0
    results: int = 0
    rejected: int = 0
    """Rejected events that came."""

    @classmethod
    def of(cls, verdict: Verdict, rejected: int = 0) -> Judgement:
        """Return a verdict as it is written down."""
        counted = {"expected": verdict.expected, "results": verdict.results, "rejected": rejected}
        return cls(**counted, **findings(verdict))

    @classmethod
    def together(cls, judgements: Iterable[Judgement]) -> Judgement:
        """Return several judgements as one: their sums, and the first examples of each kind."""
        total = cls()
        for each in judgements:
            counts = {name: count + getattr(each, name) for name, count in total if isinstance(count, int)}
            examples = {k: [*total.examples.get(k, ()), *texts][:2] for k, texts in each.examples.items()}
            total = cls(**counts, examples=total.examples | examples)
        return total

    @property
    def clean(self) -> bool:
        """True if results came, each exactly once and right."""
        return self.exact and self.results > 0


class SentLoad(Model):
    """A load, as devices sent it."""

    site: str
    topic: str
    sent: int
    acknowledged: int
    """Events that the broker has acknowledged, hence stored."""
    redelivered: int
    """Repetitions after a lost connection."""
    seconds: float


class MoveReport(Model):
    """A migration, or another operation on a job."""

    operation: str | None = None
    job: str
    strategy: str
    """Of another operation, its kind: `update`, `remove` or `fail-over`."""
    source: str | None = None
    target: str | None = None
    state: OperationState | None = None
    """Null when it is not known."""
    total_s: float | None = None
    downtime_s: float | None = None
    """From the last input the source processed to the first the target processed, less the trigger
    interval."""
    state_bytes: int | None = None
    begun_at: float | None = None
    """Unix seconds."""
    ended_at: float | None = None
    steps_s: dict[str, float] = {}
    """Seconds of each step from its beginning until it was confirmed or had failed."""
    stopped_after: dict[str, int] = {}
    """Of a job that was removed: input → last serial number that it processed."""
    note: str = ""

    @classmethod
    def of(cls, view: OperationView) -> MoveReport:
        """Return an operation as the coordinator shows it."""
        ended, figures = view.ended_at, view.figures
        taken_s = figures.total_s if figures else ended and (ended - view.begun_at).total_seconds()
        return cls(
            operation=view.operation,
            job=view.job,
            strategy=str(view.strategy or view.kind),
            source=view.source,
            target=view.target,
            state=view.state,
            total_s=_rounded(taken_s),
            downtime_s=_rounded(figures.downtime_s) if figures else None,
            state_bytes=figures.state_bytes if figures else None,
            begun_at=view.begun_at.timestamp(),
            ended_at=ended.timestamp() if ended else None,
            steps_s={
                attempt.first.step: round(attempt.took_s, 3)
                for attempt in attempts(view.journal)
                if attempt.took_s is not None and not attempt.undoing
            },
            stopped_after=_stopped_after(view),
            note=view.note,
        )

    @property
    def is_removal(self) -> bool:
        """True if the job is gone."""
        return self.strategy == OperationKind.REMOVE and self.state is OperationState.COMPLETED

    @property
    def kind(self) -> str:
        """The operation in a word: `migration` or `update`."""
        return "migration" if self.strategy in {*StrategyName} else self.strategy

    @property
    def way(self) -> str:
        """From where to where."""
        return f"{self.source} → {self.target}"

    @property
    def costs(self) -> str:
        """Its costs on one line."""
        total = "unknown" if self.total_s is None else f"{self.total_s:.2f} s"
        downtime = "unknown" if self.downtime_s is None else f"{self.downtime_s:.2f} s"
        state = "" if self.state_bytes is None else f", {self.state_bytes:,} bytes of state"
        return f"{self.strategy}: {total}, downtime {downtime}{state}"


def findings(verdict: Verdict) -> dict[str, Any]:
    """Return the fields of `Findings` in a verdict, for a report that has them among others."""
    counted = {name: getattr(verdict, name) for name in Findings.model_fields if name != "examples"}
    return {**counted, "examples": {kind: texts[:2] for kind, texts in verdict.examples.items()}}


def in_words(found: Mapping[str, int]) -> str:
    """Return the findings that are not 0 as text: `2 lost, 1 stale owner`, or `nothing`."""
    told = [f"{count:,} {finding.replace('_', ' ')}" for finding, count in found.items() if count]
    return ", ".join(told) or "nothing"


def _stopped_after(view: OperationView) -> dict[str, int]:
    if view.kind is not OperationKind.REMOVE:
        return {}
    stops = [e for e in view.journal if (e.step, e.phase) == ("stop-job", "confirmed")]
    return stops[-1].detail.get("serials", {}) if stops else {}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
