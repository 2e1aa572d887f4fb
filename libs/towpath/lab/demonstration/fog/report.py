"""The report of a run: `demo/fog.json`."""

from __future__ import annotations

from towpath.contracts.message import Model
from towpath.contracts.pipeline import PlannedChange
from towpath.lab.demonstration.fog.arrangement import Arrangement
from towpath.lab.demonstration.fog.links import Crossed
from towpath.lab.demonstration.fog.rates import StageRate
from towpath.lab.harness.report import Judgement


class TurnReport(Model):
    """One input rate in one scenario."""

    rate: float
    """Events per second at each edge."""
    sent: int
    """By the devices of all edges, at this rate; malformed and closing ones are among them."""
    stages: dict[str, StageRate]
    """`job 3` and `job 4`."""
    crossed: Crossed


class ArrangementReport(Model):
    """One scenario over all rates."""

    scenario: Arrangement
    jobs: int
    turns: list[TurnReport]
    judgement: Judgement
    """Of all jobs, at all rates."""
    problems: list[str] = []
    """Everything else that was not as expected."""


class DifferentialRate(Model):
    """The paper's D at one input rate, percent; null where Fog had no output."""

    rate: float
    job_3: float | None
    job_4: float | None


class ChangeReport(Model):
    """A pipeline that was changed while data flowed."""

    plan: list[PlannedChange]
    """The changes that were applied, in order."""
    apply_s: float
    sent_before: int
    """Events sent before the change was applied."""
    sent_during: int
    """Events sent while it was."""
    sent: int
    old_topic: int
    """Events that went to the topic that the redirected job wrote to before."""
    new_topic: int
    """Events that went to the topic it writes to since."""
    judgement: Judgement


class FogReport(Model):
    """The whole run."""

    site_to_site_ms: float
    bandwidth_bytes_per_s: int
    """Of each link, in each direction."""
    trigger_s: float
    seconds_per_rate: float
    scenarios: list[ArrangementReport]
    differential: list[DifferentialRate]
    change: ChangeReport
    seconds: float = 0.0
    """Of the whole run, start and stop of the mesh included."""

    @property
    def clean(self) -> bool:
        """True if everything that was checked arrived exactly once and right."""
        whole = all(s.judgement.clean and not s.problems for s in self.scenarios)
        return whole and self.change.judgement.clean
