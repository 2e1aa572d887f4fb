"""The page restores the past from recorded events, even of jobs and sites that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page

from running.browser import needs_chromium, page_without_mesh, running_browser
from towpath.contracts.commands import OperationKind, OperationState, StrategyName
from towpath.contracts.events import JobChanged, OperationBegun, OperationEnded, SiteChanged, StepDone
from towpath.contracts.job import JobState, ResolvedInput, ResolvedOutput
from towpath.contracts.message import Event
from towpath.contracts.site import SiteState

pytestmark = needs_chromium

HANDOVER = StrategyName.HANDOVER
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LOOK = """async ({events, jobs, sites, at}) => {
    const { momentsOf, recordOf, viewAt } = await import("/page/past.js");
    const record = recordOf(momentsOf(events), new Map(Object.entries(jobs)), sites);
    const view = viewAt(record, new Map(), { at, step: 2 });
    const place = ({ site, move }) => move ? `to ${move.target}` : site;
    return { jobs: Object.fromEntries(view.jobs.map(job => [job.name, place(job)])),
        sites: view.sites.map(site => site.name),
        flows: view.flows.map(flow => [flow.from ?? flow.port, flow.to]) };
}"""

DEVICES = [ResolvedInput(name="jfk/d", site="jfk", stream="IN", subject=None, from_device=True)]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with running_browser() as browser, page_without_mesh(browser) as opened:
        yield opened


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def output(job: str) -> ResolvedOutput:
    return ResolvedOutput(site="jfk", stream=f"OUT_{job}", topic=job, rejected_topic="rejected")


def reads(job: str) -> list[ResolvedInput]:
    return [ResolvedInput(name=job, site="jfk", stream=f"OUT_{job}", subject=None, from_device=False)]


def begun(second: float, kind: str, job: str, inputs: list[ResolvedInput], **more: Any) -> OperationBegun:
    return OperationBegun(
        at=at(second),
        operation=f"{kind}-{job}",
        command="c",
        kind=OperationKind(kind),
        job=job,
        inputs=inputs,
        output=output(job),
        **more,
    )


def ended(second: float, kind: str, job: str, state: str = "completed") -> OperationEnded:
    return OperationEnded(
        at=at(second),
        operation=f"{kind}-{job}",
        kind=OperationKind(kind),
        job=job,
        state=OperationState(state),
    )


def changed(second: float, job: str, site: str, state: str = "running") -> JobChanged:
    return JobChanged(at=at(second), job=job, site=site, epoch=1, state=JobState(state))


STORY: list[Event] = [
    SiteChanged(at=at(1), site="jfk", state=SiteState.UP),
    SiteChanged(at=at(2), site="cloud", state=SiteState.UP),
    begun(10, "deploy", "clean", DEVICES, target="jfk"),
    changed(11, "clean", "jfk"),
    ended(12, "deploy", "clean"),
    begun(20, "deploy", "hourly", reads("clean"), target="jfk"),
    ended(22, "deploy", "hourly"),
    begun(30, "migrate", "hourly", reads("clean"), source="jfk", target="cloud", strategy=HANDOVER),
    StepDone(at=at(35), operation="migrate-hourly", job="hourly", step="record-owner", phase="confirmed"),
    ended(36, "migrate", "hourly"),
    changed(37, "hourly", "cloud"),
    begun(40, "remove", "clean", DEVICES, source="jfk"),
    ended(42, "remove", "clean"),
    changed(43, "clean", "jfk", "held"),
    changed(44, "clean", "jfk"),
    begun(50, "remove", "hourly", reads("clean"), source="cloud"),
    ended(52, "remove", "hourly"),
    SiteChanged(at=at(53), site="cloud", state=SiteState.DOWN),
]
"""Two jobs begin, one moves, and both are removed. In the end a site is removed."""


def seen(page: Page, events: list[Event], second: float, today: dict[str, Any] | None = None) -> Any:
    told = [
        {"serial": n, "subject": event.to_subject(), "body": event.model_dump(mode="json")}
        for n, event in enumerate(events, start=1)
    ]
    moment = at(second).timestamp()
    return page.evaluate(LOOK, {"events": told, "jobs": today or {}, "sites": ["jfk"], "at": moment})


@pytest.mark.parametrize(
    ("second", "jobs", "flows"),
    [
        (5, {}, []),
        (15, {"clean": "jfk"}, [["jfk", "clean"]]),
        (25, {"clean": "jfk", "hourly": "jfk"}, [["jfk", "clean"], ["clean", "hourly"]]),
        (32, {"clean": "jfk", "hourly": "to cloud"}, [["jfk", "clean"], ["clean", "hourly"]]),
        (38, {"clean": "jfk", "hourly": "cloud"}, [["jfk", "clean"], ["clean", "hourly"]]),
        (45, {"hourly": "cloud"}, [["jfk", "hourly"]]),
        (60, {}, []),
    ],
)
def test_past_when_its_jobs_are_gone_today_then_shows_them_where_they_were_with_what_they_read(
    page: Page, second: float, jobs: dict[str, str], flows: list[list[str]]
) -> None:
    view = seen(page, STORY, second)
    assert (view["jobs"], view["flows"]) == (jobs, flows)


@pytest.mark.parametrize(("second", "sites"), [(1.5, ["jfk"]), (25, ["cloud", "jfk"]), (60, ["jfk"])])
def test_past_when_a_site_is_gone_today_then_shows_it_from_its_first_event_to_its_last(
    page: Page, second: float, sites: list[str]
) -> None:
    assert seen(page, STORY, second)["sites"] == sites


def test_past_when_an_event_reached_the_hub_late_then_is_taken_at_its_own_time(page: Page) -> None:
    late = [*STORY[4:], *STORY[:4]]
    assert seen(page, late, 25) == seen(page, STORY, 25)


def test_past_when_a_deploy_was_rolled_back_then_the_job_is_gone(page: Page) -> None:
    story: list[Event] = [
        begun(10, "deploy", "clean", DEVICES, target="jfk"),
        ended(12, "deploy", "clean", "rolled_back"),
    ]
    assert seen(page, story, 11)["jobs"] == {"clean": "jfk"}
    assert seen(page, story, 13)["jobs"] == {}


def test_past_when_an_update_was_rolled_back_then_the_job_reads_what_it_read(page: Page) -> None:
    story = [
        *STORY[2:7],
        begun(23, "update", "hourly", DEVICES, source="jfk", target="jfk"),
        ended(25, "update", "hourly", "rolled_back"),
    ]
    assert ["jfk", "hourly"] in seen(page, story, 24)["flows"]
    assert ["clean", "hourly"] in seen(page, story, 26)["flows"]


def test_past_when_a_job_is_older_than_the_first_event_then_is_there_from_the_beginning(page: Page) -> None:
    today = {"old": {"site": "jfk", "inputs": [], "output": output("old").model_dump(mode="json")}}
    story = STORY[-3:]
    assert seen(page, story, 1, today)["jobs"] == {"hourly": "cloud", "old": "jfk"}
    assert seen(page, story, 60, today)["jobs"] == {"old": "jfk"}


def test_past_when_events_say_nothing_of_inputs_then_takes_those_of_today(page: Page) -> None:
    untold = begun(10, "deploy", "clean", [], target="jfk").model_copy(update={"output": None})
    today = {
        "site": "jfk",
        "inputs": [DEVICES[0].model_dump(mode="json")],
        "output": output("clean").model_dump(mode="json"),
    }
    assert seen(page, [untold], 11, {"clean": today})["flows"] == [["jfk", "clean"]]
    assert seen(page, [untold], 11) == {"jobs": {"clean": "jfk"}, "sites": ["jfk"], "flows": []}
