"""A registry that is older than what sites report: it came back from an old copy, or was lost.

Epochs never fall. So a site that has a job under a later epoch than the registry ever told proves that the
registry is behind. What it says of that job is then wrong: the owner would be stopped, and an earlier owner
started from an old checkpoint. The coordinator touches nothing of such a job until someone lets it adopt what
the site says, see `towpath.coordinator.registry.recovery`, or has restored a newer registry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import RegistryBehind
from towpath.contracts.job import JobState
from towpath.contracts.site import SiteStatus
from towpath.protocols.record import FormerJob, JobEntry


@dataclass(frozen=True)
class Overtaken:
    """A job that a site has under a later epoch than the registry knows."""

    job: str
    site: str
    epoch: int
    known: int | None
    """The registry's highest epoch of the job. None if it never heard of the job."""

    def event(self) -> RegistryBehind:
        """Return the event that tells of it."""
        return RegistryBehind(job=self.job, site=self.site, epoch=self.epoch, known=self.known)

    def refusal(self) -> TowpathError:
        """Return the refusal of every operation on the job."""
        known = "does not know the job" if self.known is None else f"knows epoch {self.known}"
        return TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"site {self.site} has this job under epoch {self.epoch}, and the registry {known}: it is older"
            " than the sites",
            field="job",
            value=self.job,
            allowed="any operation, once `towpath registry rebuild` has taken the job from the site",
        )


def overtaken(
    job: str, entry: JobEntry | None, former: FormerJob | None, statuses: Iterable[SiteStatus]
) -> Overtaken | None:
    """Return the latest epoch that any site reports of a job, if the registry never told that epoch."""
    if entry is not None:
        known: int | None = max(entry.epoch, entry.used_epoch)
    else:
        known = former.epoch if former else None
    # A standby reports its owner's epoch.
    reported = (
        (each.epoch, each.state is not JobState.STANDBY, status.site)
        for status in statuses
        for each in status.jobs
        if each.job == job
    )
    epoch, _, site = max(reported, default=(-1, False, ""))
    return Overtaken(job, site, epoch, known) if epoch > (-1 if known is None else known) else None
