"""A registry that is older than the sites is recognised by epochs, and not obeyed."""

from __future__ import annotations

import pytest
from coordinator_trial import entry, job

from towpath.contracts.job import JobState, JobStatus
from towpath.contracts.site import SiteState, SiteStatus
from towpath.coordinator.overtaken import Overtaken, overtaken
from towpath.coordinator.reconciliation import SiteDifference, corrections, differences
from towpath.protocols.record import FormerJob, JobEntry


def status(site: str, epoch: int, state: JobState = JobState.RUNNING) -> SiteStatus:
    here = JobStatus(job="counts", epoch=epoch, state=state, serials={})
    return SiteStatus(site=site, state=SiteState.UP, nats_url="", mqtt_host="", mqtt_port=0, jobs=[here])


def known(epoch: int, used_epoch: int = 0) -> JobEntry:
    return entry(job("counts")).model_copy(update={"epoch": epoch, "used_epoch": used_epoch})


@pytest.mark.parametrize(
    ("registered", "former", "reported", "expected"),
    [
        (known(3), None, 7, 3),
        (known(3), None, 3, "current"),
        (known(3, used_epoch=7), None, 7, "current"),
        (None, None, 1, None),
        (None, FormerJob(epoch=4, output=None), 4, "current"),
        (None, FormerJob(epoch=4, output=None), 5, 4),
    ],
    ids=["later", "same", "used up", "never heard of", "removed", "deployed again since"],
)
def test_registry_when_a_site_reports_an_epoch_then_is_behind_only_if_it_never_told_that_epoch(
    registered: JobEntry | None, former: FormerJob | None, reported: int, expected: int | str | None
) -> None:
    statuses = [status("cloud", reported), *([status("jfk", 1)] if reported > 1 else [])]
    found = overtaken("counts", registered, former, statuses)
    wanted = None if expected == "current" else Overtaken("counts", "cloud", reported, expected)  # type: ignore[arg-type]
    assert found == wanted


def test_registry_when_the_owner_and_its_standby_report_one_epoch_then_the_owner_is_believed() -> None:
    statuses = [status("cloud", 7), status("jfk", 7, JobState.STANDBY)]
    assert overtaken("counts", known(3), None, statuses) == Overtaken("counts", "cloud", 7, 3)


def test_differences_when_the_owner_itself_is_ahead_then_are_found() -> None:
    (found,) = differences({"counts": known(3)}, [status("jfk", 7)])
    assert found == SiteDifference("jfk", "counts", "ahead")


def test_corrections_when_a_job_is_elsewhere_or_removed_then_bear_the_highest_epoch_of_the_registry() -> None:
    elsewhere = corrections(SiteDifference("lga", "counts", "elsewhere"), known(3, used_epoch=5), None)
    removed = corrections(SiteDifference("lga", "counts", "unknown"), None, FormerJob(epoch=4, output=None))
    assert [command.epoch for command in (*elsewhere, *removed)] == [5, 4]  # type: ignore[attr-defined]
