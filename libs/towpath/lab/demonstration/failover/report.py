"""The report of a run: `demo/failover.json`."""

from __future__ import annotations

from towpath.contracts.message import Model
from towpath.contracts.standby import StandbyView
from towpath.lab.harness.report import Judgement, SentLoad


class FailedOverJob(Model):
    """A job that went on at its standby. Times are seconds."""

    job: str
    reads: str
    """The site of its devices. If that is the lost one, no new events come until it returns."""
    output: str
    """The site of its results until the failover."""
    output_now: str
    forecast: StandbyView
    """The cost of a failover, asked for just before."""
    steps_s: dict[str, float]
    """Of the failover, until each was confirmed."""
    ran_after_s: float | None = None
    """From the decision until the failover of the job had ended."""
    first_result_after_s: float | None = None
    """From the decision until a subscriber had the first result that the standby published."""
    silent_s: float | None = None
    """From the last result of the lost site to that one."""
    again: int = 0
    """Results that came at two sites, each under one id: the lost one had published them, and the copy of its
    output lacked them."""
    judgement: Judgement
    """Over the results at all outputs, those that came again counted once."""


class Moments(Model):
    """The moments of a run, Unix seconds."""

    died_at: float
    """All processes of the site were gone."""
    missed_at: float
    """The coordinator held the site for down."""
    decided_at: float
    """The failover was asked for."""
    went_on_at: float
    """It had ended for all jobs."""
    returned_at: float
    """The power was on again."""
    ordinary_at: float
    """The site was up, and each job had one owner."""


class FailoverReport(Model):
    """A run."""

    rate: float
    """Events per second at each airport."""
    sites: list[str]
    state_mb: int
    """Megabytes of tokens that the job `tokens` was given. 0: there was no such job."""
    copy_mb: float | None = None
    """Size of the copy of its state that the standby had when the site died."""
    loads: list[SentLoad]
    stored_twice: int
    """Events that devices sent again because their acknowledgement died with the site. They count twice in
    windows, also in the batch computation."""
    moments: Moments
    jobs: list[FailedOverJob]
    problems: list[str]
    seconds: float = 0.0

    @property
    def judged(self) -> Judgement:
        """All jobs together."""
        return Judgement.together(job.judgement for job in self.jobs)

    @property
    def clean(self) -> bool:
        """True if every result of every job came, and each once and right."""
        return not self.problems and all(job.judgement.clean for job in self.jobs)
