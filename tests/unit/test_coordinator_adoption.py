"""The registry adopts what a site has adjusted itself, and nothing that only the hub may change."""

from __future__ import annotations

from typing import Any, cast

import pytest
from coordinator_trial import Played, entry, job

from towpath.contracts.commands import UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, JobState, JobStatus, Version
from towpath.contracts.message import Command
from towpath.contracts.site import SiteState, SiteStatus
from towpath.coordinator.jobs.adoption import plan_adoption
from towpath.coordinator.jobs.plans import Nothing, plan_update
from towpath.coordinator.reconciliation import SiteDifference, differences
from towpath.protocols.operations.update import ADOPT
from towpath.protocols.record import JobEntry
from towpath.protocols.table import table_of

KNOWN = entry(job("counts")).model_copy(update={"epoch": 3, "revision": 2, "adjustments": 1})
SLOWER = KNOWN.spec.model_copy(update={"trigger_s": 9.0})
ELSEWHERE = KNOWN.spec.model_copy(
    update={"output": KNOWN.spec.output.model_copy(update={"topic": "out/others"})}
)


class Site(Played):
    """A coordinator's situation with one site, which has its own description of the job."""

    def __init__(self, found: Assignment) -> None:
        super().__init__(entries={"counts": KNOWN})
        self.found = found

    def job(self, site: str, name: str) -> Any:
        return status(self.found.version)

    async def request(self, command: Command[Any], **_: Any) -> Any:
        return self.found


def status(version: Version) -> JobStatus:
    return JobStatus(job="counts", **version._asdict(), state=JobState.RUNNING)


def at_site(**changes: Any) -> Assignment:
    return KNOWN.assignment().model_copy(update={"spec": SLOWER, "adjustments": 2, **changes})


def adoption(site: Site) -> Any:
    return plan_adoption(UpdateJob(spec=KNOWN.spec), site.situation)


@pytest.mark.parametrize(
    ("version", "what"),
    [
        ((3, 2, 1), None),
        ((3, 2, 2), "adjusted"),
        ((3, 3, 0), "adjusted"),
        ((3, 2, 0), "behind"),
        ((3, 1, 5), "behind"),
        ((2, 2, 5), "behind"),
        ((4, 2, 1), "ahead"),
    ],
    ids=["same", "adjusted", "told in an undone operation", "lost", "changed at the hub", "moved", "later"],
)
def test_differences_when_a_site_has_another_version_then_the_newer_one_counts(
    version: tuple[int, int, int], what: str | None
) -> None:
    reported = SiteStatus(
        site="jfk",
        state=SiteState.UP,
        nats_url="",
        mqtt_host="",
        mqtt_port=0,
        jobs=[status(Version(*version))],
    )
    expected = set() if what is None else {SiteDifference("jfk", "counts", what)}
    assert differences({"counts": KNOWN}, [reported]) == expected


async def test_registry_when_a_site_has_adjusted_its_job_then_adopts_that_in_one_write() -> None:
    record = await adoption(Site(at_site()))
    assert table_of(record) is ADOPT
    assert [step.name for step in ADOPT.steps] == ["record-changed"]
    assert record.after == KNOWN.model_copy(update={"spec": SLOWER, "adjustments": 2})


async def test_registry_when_the_description_is_not_a_sites_to_make_then_replaces_it_by_its_own() -> None:
    record = await adoption(Site(at_site(spec=ELSEWHERE)))
    assert record.after == KNOWN.model_copy(update={"revision": 3})
    assert cast("JobEntry", record.after).assignment().version > at_site().version


@pytest.mark.parametrize(
    "found",
    [
        {"adjustments": 1},
        {"epoch": 2, "adjustments": 7},
        {"epoch": 4},
        {"revision": 2**53 + 1},
        {"adjustments": 10**30},
    ],
    ids=["known", "of an earlier owner", "of a later owner", "forged revision", "forged adjustments"],
)
async def test_registry_when_the_site_has_nothing_newer_under_its_epoch_then_adopts_nothing(
    found: dict[str, int],
) -> None:
    with pytest.raises(Nothing):
        await adoption(Site(at_site(**found)))


async def test_update_when_an_adjustment_is_not_adopted_yet_then_is_refused_for_now() -> None:
    with pytest.raises(TowpathError) as refused:
        await plan_update(
            UpdateJob(spec=KNOWN.spec.model_copy(update={"trigger_s": 4.0})), Site(at_site()).situation
        )
    assert refused.value.detail.code is ErrorCode.BUSY


async def test_update_when_the_adjustment_is_adopted_then_contains_it() -> None:
    site = Site(at_site())
    site.entries = {"counts": cast("JobEntry", (await adoption(site)).after)}
    later = await plan_update(UpdateJob(spec=SLOWER.model_copy(update={"trigger_s": 4.0})), site.situation)
    assert cast("JobEntry", later.after).version == (4, 2, 2)
