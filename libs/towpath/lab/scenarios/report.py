"""The report of a run of a scenario."""

from __future__ import annotations

from shlex import quote

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import AtPoint, Rule, RuleCount
from towpath.contracts.message import Model
from towpath.lab.harness.report import FINDINGS, Judgement, MoveReport, SentLoad
from towpath.lab.topology.power import NodeEnergy


class RuleOutcome(Model):
    """A rule and its counts."""

    rule: str
    event: str
    """`point sink.publish`, or `process jfk-engine`."""
    faults: list[str]
    looked: int = 0
    acted: int = 0
    errors: int = 0
    last_error: str | None = None

    @classmethod
    def of(cls, rule: Rule, count: RuleCount | None) -> RuleOutcome:
        """Return a rule with its counts, if they are known."""
        known = count.model_dump(include={"looked", "acted", "errors", "last_error"}) if count else {}
        faults = [action.fault for action in rule.actions]
        return cls(rule=rule.name, event=event_of(rule), faults=faults, **known)


class RunReport(Model):
    """A whole run."""

    scenario: str
    source: str = ""
    """File or name of the library from which the scenario was read. Empty if a program described it."""
    seed: int = 0
    run: str = ""
    """Its id: `towpath trace <id>` shows what it led to."""
    chosen: dict[str, object] = {}
    """Choices of the seed, by path."""
    seconds: float = 0.0
    loads: list[SentLoad] = []
    verdicts: dict[str, Judgement] = {}
    """By job."""
    deviated: dict[str, int] = {}
    """Probe → looks, two per second, in which it was outside its tolerance."""
    recovered_s: float | None = None
    """Seconds from the moment when all rules were unloaded until steady state held again. 0 if it always
    held, None if it did not come back."""
    results_again_s: float | None = None
    """Seconds from the end of the last fault until each judged job had a result of an event that was stored
    after it. None if no job had, or if the scenario does not ask for it."""
    unstored: int = 0
    """Events that a broker acknowledged to a device and that are not in its topic. They never were in a job's
    input, so they are not among the lost results."""
    deviation_s: float = 0.0
    """Seconds for which steady state did not hold, all together."""
    migrations: list[MoveReport] = []
    rules: list[RuleOutcome] = []
    energy: dict[str, NodeEnergy] = {}
    """By node, those with a power profile. Empty where sites are no emulated nodes."""
    problems: list[str] = []
    """Everything that was not as expected."""
    broken: bool = False
    """True if the mesh was not in order afterwards."""

    @property
    def passed(self) -> bool:
        """True if everything was as expected."""
        return not self.problems

    def check(self) -> None:
        """Raise `TowpathError` (failed) if the run got stuck, or the mesh was not in order afterwards."""
        if self.broken:
            raise TowpathError(ErrorCode.FAILED, f"{self.scenario}: {'; '.join(self.problems)}")

    @property
    def again(self) -> str:
        """The command that repeats it."""
        return f"towpath scenario run {quote(self.source or self.scenario)} --seed {self.seed}"

    @property
    def energy_j(self) -> float:
        """Of all nodes together, joules."""
        return sum(node.energy_j for node in self.energy.values())

    def total(self, finding: str) -> int:
        """Return one of `FINDINGS` over all jobs."""
        return sum(getattr(verdict, finding) for verdict in self.verdicts.values())

    @property
    def findings(self) -> dict[str, int]:
        """All of `FINDINGS`, over all jobs."""
        return {finding: self.total(finding) for finding in FINDINGS}


def event_of(rule: Rule) -> str:
    """Return a rule's event in two words."""
    if isinstance(rule.event, AtPoint):
        return f"point {rule.event.point}"
    return f"{rule.event.target} {rule.event.name}"
