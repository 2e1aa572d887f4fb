"""Messages to the live page: everything once, then only the differences."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from api_trial import TOKEN, Trial, running_api

from running.waiting import WITHIN_S
from towpath.api.live_feed import BEHIND, FeedFollower
from towpath.api.live_state import LiveState
from towpath.contracts.autopilot import (
    AutopilotMode,
    AutopilotSpec,
    AutopilotStatus,
    Decision,
    DecisionChanged,
    ShowAutopilot,
    SiteWindow,
    WindowChanged,
)
from towpath.contracts.commands import (
    JobList,
    JobView,
    ListJobs,
    ListOperations,
    ListSites,
    OperationList,
    SiteList,
)
from towpath.contracts.fault_commands import ListRules, RuleList
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, JobState, ResolvedOutput, Standby
from towpath.contracts.live import LiveChange
from towpath.contracts.metrics import QueryMetrics, Series, SeriesList
from towpath.contracts.site import SiteStatus
from towpath.contracts.standby import ListStandbys, StandbyList, StandbyView
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites

SPEC = JobSpec.model_validate(EXAMPLE_SPEC)
OUTPUT = ResolvedOutput(site="jfk", stream="OUT_hourly-jfk", topic="a", rejected_topic="a/rejected")


def job(site: str) -> JobView:
    return JobView(
        spec=SPEC, site=site, epoch=1, state=JobState.RUNNING, operation=None, status=None, output=OUTPUT
    )


def set_mode(home: Path, mode: AutopilotMode) -> None:
    """Change the mesh's settings, as `towpath up --autopilot` does."""
    provision(Home(home), spec_of_sites("jfk").model_copy(update={"autopilot": AutopilotSpec(mode=mode)}))


def autopilot_status() -> AutopilotStatus:
    return AutopilotStatus(
        mode=AutopilotMode.PROPOSE,
        policy="performance",
        latency_s=5.0,
        trouble="no one answers",
        windows=[SiteWindow.model_validate(WindowChanged.example["now"])],
        decisions=[Decision.model_validate(DecisionChanged.example["now"])],
    )


@pytest.fixture
async def trial(tmp_path: Path) -> AsyncIterator[Trial]:
    set_mode(tmp_path, AutopilotMode.OFF)
    async with running_api(tmp_path) as started:
        sample = Series(site="jfk", entity="job:a", metric="job.backlog", unit="{event}", points=[(1.0, 5.0)])
        started.coordinator.answers = {
            ListSites: lambda _: SiteList(sites=[SiteStatus.model_validate(SiteStatus.example)]),
            ListJobs: lambda _: JobList(jobs=[job("jfk")]),
            ListOperations: lambda _: OperationList(operations=[]),
            ListRules: lambda _: RuleList(rules=[]),
            QueryMetrics: lambda _: SeriesList(series=[sample]),
        }
        yield started


async def told(response: ClientResponse, *kinds: str) -> tuple[str, LiveChange]:
    """The next message of one of these kinds, as its model."""
    kind = ""
    async with asyncio.timeout(WITHIN_S):
        while True:
            line = (await response.content.readline()).decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data" and kind in kinds:
                return kind, LiveChange.model_validate_json(value)


def follow(trial: Trial) -> Any:
    return trial.client.get("/live", headers={"Authorization": f"Bearer {TOKEN}"})


async def test_client_when_it_comes_then_is_told_everything_first(trial: Trial) -> None:
    async with follow(trial) as response:
        _, first = await told(response, "snapshot")
    assert response.headers["Content-Type"] == "text/event-stream"
    assert list(first.sites) == ["jfk"]
    assert first.jobs["hourly-jfk"] is not None
    assert first.jobs["hourly-jfk"].site == "jfk"


async def test_client_when_a_job_has_moved_then_is_told_the_job_and_nothing_else(trial: Trial) -> None:
    async with follow(trial) as response:
        await told(response, "snapshot")
        trial.coordinator.answers[ListJobs] = lambda _: JobList(jobs=[job("cloud")])
        while True:
            _, change = await told(response, "change")
            if change.jobs:
                break
    assert change.jobs["hourly-jfk"] is not None
    assert change.jobs["hourly-jfk"].site == "cloud"
    assert not change.sites


async def test_client_when_a_job_has_a_standby_then_is_told_how_far_it_is_behind(trial: Trial) -> None:
    view = StandbyView(job="hourly-jfk", site="jfk", standby="cloud", every_s=10, behind_s=4.2)
    spec = SPEC.model_copy(update={"standby": Standby(site="cloud")})
    trial.coordinator.answers[ListJobs] = lambda _: JobList(
        jobs=[job("jfk").model_copy(update={"spec": spec})]
    )
    trial.coordinator.answers[ListStandbys] = lambda _: StandbyList(standbys=[view])
    async with follow(trial) as response:
        _, first = await told(response, "snapshot")
    assert first.standbys == {"hourly-jfk": view}


async def test_client_when_no_job_has_a_standby_then_no_one_is_asked_about_them(trial: Trial) -> None:
    async with follow(trial) as response:
        _, first = await told(response, "snapshot")
    assert first.standbys == {}
    assert not any(isinstance(command, ListStandbys) for command in trial.coordinator.asked)


async def test_client_when_the_collector_answers_then_is_told_the_newest_values(trial: Trial) -> None:
    async with follow(trial) as response:
        kind, change = await told(response, "snapshot", "change")
        while not change.values:
            kind, change = await told(response, "change")
    assert kind in ("snapshot", "change")
    assert change.values == {"jfk/job:a/job.backlog": (1.0, 5.0)}


async def test_client_when_the_collector_does_not_answer_then_is_told_so_and_the_rest(trial: Trial) -> None:
    del trial.coordinator.answers[QueryMetrics]
    async with follow(trial) as response:
        _, change = await told(response, "snapshot", "change")
        sites = dict(change.sites)
        while "collector" not in change.unanswered:
            _, change = await told(response, "change")
    assert list(sites) == ["jfk"]
    assert "no one answers" in (change.unanswered["collector"] or "")


async def test_client_when_the_autopilot_is_off_then_is_told_so_and_no_one_is_asked(trial: Trial) -> None:
    async with follow(trial) as response:
        _, change = await told(response, "snapshot", "change")
        while not change.autopilot:
            _, change = await told(response, "change")
    off = change.autopilot["hub"]
    assert off is not None
    assert off.mode is AutopilotMode.OFF
    assert not any(isinstance(command, ShowAutopilot) for command in trial.coordinator.asked)


async def test_client_when_the_autopilot_is_on_then_is_told_what_it_knows(
    trial: Trial, tmp_path: Path
) -> None:
    set_mode(tmp_path, AutopilotMode.PROPOSE)
    trial.coordinator.answers[ShowAutopilot] = lambda _: autopilot_status()
    async with follow(trial) as response:
        _, change = await told(response, "snapshot", "change")
        while not change.decisions:
            _, change = await told(response, "change")
    on = change.autopilot["hub"]
    assert on is not None
    assert (on.mode, on.horizon_s, on.trouble) == ("propose", 600.0, "no one answers")
    assert [*change.windows] == ["w1"]
    assert [*change.decisions] == ["d1"]


async def test_client_when_it_comes_after_all_others_left_then_begins_with_the_present(trial: Trial) -> None:
    async with follow(trial) as response:
        await told(response, "snapshot")
    trial.coordinator.answers[ListJobs] = lambda _: JobList(jobs=[])
    async with follow(trial) as response:
        _, first = await told(response, "snapshot")
    assert first.jobs == {}


async def test_live_when_asked_without_the_token_then_is_refused(trial: Trial) -> None:
    async with trial.client.get("/live") as response:
        assert response.status == 401


def test_state_when_a_section_is_replaced_then_only_differences_are_told() -> None:
    state = LiveState()
    assert state.replace("statuses", {"a": {"batch": 1}, "b": {"batch": 1}}) == {
        "statuses": {"a": {"batch": 1}, "b": {"batch": 1}}
    }
    assert state.replace("statuses", {"a": {"batch": 2}, "b": {"batch": 1}}) == {
        "statuses": {"a": {"batch": 2}}
    }
    assert state.replace("statuses", {"a": {"batch": 2}}) == {"statuses": {"b": None}}
    assert state.replace("statuses", {"a": {"batch": 2}}) == {}
    assert state.everything()["statuses"] == {"a": {"batch": 2}}


def test_state_when_a_service_answers_again_then_its_problem_is_taken_back() -> None:
    state = LiveState()
    assert state.note("collector", "away") == {"unanswered": {"collector": "away"}}
    assert state.note("collector", "away") == {}
    assert state.note("collector", None) == {"unanswered": {"collector": None}}


def test_follower_when_too_far_behind_then_is_cut_off_and_keeps_no_more() -> None:
    follower = FeedFollower()
    for number in range(BEHIND + 50):
        follower.put(json.dumps(number).encode() + b";")
    assert follower.cut_off
    assert follower.take().count(b";") == BEHIND
