"""Queries over REST: texts become pipelines, mistakes have places, and answers begin where a client left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from api_trial import Trial, running_api

from towpath.api.handlers.answers import NO_STREAM_YET, beginning
from towpath.contracts.commands import JobList, ListJobs, ListSites, SiteList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.pipeline import EXAMPLE_PIPELINE, ApplyState, ApplyView, PipelineSpec, PipelineView
from towpath.contracts.pipeline_commands import (
    ApplyPipeline,
    DeletePipeline,
    ListPipelines,
    PipelineList,
    ShowPipeline,
)
from towpath.contracts.query import AnswersQuery
from towpath.contracts.rest_query_routes import EXAMPLE_QUERIES
from towpath.contracts.site import SiteState, SiteStatus
from towpath.queries.compilation import Asked, compiled
from towpath.streams.stream_view import StreamView

WRONG = 's = STREAM FROM topic(topic="site/a")\nq = COMPUTE AGV(x, 10 SECONDS)\n'
ALL_SITES = 's = STREAM FROM topic(topic="site/a", sites="*")\nq = COMPUTE SUM(x, 10 s) EVERY 5 s\n'


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    async with running_api() as started:
        started.coordinator.answers = {
            ListSites: lambda _: SiteList(sites=[site("jfk"), site("lga")]),
            ListJobs: lambda _: JobList(jobs=[]),
            ApplyPipeline: lambda _: applied(),
            DeletePipeline: lambda _: applied(),
            ShowPipeline: lambda command: view(command.pipeline),
            ListPipelines: lambda _: PipelineList(pipelines=[view("delays"), view("other")]),
        }
        yield started


def site(name: str) -> SiteStatus:
    return SiteStatus(site=name, state=SiteState.UP, nats_url="nats://a:1", mqtt_host="a", mqtt_port=2)


def applied() -> ApplyView:
    return ApplyView(
        apply="a1", pipeline="delays", version=1, state=ApplyState.RUNNING, begun_at=now(), changes=[]
    )


def view(name: str, text: str = str(EXAMPLE_QUERIES["text"])) -> PipelineView:
    """Return a pipeline: `delays` answers queries, and `other` does not."""
    asked = Asked(name, "jfk", text, {}, ["jfk"])
    spec = PipelineSpec.model_validate({**EXAMPLE_PIPELINE, "name": name})
    return PipelineView(
        pipeline=name, version=1, spec=compiled(asked).pipeline if name == "delays" else spec, apply=applied()
    )


async def test_text_when_run_then_the_pipeline_that_the_command_line_makes_is_applied(trial: Trial) -> None:
    body = {"name": "delays", "at": "jfk", "text": ALL_SITES, "trigger_s": 3, "drop_state": ["delays"]}

    response, _ = await trial.send("POST", "/queries", json=body, headers={"Idempotency-Key": "k1"})

    assert (response.status, response.headers["Location"]) == (202, "/queries/delays")
    command = trial.coordinator.newest()
    assert command.spec == compiled(Asked("delays", "jfk", ALL_SITES, {}, ["jfk", "lga"], 3)).pipeline
    assert (command.id, command.drop_state) == ("k1", ["delays"])


async def test_text_when_its_name_is_that_of_another_pipeline_then_is_refused_and_the_pipeline_stays(
    trial: Trial,
) -> None:
    response, problem = await trial.send("POST", "/queries", json={**EXAMPLE_QUERIES, "name": "other"})

    assert (response.status, problem["code"], problem["field"]) == (409, "name_in_use", "name")
    assert ApplyPipeline not in map(type, trial.coordinator.asked)


def unknown(_: ShowPipeline) -> PipelineView:
    raise TowpathError(ErrorCode.UNKNOWN_PIPELINE, "there is none")


def half_removed(command: ShowPipeline) -> PipelineView:
    spec = PipelineSpec(name=command.pipeline, jobs=[])
    return PipelineView(pipeline=command.pipeline, version=2, spec=spec, apply=applied())


async def test_text_when_no_pipeline_has_its_name_then_is_applied(trial: Trial) -> None:
    trial.coordinator.answers[ShowPipeline] = unknown

    response, _ = await trial.send("POST", "/queries", json=EXAMPLE_QUERIES)

    assert response.status == 202


async def test_text_when_wrong_then_is_not_applied_and_the_problem_has_the_place(trial: Trial) -> None:
    response, problem = await trial.send("POST", "/queries", json={**EXAMPLE_QUERIES, "text": WRONG})

    assert (response.status, problem["field"], problem["value"]) == (422, "line 2, column 13", "AGV")
    assert "AVG" in problem["allowed"]
    assert ApplyPipeline not in map(type, trial.coordinator.asked)


async def test_text_when_a_name_would_be_too_long_for_its_jobs_then_is_refused(trial: Trial) -> None:
    body = {"name": "q" * 48, "at": "jfk", "text": ALL_SITES}

    response, problem = await trial.send("POST", "/queries", json=body)

    assert (response.status, problem["field"]) == (422, "name")


@pytest.mark.parametrize("address", ["ftp://a/b", "//a/b", "https://", "http://a b"])
async def test_text_when_its_webhook_is_no_http_address_then_is_refused(trial: Trial, address: str) -> None:
    response, problem = await trial.send("POST", "/queries", json={**EXAMPLE_QUERIES, "webhook": address})

    assert (response.status, problem["field"], problem["value"]) == (422, "webhook", address)


async def test_check_when_a_text_is_wrong_then_answers_with_place_and_words(trial: Trial) -> None:
    response, found = await trial.send("POST", "/queries/check", json={"text": WRONG, "cursor": 0})

    assert response.status == 200
    assert (found["mistake"]["line"], found["mistake"]["column"]) == (2, 13)
    assert found["offers"] == []


async def test_explanation_when_asked_for_then_has_the_part_of_each_site(trial: Trial) -> None:
    response, found = await trial.send("POST", "/queries/explain", json={"at": "jfk", "text": ALL_SITES})

    assert response.status == 200
    assert [share["site"] for share in found["sites"]] == ["jfk", "lga"]
    assert found["sites"][0]["parts"][1] == {"part": "sum", "of": "x of s", "serves": ["q"]}


async def test_queries_when_listed_then_other_pipelines_are_left_out(trial: Trial) -> None:
    _, found = await trial.send("GET", "/queries")

    shown = [(one["name"], one["at"], one["topic"], one["state"]) for one in found["queries"]]
    assert shown == [("delays", "jfk", "queries/delays", "running")]
    assert found["queries"][0]["text"] == EXAMPLE_QUERIES["text"]
    assert [one["query"] for one in found["queries"][0]["queries"]] == ["mean_delay"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/queries/other"), ("DELETE", "/queries/other"), ("GET", "/queries/other/answers")],
)
async def test_pipeline_when_it_answers_no_queries_then_is_not_found_and_stays(
    trial: Trial, method: str, path: str
) -> None:
    response, problem = await trial.send(method, path)

    assert (response.status, problem["code"], problem["field"]) == (404, "unknown_pipeline", "name")
    assert DeletePipeline not in map(type, trial.coordinator.asked)


async def test_queries_when_removed_then_their_pipeline_is_deleted(trial: Trial) -> None:
    response, _ = await trial.send("DELETE", "/queries/delays?purge=true&now=true")

    command = trial.coordinator.newest()
    assert (response.status, command.pipeline, command.purge, command.now) == (202, "delays", True, True)


@pytest.mark.parametrize("shown", [unknown, half_removed])
async def test_removal_when_sent_again_then_the_coordinator_answers_it(
    trial: Trial, shown: Callable[[ShowPipeline], PipelineView]
) -> None:
    trial.coordinator.answers[ShowPipeline] = shown

    response, _ = await trial.send("DELETE", "/queries/delays", headers={"Idempotency-Key": "k1"})

    assert (response.status, trial.coordinator.newest().id) == (202, "k1")


MORE = {
    "name": "delays",
    "into": True,
    "text": "most = COMPUTE MAX(delay, 1 HOURS) EVERY 10 MINUTES BY carrier;",
}


async def test_text_when_it_joins_then_both_are_applied_unless_the_running_one_has_changed(
    trial: Trial,
) -> None:
    response, _ = await trial.send("POST", "/queries", json={**MORE, "drop_state": ["delays-jfk"]})

    command = trial.coordinator.newest()
    both = f"{EXAMPLE_QUERIES['text']}\n{MORE['text']}\n"
    assert (response.status, command.expected_apply, command.drop_state) == (202, "a1", ["delays-jfk"])
    assert command.spec == compiled(Asked("delays", "jfk", both, {}, ["jfk", "lga"])).pipeline


async def test_text_when_it_cannot_join_then_the_problem_has_the_place_in_the_new_text(trial: Trial) -> None:
    wrong = {**MORE, "text": "\nmean_delay = COMPUTE MAX(delay, 1 HOURS);"}

    response, problem = await trial.send("POST", "/queries", json=wrong)

    assert (response.status, problem["field"], problem["value"]) == (422, "line 2, column 1", "mean_delay")
    assert ApplyPipeline not in map(type, trial.coordinator.asked)


async def test_text_when_it_joins_another_pipeline_or_site_then_is_refused(trial: Trial) -> None:
    _, of_other = await trial.send("POST", "/queries", json={**MORE, "name": "other"})
    _, elsewhere = await trial.send("POST", "/queries", json={**MORE, "at": "lga"})

    assert (of_other["code"], elsewhere["field"]) == ("unknown_pipeline", "at")


async def test_text_when_it_neither_joins_nor_names_a_site_then_is_refused(trial: Trial) -> None:
    response, problem = await trial.send("POST", "/queries", json={**MORE, "into": False})

    assert (response.status, "`at`" in problem["detail"]) == (422, True)


async def test_explanation_when_a_text_joins_then_says_what_is_new_and_which_state_is_lost(
    trial: Trial,
) -> None:
    _, found = await trial.send("POST", "/queries/explain", json=MORE)

    assert ([one["query"] for one in found["queries"]], found["added"]) == (["mean_delay", "most"], ["most"])
    assert found["begin_again"] == ["delays-jfk"]
    assert {"part": "count", "of": "delay of s", "serves": ["mean_delay", "most"]} in found["sites"][0][
        "parts"
    ]


async def test_query_when_taken_out_then_the_others_are_applied_and_nothing_is_deleted(trial: Trial) -> None:
    text = f"{EXAMPLE_QUERIES['text']}\n{MORE['text']}\n"
    trial.coordinator.answers[ShowPipeline] = lambda _: view("delays", text)

    response, _ = await trial.send("DELETE", "/queries/delays?query=most&drop_state=delays-jfk")

    command = trial.coordinator.newest()
    assert (response.status, command.expected_apply, command.drop_state) == (202, "a1", ["delays-jfk"])
    assert command.spec == view("delays").spec
    assert DeletePipeline not in map(type, trial.coordinator.asked)


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ("query=mean_delay", 409, "query"),
        ("query=other", 422, "query"),
        ("query=most&purge=true", 422, "purge"),
    ],
)
async def test_query_when_it_cannot_be_taken_out_then_all_stay(
    trial: Trial, asked: str, status: int, field: str
) -> None:
    response, problem = await trial.send("DELETE", f"/queries/delays?{asked}")

    assert (response.status, problem["field"]) == (status, field)
    assert not {ApplyPipeline, DeletePipeline} & {*map(type, trial.coordinator.asked)}


KEPT = StreamView("OUT_delays", created="", subjects=(), first=11, last=50, size=1)


@pytest.mark.parametrize(
    ("query", "resumed", "kept", "after", "is_told"),
    [
        ({}, None, NO_STREAM_YET, 0, False),
        ({"newest": 5}, None, KEPT, 45, False),
        ({"newest": 500}, None, KEPT, 0, False),
        ({"after": 20}, None, KEPT, 20, False),
        ({"after": 20}, 30, KEPT, 30, False),
        ({"after": 10}, None, KEPT, 10, False),
        ({"after": 9}, None, KEPT, 9, True),
        ({"newest": 5}, 60, KEPT, 45, True),
    ],
    ids=["no stream", "newest", "all", "after", "header first", "none lost", "some lost", "another stream"],
)
def test_answers_when_followed_then_begin_where_the_client_left_or_it_is_told(
    query: dict[str, Any], resumed: int | None, kept: StreamView, after: int, is_told: bool
) -> None:
    found, opening = beginning(AnswersQuery(**query), resumed, kept)

    assert (found, opening.startswith(b"event: lost")) == (after, is_told)
