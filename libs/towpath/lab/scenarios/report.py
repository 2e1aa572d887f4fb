"""What a run of a scenario found."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

from towpath.checker.verdict import FAULTS, NOTICES, Verdict
from towpath.contracts.commands import OperationState, StrategyName
from towpath.contracts.faults import AtPoint, Rule, RuleCount
from towpath.contracts.message import Model

FINDINGS = (*FAULTS, *NOTICES)
"""What a verdict counts and expectations bound, in the checker's words."""


class JobVerdict(Model):
    """What the checker says about a job's results. Words that a report of earlier days lacks count 0."""

    expected: int = 0
    results: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    unexpected: int = 0
    unseen: int = 0
    stale_owner: int = 0
    out_of_order: int = 0
    nonmonotonic: int = 0
    premature: int = 0
    late: int = 0
    redelivered: int = 0
    examples: dict[str, list[str]] = {}

    @classmethod
    def of(cls, verdict: Verdict) -> JobVerdict:
        """The same, as it is written down."""
        counted = {name: getattr(verdict, name) for name in cls.model_fields if name != "examples"}
        return cls(**counted, examples={kind: texts[:2] for kind, texts in verdict.examples.items()})


class MigrationReport(Model):
    """How a migration went."""

    job: str
    strategy: StrategyName
    source: str | None = None
    target: str | None = None
    state: OperationState | None = None
    """Null when nobody knows."""
    total_s: float | None = None
    downtime_s: float | None = None
    note: str = ""


class RuleReport(Model):
    """What a rule did."""

    rule: str
    event: str
    """Where: `point sink.publish`, `process jfk-engine`, `code module:function`."""
    faults: list[str]
    looked: int = 0
    acted: int = 0
    errors: int = 0
    last_error: str | None = None

    @classmethod
    def of(cls, rule: Rule, count: RuleCount | None) -> RuleReport:
        """A rule, and what is known of what it did."""
        known = count.model_dump(include={"looked", "acted", "errors", "last_error"}) if count else {}
        faults = [action.fault for action in rule.actions]
        return cls(rule=rule.name, event=event_of(rule), faults=faults, **known)


class NodeEnergy(Model):
    """What a node of an emulated topology took from the beginning of `before` until steady state was back."""

    energy_j: float
    """Joules, after its power profile."""
    mean_w: float
    """While it ran, watts."""
    utilisation: float
    """Share of its processor that was busy while it ran, 0 to 1."""
    up_s: float
    """For how long it ran."""


class RunReport(Model):
    """A whole run."""

    scenario: str
    source: str = ""
    """Where the scenario was read: a file, or a name of the library; its name, unless known."""
    seed: int = 0
    run: str = ""
    """Its id: `towpath trace <id>` shows what it led to."""
    chosen: dict[str, object] = {}
    """What the seed chose, by path."""
    seconds: float = 0.0
    verdicts: dict[str, JobVerdict] = {}
    """By job."""
    deviated: dict[str, int] = {}
    """Probe → in how many looks, two a second, it was outside its tolerance."""
    recovered_s: float | None = None
    """From the moment when all rules were unloaded until steady state held again; 0 if it held all the
    time, null if it did not come back."""
    deviation_s: float = 0.0
    """For how long steady state did not hold, all together."""
    migrations: list[MigrationReport] = []
    rules: list[RuleReport] = []
    energy: dict[str, NodeEnergy] = {}
    """By node, those with a power profile. Empty where sites are no emulated nodes."""
    problems: list[str] = []
    """What was not as expected; empty when everything was."""
    broken: bool = False
    """The mesh was not in order afterwards."""

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.problems

    @property
    def again(self) -> str:
        """The command that repeats it."""
        return f"towpath scenario run {quote(self.source or self.scenario)} --seed {self.seed}"

    @property
    def energy_j(self) -> float:
        """Of all nodes together, joules."""
        return sum(node.energy_j for node in self.energy.values())

    def total(self, finding: str) -> int:
        """One of `FINDINGS` over all jobs."""
        return sum(getattr(verdict, finding) for verdict in self.verdicts.values())

    @property
    def findings(self) -> dict[str, int]:
        """All of `FINDINGS`, over all jobs."""
        return {finding: self.total(finding) for finding in FINDINGS}


def in_words(findings: Mapping[str, int]) -> str:
    """What was found, without what was not: `2 lost, 1 stale owner`, or `nothing`."""
    found = [f"{count:,} {finding.replace('_', ' ')}" for finding, count in findings.items() if count]
    return ", ".join(found) or "nothing"


def event_of(rule: Rule) -> str:
    """What a rule's event is, in two words."""
    if isinstance(rule.event, AtPoint):
        return f"point {rule.event.point}"
    return f"{rule.event.target} {rule.event.name}"
